#pragma once

#include <cstdint>

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

/// The kernel's clocks.
class SystemClock final : public Clock {
 public:
  BootNs now() const override;
  int64_t realtime_ns() const override;
};

/// A clock that stands still until it is told to move.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(BootNs start = 0) : now_(start) {}
  BootNs now() const override { return now_; }
  int64_t realtime_ns() const override { return kRealtimeAtBoot + now_; }
  void set(BootNs now) { now_ = now; }
  void advance(int64_t nanoseconds) { now_ += nanoseconds; }

  /// 2026-01-01T00:00:00Z.
  static constexpr int64_t kRealtimeAtBoot = 1'767'225'600'000'000'000;

 private:
  BootNs now_;
};

}  // namespace dlprobe
