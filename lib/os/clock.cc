#include "lib/os/clock.h"

#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_gettime is POSIX, not in <ctime>

namespace dlprobe {
namespace {

int64_t read_clock(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);  // cannot fail for these two clocks
  return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

BootNs SystemClock::now() const {
  return read_clock(CLOCK_BOOTTIME);
}

int64_t SystemClock::realtime_ns() const {
  return read_clock(CLOCK_REALTIME);
}

}  // namespace dlprobe
