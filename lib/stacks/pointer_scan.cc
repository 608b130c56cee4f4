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
  uint64_t scanned = 0;
  std::vector<uint64_t> words(kChunkBytes / sizeof(uint64_t));
  for (const Mapping* mapping : mappings) {
    if (scanned + (mapping->end - mapping->begin) > limit_bytes) return false;
    scanned += mapping->end - mapping->begin;
    for (uint64_t at = mapping->begin; at < mapping->end; at += kChunkBytes) {
      const auto chunk =
          std::span(words).first(std::min(kChunkBytes, mapping->end - at) / sizeof(uint64_t));
      if (!processes_.read_memory(pid_, at, std::as_writable_bytes(chunk))) {
        complete = false;
        break;
      }
      for (size_t i = 0; i < chunk.size(); ++i) {
        // Most words lie outside of the range: one comparison each.
        if (chunk[i] < pointers.front() || chunk[i] > pointers.back()) continue;
        if (!std::ranges::binary_search(pointers, chunk[i])) continue;
        if (!found(at + i * sizeof(uint64_t), chunk[i])) return complete;
      }
    }
  }
  return complete;
}

}  // namespace dlprobe
