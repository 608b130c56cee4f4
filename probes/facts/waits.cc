#include "probes/facts/waits.h"

namespace dlprobe {
namespace {

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
  const Syscall* call = find_syscall(wait.syscall, machine);
  if (call == nullptr) return WaitKind::kOther;
  return wait_without_files(wait, call->wait, machine).value_or(call->wait);
}

std::optional<int32_t> poll_timeout_ms(const ThreadWait& wait, std::string_view machine) {
  const Syscall* call = wait.running ? nullptr : find_syscall(wait.syscall, machine);
  if (call == nullptr || call->name != "poll") return std::nullopt;
  return static_cast<int32_t>(wait.args.at(2));
}

bool has_timeout(const ThreadWait& wait, std::string_view machine) {
  switch (kind_of(wait, machine)) {
    case WaitKind::kEpoll:
      // It has a pointer to its timeout.
      if (find_syscall(wait.syscall, machine)->name == "epoll_pwait2") return wait.args.at(3) != 0;
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

bool may_wake_for_nothing(const ThreadSnapshot& thread, std::string_view machine) {
  if (thread.futex) return thread.futex->timed;
  switch (kind_of(thread.wait, machine)) {
    case WaitKind::kSleep:
    case WaitKind::kOther:
      return true;
    default:
      return has_timeout(thread.wait, machine);
  }
}

}  // namespace dlprobe
