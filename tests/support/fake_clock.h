#pragma once

#include "lib/os/clock.h"

namespace dlprobe {

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
