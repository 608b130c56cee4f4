#include "lib/subject/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <span>

#include "lib/os/private_shm.h"

namespace dlprobe {
namespace {

// What dlprobe itself changes (blocked signals, ignored SIGPIPE and SIGXFSZ, raised limit) must not
// reach the command.
struct InheritedState {
  sigset_t mask = {};
  struct sigaction sigpipe = {};
  struct sigaction sigxfsz = {};
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

// What a child tells its parent before it becomes the command: a pipe takes it whole.
struct LaunchNews {
  enum class Kind { kWaits, kLimitRefused, kNotExecuted } kind = Kind::kWaits;
  int os_errno = 0;
  std::array<char, 480> context = {};  // of kLimitRefused
};
static_assert(sizeof(LaunchNews) <= PIPE_BUF);

struct Launch {
  std::vector<char*> argv;
  std::vector<std::pair<int, int>> descriptors;
  std::span<const std::pair<std::string, std::string>> environment;
  bool dies_with_us = false;
  bool own_process_group = false;
  pid_t parent = 0;
  ChildLimits limits;
  int report_fd = -1;
  int go_fd = -1;  ///< end of file: go on; -1: at once
};

void tell(int report_fd, const LaunchNews& news) {
  // If even that fails the parent sees a child that ended at once.
  if (::write(report_fd, &news, sizeof news) < 0) _exit(127);
}

[[noreturn]] void give_up(int report_fd) {
  tell(report_fd, {.kind = LaunchNews::Kind::kNotExecuted, .os_errno = errno});
  _exit(127);
}

void require(const Status& limit, int report_fd) {
  if (limit) return;
  LaunchNews news{.kind = LaunchNews::Kind::kLimitRefused, .os_errno = limit.error().os_errno};
  limit.error().context.copy(news.context.data(), news.context.size() - 1);
  tell(report_fd, news);
  _exit(127);
}

Status join_cgroup(int procs) {
  if (procs >= 0 && ::write(procs, "0", 1) < 0)
    return os_failure("--limit-memory: join the cgroup");
  return {};
}

Status enter_own_shm(const std::optional<uint64_t>& bytes) {
  if (!bytes) return {};
  auto entered = enter_private_shm({.size_bytes = *bytes});
  if (!entered) entered.error().context = "--shm-size: " + entered.error().context;
  return entered;
}

Status set_open_files(const rlimit& limit) {
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return os_failure("--limit-fds: setrlimit");
  return {};
}

Status set_soft_open_files(const std::optional<uint64_t>& files) {
  if (!files) return {};
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return os_failure("getrlimit");
  limit.rlim_cur = *files;
  return set_open_files(limit);
}

void wait_for_parent(const Launch& launch) {
  if (launch.go_fd < 0) return;
  tell(launch.report_fd, {.kind = LaunchNews::Kind::kWaits});
  char nothing = 0;
  while (::read(launch.go_fd, &nothing, 1) < 0 && errno == EINTR) {
  }
}

// Runs in the child between fork and exec.
[[noreturn]] void become(const Launch& launch) {
  const int report = launch.report_fd;
  require(join_cgroup(launch.limits.cgroup_procs), report);
  require(enter_own_shm(launch.limits.shm_bytes), report);
  if (launch.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launch.parent) _exit(127);  // it died before the line above
  }
  wait_for_parent(launch);
  for (const auto& [from, to] : launch.descriptors) {
    // dup2 clears close-on-exec, except onto itself.
    const bool given = from == to ? ::fcntl(from, F_SETFD, 0) == 0 : ::dup2(from, to) >= 0;
    if (!given) give_up(report);
  }
  if (const auto& state = inherited()) {
    ::setrlimit(RLIMIT_NOFILE, &state->open_files);
    ::sigaction(SIGPIPE, &state->sigpipe, nullptr);
    ::sigaction(SIGXFSZ, &state->sigxfsz, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &state->mask, nullptr);
  }
  if (launch.own_process_group) ::setpgid(0, 0);
  for (const auto& [name, value] : launch.environment)
    ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread here
  if (const auto& files = launch.limits.open_files) {
    require(set_open_files({.rlim_cur = *files, .rlim_max = *files}), report);
  }
  require(set_soft_open_files(launch.limits.soft_open_files), report);
  ::execvp(launch.argv.front(), launch.argv.data());
  give_up(report);
}

Error error_of(const LaunchNews& news, const std::string& command) {
  if (news.kind == LaunchNews::Kind::kNotExecuted) {
    return os_error("run " + command, news.os_errno);
  }
  return {
      .code = ErrorCode::kUnsupported, .os_errno = news.os_errno, .context = news.context.data()};
}

// Nothing: execve has closed the pipe.
std::optional<LaunchNews> next_news(const UniqueFd& report) {
  LaunchNews news;
  ssize_t count = 0;
  do {
    count = ::read(report.get(), &news, sizeof news);
  } while (count < 0 && errno == EINTR);
  return count == 0 ? std::nullopt : std::optional(news);
}

struct PipeEnds {
  UniqueFd read_end;
  UniqueFd write_end;
};

Expected<PipeEnds> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_failure("pipe");
  return PipeEnds{.read_end = UniqueFd(ends[0]), .write_end = UniqueFd(ends[1])};
}

}  // namespace

void remember_inherited_state() {
  InheritedState& state = inherited().emplace();
  ::pthread_sigmask(SIG_SETMASK, nullptr, &state.mask);
  ::sigaction(SIGPIPE, nullptr, &state.sigpipe);
  ::sigaction(SIGXFSZ, nullptr, &state.sigxfsz);
  ::getrlimit(RLIMIT_NOFILE, &state.open_files);
}

std::optional<Limit> open_files_limit_of_children() {
  rlimit limit{};
  if (const auto& state = inherited()) {
    limit = state->open_files;
  } else if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return std::nullopt;
  }
  const auto known = [](rlim_t value) {
    return value == RLIM_INFINITY ? std::nullopt : std::optional<uint64_t>(value);
  };
  return Limit{.soft = known(limit.rlim_cur), .hard = known(limit.rlim_max)};
}

Expected<ChildProcess> ChildProcess::start(const ChildSpec& spec) {
  if (spec.argv.empty()) return failure(ErrorCode::kInvalid, "no command was given");
  DLP_TRY(PipeEnds report, make_pipe());
  DLP_TRY(PipeEnds go, make_pipe());
  ::prctl(PR_SET_CHILD_SUBREAPER, spec.adopts_orphans ? 1 : 0);

  std::vector<std::string> argv = spec.argv;
  Launch launch;
  for (std::string& argument : argv)
    launch.argv.push_back(argument.data());
  launch.argv.push_back(nullptr);
  launch.descriptors = spec.descriptors;
  launch.environment = spec.environment;
  launch.dies_with_us = spec.dies_with_us;
  launch.own_process_group = spec.own_process_group;
  launch.parent = ::getpid();
  launch.limits = spec.limits;
  launch.report_fd = report.write_end.get();
  launch.go_fd = spec.before_exec ? go.read_end.get() : -1;

  const pid_t pid = ::fork();
  if (pid < 0) return os_failure("fork");
  if (pid == 0) {
    go.write_end.reset();
    become(launch);
  }
  report.write_end.reset();
  auto news = next_news(report.read_end);
  if (news && news->kind == LaunchNews::Kind::kWaits) {
    spec.before_exec(pid);
    go.write_end.reset();
    news = next_news(report.read_end);
  }
  if (!news) return ChildProcess(pid);
  ::waitpid(pid, nullptr, 0);
  return std::unexpected(error_of(*news, spec.argv.front()));
}

std::optional<EndedChild> next_ended_child() {
  siginfo_t info = {};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return EndedChild{.pid = info.si_pid, .wait_status = wait_status_of(info)};
}

bool has_children() {
  siginfo_t info = {};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

void reap(const EndedChild& child) {
  ::waitpid(child.pid, nullptr, WNOHANG);
}

}  // namespace dlprobe
