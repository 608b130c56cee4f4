#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// /proc/PID/task/TID/syscall: where a thread is in the kernel.
struct SyscallFile {
  bool running = false;
  int64_t number = -1;  ///< -1: blocked, but not in a system call
  std::array<uint64_t, 6> args = {};
  uint64_t stack_pointer = 0;  ///< 0 while it runs, as program_counter
  uint64_t program_counter = 0;

  bool operator==(const SyscallFile&) const = default;
};

Expected<SyscallFile> parse_syscall_file(std::string_view text);

}  // namespace dlprobe
