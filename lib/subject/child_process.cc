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

#include "lib/os/disposable.h"
#include "lib/os/pipe.h"
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
  const ChildSpec& spec;
  std::vector<char*> argv;
  pid_t parent = 0;
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
  read_uninterrupted(launch.go_fd, &nothing, 1);
}

// Runs in the child between fork and exec.
[[noreturn]] void become(const Launch& launch) {
  const ChildSpec& spec = launch.spec;
  const int report = launch.report_fd;
  require(join_cgroup(spec.cgroup_procs), report);
  require(enter_own_shm(spec.limits.shm_bytes), report);
  if (spec.dies_with_us) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != launch.parent) _exit(127);  // it died before the line above
  }
  wait_for_parent(launch);
  for (const auto& [from, to] : spec.descriptors) {
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
  if (spec.own_process_group) ::setpgid(0, 0);
  for (const auto& [name, value] : spec.environment)
    ::setenv(name.c_str(), value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe): one thread here
  if (const auto& files = spec.limits.open_files) {
    require(set_open_files({.rlim_cur = *files, .rlim_max = *files}), report);
  }
  require(set_soft_open_files(spec.limits.soft_open_files), report);
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
Expected<std::optional<LaunchNews>> next_news(const UniqueFd& report) {
  LaunchNews news;
  const ssize_t count = read_uninterrupted(report.get(), &news, sizeof news);
  if (count < 0) return os_failure("learn whether the command was started");
  return count == 0 ? std::nullopt : std::optional(news);
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

Expected<pid_t> start_child(const ChildSpec& spec) {
  if (spec.argv.empty()) return failure(ErrorCode::kInvalid, "no command was given");
  DLP_TRY(Pipe report, make_pipe());
  DLP_TRY(Pipe go, make_pipe());
  ::prctl(PR_SET_CHILD_SUBREAPER, spec.adopts_orphans ? 1 : 0);

  std::vector<std::string> argv = spec.argv;
  Launch launch{.spec = spec,
                .parent = ::getpid(),
                .report_fd = report.write_end.get(),
                .go_fd = spec.before_exec ? go.read_end.get() : -1};
  for (std::string& argument : argv)
    launch.argv.push_back(argument.data());
  launch.argv.push_back(nullptr);

  const pid_t pid = ::fork();
  if (pid < 0) return os_failure("fork");
  if (pid == 0) {
    go.write_end.reset();
    become(launch);
  }
  report.write_end.reset();
  auto news = next_news(report.read_end);
  if (news && *news && (*news)->kind == LaunchNews::Kind::kWaits) {
    spec.before_exec(pid);
    go.write_end.reset();
    news = next_news(report.read_end);
  }
  if (!news) {
    ::kill(pid, SIGKILL);
    reap(pid);
    return std::unexpected(news.error());
  }
  const std::optional<LaunchNews>& last = *news;
  if (!last) return pid;
  reap(pid);
  return std::unexpected(error_of(*last, spec.argv.front()));
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
