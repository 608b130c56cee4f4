#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "lib/os/machine.h"

namespace dlprobe {

/// Since when a blocked thread has not run, also before dlprobe came: the kernel keeps the clock at
/// which it blocked (parse_sched_file). That clock is of one CPU alone, so dlprobe's own thread
/// goes to each such CPU once, for a moment, to read what the clock says now.
class LastRun {
 public:
  explicit LastRun(const Machine& machine) : machine_(machine) {}

  /// A moment after which the thread has not run; the true one is this or a little earlier. `task`
  /// is its folder in `process`, `cpu` the one it ran on last. Nothing where it cannot be known: a
  /// kernel without the file, a CPU that is not ours to use, or too many CPUs that are busy.
  std::optional<BootNs> of(const Directory& process, const std::string& task, int32_t cpu);

 private:
  struct CpuClock {
    BootNs at = 0;
    uint64_t clock_ns = 0;
  };
  const std::optional<CpuClock>& clock_of(int32_t cpu);
  std::optional<CpuClock> read_clock(int32_t cpu);

  const Machine& machine_;
  std::map<int32_t, std::optional<CpuClock>> clocks_;
  BootNs spent_ = 0;
};

}  // namespace dlprobe
