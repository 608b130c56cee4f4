#pragma once

#include <sys/types.h>

#include <cstddef>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/os/clock.h"

namespace dlprobe {

/// Both ends of a pipe, closed on exec.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};
Expected<Pipe> make_pipe();

/// read(2), begun again where a signal interrupts it.
ssize_t read_uninterrupted(int fd, void* into, size_t size);

/// Waits until `end` for something to read there, or for the end of the process of a pidfd. Whether
/// it came.
bool becomes_readable(int fd, const Clock& clock, BootNs end);

}  // namespace dlprobe
