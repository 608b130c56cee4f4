#include "lib/os/clock.h"

#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime is POSIX, not in <ctime>
#include <unistd.h>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

int64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);  // cannot fail for these clocks
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

std::optional<int64_t> time_by(int clock) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)
    return std::nullopt;
  return read_clock(clock);
}

int64_t ns_of_ticks(uint64_t ticks) {
  static const auto ticks_per_second = static_cast<int64_t>(::sysconf(_SC_CLK_TCK));
  return static_cast<int64_t>(ticks) * (kSecond / ticks_per_second);
}

int64_t cpu_time_of_thread() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

int64_t started_realtime_ns(const Clock& clock, uint64_t start_ticks) {
  return clock.realtime_ns() - clock.now() + ns_of_ticks(start_ticks);
}

BootNs SystemClock::now() const {
  return read_clock(CLOCK_BOOTTIME);
}

int64_t SystemClock::realtime_ns() const {
  return read_clock(CLOCK_REALTIME);
}

}  // namespace dlprobe
