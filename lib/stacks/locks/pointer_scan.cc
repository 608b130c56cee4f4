#include "lib/stacks/locks/pointer_scan.h"

#include <algorithm>
#include <vector>

#include "lib/base/units.h"
#include "lib/stacks/native/memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kChunkBytes = kMiB;

struct Part {
  uint64_t begin;
  uint64_t end;
};

/// The parts of a mapping that are in memory, none larger than a chunk. All of it where the kernel
/// does not tell.
std::vector<Part> parts_in_memory(const ProcessAccess& processes, int32_t pid,
                                  const Mapping& mapping) {
  constexpr uint64_t kPage = ProcessMemory::kPageBytes;
  const size_t count = (mapping.end - mapping.begin) / kPage;
  const auto present = processes.pages_in_memory(pid, mapping.begin, count);
  std::vector<Part> parts;
  for (size_t page = 0; page < count; ++page) {
    if (present && !(*present)[page]) continue;
    const uint64_t at = mapping.begin + page * kPage;
    if (!parts.empty() && parts.back().end == at && at - parts.back().begin < kChunkBytes) {
      parts.back().end = at + kPage;
    } else {
      parts.push_back({.begin = at, .end = at + kPage});
    }
  }
  return parts;
}

}  // namespace

bool may_hold_objects(const Mapping& mapping) {
  return mapping.readable && mapping.writable && !mapping.shared;
}

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
  for (const Part& part : parts_in_memory(processes_, pid_, mapping)) {
    const uint64_t at = part.begin;
    const auto chunk = std::span(words).first((part.end - at) / sizeof(uint64_t));
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
