#include "lib/subject/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>

namespace dlprobe {
namespace {

// What dlprobe itself changes (blocked signals, ignored SIGPIPE, raised limit) must not reach the
// command.
struct InheritedState {
  sigset_t mask = {};
  struct sigaction sigpipe = {};
  rlimit open_files = {};
};

std::optional<InheritedState>& inherited() {
  static std::optional<InheritedState> state;
  return state;
}

int wait_status_of(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return (info.si_status & 0x7f) | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

struct Launch {
  std::vector<char*> argv;
  std::vector<std::pair<int, int>> descriptors;
  bool dies_with_us = false;
  pid_t parent = 0;
  int report_fd = -1;
};

[[noreturn]] void give_up(int report_fd) {
  const int error = errno;
  // A pipe takes an int whole; if even that fails the parent sees a child that ended at once.
  if (::write(report_fd, &error, sizeof error) < 0) _exit(127);
  _exit(127);
}

// Runs in the child between fork and exec.
[[noreturn]] void become(const Launch& launch) {
  if (launch.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launch.parent) _exit(127);  // it died before the line above
  }
  for (const auto& [from, to] : launch.descriptors) {
    // dup2 clears close-on-exec, except onto itself.
    const bool given = from == to ? ::fcntl(from, F_SETFD, 0) == 0 : ::dup2(from, to) >= 0;
    if (!given) give_up(launch.report_fd);
  }
  if (const auto& state = inherited()) {
    ::setrlimit(RLIMIT_NOFILE, &state->open_files);
    ::sigaction(SIGPIPE, &state->sigpipe, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &state->mask, nullptr);
  }
  ::execvp(launch.argv.front(), launch.argv.data());
  give_up(launch.report_fd);
}

}  // namespace

void remember_inherited_state() {
  InheritedState& state = inherited().emplace();
  ::pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
  ::sigaction(SIGPIPE, nullptr, &state.sigpipe);
  ::getrlimit(RLIMIT_NOFILE, &state.open_files);
}

Expected<ChildProcess> ChildProcess::start(const ChildSpec& spec) {
  if (spec.argv.empty()) return failure(ErrorCode::kInvalid, "no command was given");
  std::array<int, 2> report{};
  if (::pipe2(report.data(), O_CLOEXEC) != 0) return os_failure("pipe");
  const UniqueFd read_end(report[0]);
  UniqueFd write_end(report[1]);
  ::prctl(PR_SET_CHILD_SUBREAPER, spec.adopts_orphans ? 1 : 0);

  std::vector<std::string> argv = spec.argv;
  Launch launch;
  for (std::string& argument : argv)
    launch.argv.push_back(argument.data());
  launch.argv.push_back(nullptr);
  launch.descriptors = spec.descriptors;
  launch.dies_with_us = spec.dies_with_us;
  launch.parent = ::getpid();
  launch.report_fd = write_end.get();

  const pid_t pid = ::fork();
  if (pid < 0) return os_failure("fork");
  if (pid == 0) become(launch);

  write_end.reset();
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(read_end.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return ChildProcess(pid);
  ::waitpid(pid, nullptr, 0);
  return os_failure("run " + spec.argv.front(), error);
}

std::optional<EndedChild> next_ended_child() {
  siginfo_t info = {};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return EndedChild{.pid = info.si_pid, .wait_status = wait_status_of(info)};
}

void reap(const EndedChild& child) {
  ::waitpid(child.pid, nullptr, WNOHANG);
}

}  // namespace dlprobe
