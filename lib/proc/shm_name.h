#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "lib/model/shm.h"

namespace dlprobe {

/// What the name of a file in /dev/shm says.
struct ShmName {
  SegmentKind kind = SegmentKind::kOther;
  std::optional<int32_t> creator_pid;  ///< in the creator's own pid namespace

  bool operator==(const ShmName&) const = default;
};

/// torch_PID_RANDOM_COUNTER (1.12+), torch_PID_COUNTER (1.11), torch_PID_RANDOM (before), sem.mp-*
/// and sem.* (glibc's sem_open adds "sem."), psm_* (multiprocessing.shared_memory). A mapping's
/// name may come with its folder and " (deleted)". The name is hostile text: a pid in it proves
/// nothing.
ShmName parse_shm_name(std::string_view name);

}  // namespace dlprobe
