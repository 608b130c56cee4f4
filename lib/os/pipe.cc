#include "lib/os/pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/base/units.h"

namespace dlprobe {

Expected<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_failure("make a pipe");
  return Pipe{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
}

ssize_t read_uninterrupted(int fd, void* into, size_t size) {
  ssize_t count = 0;
  do {
    count = ::read(fd, into, size);
  } while (count < 0 && errno == EINTR);
  return count;
}

bool becomes_readable(int fd, const Clock& clock, BootNs end) {
  while (true) {
    const BootNs left = std::max<BootNs>(end - clock.now(), 0);
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const timespec timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
    const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

}  // namespace dlprobe
