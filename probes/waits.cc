#include "probes/waits.h"

#include <array>

namespace dlprobe {
namespace {

// asm/unistd_64.h of x86, asm-generic/unistd.h of aarch64 (which has no poll); -1: none.
struct SyscallNumbers {
  std::string_view machine;
  int64_t poll;
  int64_t ppoll;
  int64_t read;
  int64_t futex;
};
constexpr std::array<SyscallNumbers, 2> kMachines = {{
    {"x86_64", 7, 271, 0, 202},
    {"aarch64", -1, 73, 63, 98},
}};

const SyscallNumbers* numbers_of(std::string_view machine) {
  for (const SyscallNumbers& numbers : kMachines) {
    if (numbers.machine == machine) return &numbers;
  }
  return nullptr;
}

}  // namespace

WaitKind kind_of(const ThreadWait& wait, std::string_view machine) {
  if (wait.running) return WaitKind::kRunning;
  const SyscallNumbers* numbers = numbers_of(machine);
  if (numbers == nullptr || wait.syscall < 0) return WaitKind::kOther;
  if (wait.syscall == numbers->poll || wait.syscall == numbers->ppoll) return WaitKind::kPoll;
  if (wait.syscall == numbers->read) return WaitKind::kRead;
  if (wait.syscall == numbers->futex) return WaitKind::kFutex;
  return WaitKind::kOther;
}

std::optional<int32_t> poll_timeout_ms(const ThreadWait& wait, std::string_view machine) {
  const SyscallNumbers* numbers = numbers_of(machine);
  if (wait.running || numbers == nullptr || wait.syscall < 0 || wait.syscall != numbers->poll) {
    return std::nullopt;
  }
  return static_cast<int32_t>(wait.args.at(2));
}

}  // namespace dlprobe
