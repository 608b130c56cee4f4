#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "lib/os/process_access.h"
#include "lib/stacks/native/address_space.h"

namespace dlprobe {

/// Whether a program's own data may lie there: private memory that can be written.
bool may_hold_objects(const Mapping& mapping);

/// Finds where a process keeps certain pointers: in its private writable memory, at multiples of
/// eight bytes, the smallest mappings first. Pages that are not in memory (never touched, or
/// swapped out) are left alone.
class PointerScan {
 public:
  PointerScan(const ProcessAccess& processes, int32_t pid, const AddressSpace& space)
      : processes_(processes), pid_(pid), space_(space) {}

  /// Calls `found(address, pointer)` for every place that holds one of `pointers` (sorted), until
  /// it returns false. False if memory was left out: more than `limit_bytes`, or unreadable.
  bool run(std::span<const uint64_t> pointers, uint64_t limit_bytes,
           const std::function<bool(uint64_t address, uint64_t pointer)>& found) const;

 private:
  bool scan(const Mapping& mapping, std::span<const uint64_t> pointers,
            const std::function<bool(uint64_t address, uint64_t pointer)>& found,
            bool& goes_on) const;

  const ProcessAccess& processes_;
  int32_t pid_;
  const AddressSpace& space_;
};

}  // namespace dlprobe
