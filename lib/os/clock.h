#pragma once

#include <cstdint>
#include <optional>

#include "lib/model/ids.h"

namespace dlprobe {

/// The time, so that tests can have their own.
class Clock {
 public:
  virtual ~Clock() = default;
  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;

  /// CLOCK_BOOTTIME.
  virtual BootNs now() const = 0;
  /// CLOCK_REALTIME in nanoseconds.
  virtual int64_t realtime_ns() const = 0;
};

/// What a clock shows by which a program may sleep (clock_nanosleep(2)), in nanoseconds; nothing of
/// one that counts CPU time.
std::optional<int64_t> time_by(int clock);

/// The nanoseconds of ticks of the kernel, in which it tells CPU time, and since boot when a
/// process started.
int64_t ns_of_ticks(uint64_t ticks);

/// CPU time that the calling thread has had.
int64_t cpu_time_of_thread();

/// When a process started, on CLOCK_REALTIME; `start_ticks` as ProcessKey has it.
int64_t started_realtime_ns(const Clock& clock, uint64_t start_ticks);

/// The kernel's clocks.
class SystemClock final : public Clock {
 public:
  BootNs now() const override;
  int64_t realtime_ns() const override;
};

}  // namespace dlprobe
