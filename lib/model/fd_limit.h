#pragma once

#include <algorithm>
#include <cstdint>

namespace dlprobe {

/// How near to its limit a process of that limit counts as being at it. What opens a descriptor may
/// need several at once, and PyTorch's trainer calls it the end where it cannot have 10 more
/// (_try_get_data of torch/utils/data/dataloader.py, fds_limit_margin).
constexpr uint64_t fd_limit_margin(uint64_t limit) {
  constexpr uint64_t kMost = 10;
  return std::min(kMost, limit / 10);
}

/// Whether `count` descriptors are all that a process of that soft limit can use.
constexpr bool is_at_fd_limit(uint64_t count, uint64_t limit) {
  return count + fd_limit_margin(limit) >= limit;
}

}  // namespace dlprobe
