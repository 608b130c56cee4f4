/// A thread's longest pause, measured by itself: for pause_target.py, by ctypes.
#include <atomic>
#include <chrono>
#include <cstdint>

namespace {
std::atomic<int64_t> longest{0};
}

extern "C" {

/// Never returns.
void gap_meter_run() {
  using Clock = std::chrono::steady_clock;
  for (auto last = Clock::now();;) {
    const auto now = Clock::now();
    const int64_t gap = (now - last).count();
    last = now;
    if (gap > longest.load(std::memory_order_relaxed)) longest.store(gap);
  }
}

/// The longest time, in ns, between two looks at the clock since the last call.
int64_t gap_meter_take() {
  return longest.exchange(0);
}
}
