#include "probes/waits.h"

#include <array>

namespace dlprobe {
namespace {

// asm/unistd_64.h of x86, asm-generic/unistd.h of aarch64, which lacks the older forms (-1).
struct SyscallNumber {
  WaitKind kind;
  int64_t x86_64;
  int64_t aarch64;
};
constexpr std::array<SyscallNumber, 35> kSyscalls = {{
    {WaitKind::kPoll, 7, -1},           {WaitKind::kPoll, 271, 73},
    {WaitKind::kRead, 0, 63},           {WaitKind::kRead, 19, 65},
    {WaitKind::kRead, 17, 67},          {WaitKind::kFutex, 202, 98},
    {WaitKind::kSelect, 23, -1},        {WaitKind::kSelect, 270, 72},
    {WaitKind::kEpoll, 232, -1},        {WaitKind::kEpoll, 281, 22},
    {WaitKind::kEpoll, 441, 441},       {WaitKind::kWrite, 1, 64},
    {WaitKind::kWrite, 20, 66},         {WaitKind::kSleep, 35, 101},
    {WaitKind::kSleep, 230, 115},       {WaitKind::kWaitForChild, 61, 260},
    {WaitKind::kWaitForChild, 247, 95}, {WaitKind::kLockFile, 73, 32},
    {WaitKind::kLockFile, 72, 25},      {WaitKind::kOpen, 2, -1},
    {WaitKind::kOpen, 257, 56},         {WaitKind::kWrite, 18, 68},
    {WaitKind::kOpen, 437, 437},        {WaitKind::kRead, 45, 207},
    {WaitKind::kRead, 47, 212},         {WaitKind::kWrite, 44, 206},
    {WaitKind::kWrite, 46, 211},        {WaitKind::kAccept, 43, 202},
    {WaitKind::kAccept, 288, 242},      {WaitKind::kSignal, 34, -1},
    {WaitKind::kSignal, 130, 133},      {WaitKind::kSignal, 128, 137},
    {WaitKind::kVfork, 58, -1},         {WaitKind::kVfork, 56, 220},
    {WaitKind::kVfork, 435, 435},
}};
constexpr int64_t kPollOnX86 = 7;

// A wait for files that has none: with a timeout it is a sleep, as time.sleep of Python up to 3.10
// has it; without one only a signal ends it.
std::optional<WaitKind> wait_without_files(const ThreadWait& wait, WaitKind kind,
                                           std::string_view machine) {
  const auto& args = wait.args;
  bool is_timed = false;
  if (kind == WaitKind::kPoll && args[1] == 0) {
    const auto timeout = poll_timeout_ms(wait, machine);
    is_timed = timeout ? *timeout >= 0 : args[2] != 0;
  } else if (kind == WaitKind::kSelect &&
             (args[0] == 0 || (args[1] == 0 && args[2] == 0 && args[3] == 0))) {
    is_timed = args[4] != 0;
  } else {
    return std::nullopt;
  }
  return is_timed ? WaitKind::kSleep : WaitKind::kSignal;
}

}  // namespace

WaitKind kind_of(const ThreadWait& wait, std::string_view machine) {
  if (wait.running) return WaitKind::kRunning;
  if (wait.syscall < 0 || (machine != "x86_64" && machine != "aarch64")) return WaitKind::kOther;
  for (const SyscallNumber& number : kSyscalls) {
    const int64_t own = machine == "x86_64" ? number.x86_64 : number.aarch64;
    if (own != wait.syscall) continue;
    return wait_without_files(wait, number.kind, machine).value_or(number.kind);
  }
  return WaitKind::kOther;
}

std::optional<int32_t> poll_timeout_ms(const ThreadWait& wait, std::string_view machine) {
  if (wait.running || machine != "x86_64" || wait.syscall != kPollOnX86) return std::nullopt;
  return static_cast<int32_t>(wait.args.at(2));
}

bool has_timeout(const ThreadWait& wait, std::string_view machine) {
  constexpr int64_t kEpollPwait2 = 441;  // on every machine: it has a pointer
  switch (kind_of(wait, machine)) {
    case WaitKind::kEpoll:
      if (wait.syscall == kEpollPwait2) return wait.args.at(3) != 0;
      return static_cast<int32_t>(wait.args.at(3)) >= 0;
    case WaitKind::kSelect:
      return wait.args.at(4) != 0;
    case WaitKind::kPoll: {
      const auto timeout = poll_timeout_ms(wait, machine);
      return timeout ? *timeout >= 0 : wait.args.at(2) != 0;
    }
    default:
      return false;
  }
}

}  // namespace dlprobe
