#include "lib/os/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

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

}  // namespace dlprobe
