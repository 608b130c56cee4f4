#include "lib/stacks/pointer_scan.h"

#include <algorithm>
#include <vector>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr uint64_t kChunkBytes = kMiB;

bool may_hold_objects(const Mapping& mapping) {
  return mapping.readable && mapping.writable && !mapping.shared;
}

}  // namespace

bool PointerScan::run(std::span<const uint64_t> pointers, uint64_t limit_bytes,
                      const std::function<bool(uint64_t address, uint64_t pointer)>& found) const {
  if (pointers.empty()) return true;
  std::vector<const Mapping*> mappings;
  for (const Mapping& mapping : space_.mappings()) {
    if (may_hold_objects(mapping)) mappings.push_back(&mapping);
  }
  std::ranges::sort(mappings, {}, [](const Mapping* each) { return each->end - each->begin; });
  bool complete = true;
  bool goes_on = true;
  for (const Mapping* mapping : mappings) {
    const uint64_t size = mapping->end - mapping->begin;
    if (size > limit_bytes) return false;
    limit_bytes -= size;
    complete = scan(*mapping, pointers, found, goes_on) && complete;
    if (!goes_on) break;
  }
  return complete;
}

bool PointerScan::scan(const Mapping& mapping, std::span<const uint64_t> pointers,
                       const std::function<bool(uint64_t address, uint64_t pointer)>& found,
                       bool& goes_on) const {
  std::vector<uint64_t> words(std::min(kChunkBytes, mapping.end - mapping.begin) /
                              sizeof(uint64_t));
  for (uint64_t at = mapping.begin; at < mapping.end; at += kChunkBytes) {
    const auto chunk =
        std::span(words).first(std::min(kChunkBytes, mapping.end - at) / sizeof(uint64_t));
    if (!processes_.read_memory(pid_, at, std::as_writable_bytes(chunk))) return false;
    for (size_t i = 0; i < chunk.size(); ++i) {
      // Most words lie outside of the range: one comparison each.
      if (chunk[i] < pointers.front() || chunk[i] > pointers.back()) continue;
      if (!std::ranges::binary_search(pointers, chunk[i])) continue;
      goes_on = found(at + i * sizeof(uint64_t), chunk[i]);
      if (!goes_on) return true;
    }
  }
  return true;
}

}  // namespace dlprobe
