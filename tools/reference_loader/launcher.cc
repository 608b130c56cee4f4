#include "tools/reference_loader/launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/run.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

// A fresh program loads libtorch's libraries first: 0.3 s, more on a machine in trouble.
constexpr std::chrono::seconds kServerLimit(60);

// glibc 2.35 has no wrapper for it.
UniqueFd open_pidfd(pid_t pid) {
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return UniqueFd(fd);
}

/// An encoded state's size, then the state, over a stream.
Status write_state(int fd, const std::vector<uint8_t>& bytes, std::span<const int> fds) {
  const uint64_t size = bytes.size();
  DLP_CHECK(fds.empty() ? write_all(fd, bytes_of(size)) : send_with_fds(fd, bytes_of(size), fds));
  return write_all(fd, std::as_bytes(std::span(bytes)));
}

Expected<WorkerState> read_state_bytes(int fd, uint64_t size) {
  std::vector<uint8_t> bytes(size);
  DLP_TRY(const ReadOutcome outcome, read_whole(fd, std::as_writable_bytes(std::span(bytes))));
  if (outcome == ReadOutcome::kEndOfFile) {
    return failure(ErrorCode::kVanished, "the loader ended before it had started this worker");
  }
  return decode_state(bytes);
}

/// In a forked child: `kept` stay open over the exec. Does not return.
[[noreturn]] void exec_role(const char* name, std::string_view role, int fd,
                            std::span<const int> kept) {
  for (const int inherited : kept) {
    if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  }
  fcntl(fd, F_SETFD, 0);
  std::string option(kRoleOption);
  std::string role_text(role);
  std::string number = std::to_string(fd);
  std::string own_name(name);
  const std::array<char*, 5> arguments = {own_name.data(), option.data(), role_text.data(),
                                          number.data(), nullptr};
  execv("/proc/self/exe", arguments.data());
  _exit(127);
}

std::vector<int> open_fds(const WorkerState& state) {
  std::vector<int> fds;
  for (const int fd : state.fds) {
    if (fd >= 0) fds.push_back(fd);
  }
  return fds;
}

/// Workers that are children of this process: fork and spawn.
class ChildLauncher : public Launcher {
 public:
  explicit ChildLauncher(StartMethod method) : method_(method) {}

  Expected<pid_t> start_worker(const WorkerState& state) override {
    DLP_TRY(const pid_t pid,
            method_ == StartMethod::kFork ? fork_worker(state) : spawn_worker(state));
    children_.emplace(pid, open_pidfd(pid));
    return pid;
  }

  void add_poll_entries(std::vector<pollfd>& entries) const override {
    for (const auto& [pid, pidfd] : children_) {
      entries.push_back({.fd = pidfd.get(), .events = POLLIN, .revents = 0});
    }
  }

  Expected<std::optional<WorkerExit>> next_exit() override {
    for (const auto& [pid, pidfd] : children_) {
      WorkerExit ended{.pid = pid, .wait_status = 0};
      if (waitpid(pid, &ended.wait_status, WNOHANG) != pid) continue;
      children_.erase(pid);
      return ended;
    }
    return std::nullopt;
  }

 private:
  static Expected<pid_t> fork_worker(const WorkerState& state) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return os_failure("fork worker " + std::to_string(state.worker));
    if (pid > 0) return pid;
    die_with_parent(parent);
    close_all_except(open_fds(state));
    WorkerState own{.args = state.args,
                    .worker = state.worker,
                    .random = state.random,
                    .fds = state.fds,
                    .images = state.images.share(state.fds[kImages]),
                    .generation = state.generation,
                    .lock = state.lock};
    // Not exit(): the parent's atexit handlers and static objects are not this process's to end.
    _exit(run_worker(std::move(own)));
  }

  static Expected<pid_t> spawn_worker(const WorkerState& state) {
    // As multiprocessing does it: what cannot be sent is known before there is a process.
    DLP_TRY(const std::vector<uint8_t> bytes, encode_state(state));
    DLP_TRY(Pipe pipe, make_pipe());
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0) return os_failure("spawn worker " + std::to_string(state.worker));
    if (pid == 0) {
      die_with_parent(parent);
      exec_role("dlp-worker", kWorkerRole, pipe.read_end.get(), state.fds);
    }
    pipe.read_end.reset();
    // A worker that dies while it loads its libraries is reported by next_exit().
    [[maybe_unused]] const Status written = write_state(pipe.write_end.get(), bytes, {});
    return pid;
  }

  StartMethod method_;
  std::map<pid_t, UniqueFd> children_;
};

/// What the fork server says to the main process.
struct ServerMessage {
  enum class Kind : int32_t { kStarted, kEnded } kind = Kind::kStarted;
  pid_t pid = -1;     ///< -1: could not be started
  int32_t value = 0;  ///< errno, or wait status
};

/// Workers that are children of a fork server.
class ServerLauncher : public Launcher {
 public:
  ServerLauncher(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  ~ServerLauncher() override {
    // The end of its socket ends the server, and with it what workers there still are.
    socket_.reset();
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  ServerLauncher(const ServerLauncher&) = delete;
  ServerLauncher& operator=(const ServerLauncher&) = delete;

  Expected<pid_t> start_worker(const WorkerState& state) override {
    DLP_TRY(const std::vector<uint8_t> bytes, encode_state(state));
    if (const Status sent = write_state(socket_.get(), bytes, open_fds(state)); !sent) {
      return failure(ErrorCode::kVanished, "the fork server is gone");
    }
    for (;;) {
      DLP_CHECK(wait_readable(socket_.get(), kServerLimit, [] { return stop_signal() != 0; }));
      DLP_TRY(const ServerMessage message, read_message());
      if (message.kind == ServerMessage::Kind::kEnded) {
        ended_.push_back({.pid = message.pid, .wait_status = message.value});
        continue;
      }
      if (message.pid > 0) return message.pid;
      return os_failure("fork worker " + std::to_string(state.worker) + " in the fork server",
                        message.value);
    }
  }

  void add_poll_entries(std::vector<pollfd>& entries) const override {
    entries.push_back({.fd = socket_.get(), .events = POLLIN, .revents = 0});
  }

  Expected<std::optional<WorkerExit>> next_exit() override {
    while (becomes_readable(socket_.get(), 0)) {
      DLP_TRY(const ServerMessage message, read_message());
      ended_.push_back({.pid = message.pid, .wait_status = message.value});
    }
    if (ended_.empty()) return std::nullopt;
    const WorkerExit ended = ended_.front();
    ended_.pop_front();
    return ended;
  }

 private:
  Expected<ServerMessage> read_message() const {
    ServerMessage message;
    DLP_TRY(const ReadOutcome outcome, read_whole(socket_.get(), writable_bytes_of(message)));
    if (outcome == ReadOutcome::kWhole) return message;
    return failure(ErrorCode::kVanished,
                   "the fork server (pid " + std::to_string(pid_) + ") is gone");
  }

  pid_t pid_;
  UniqueFd socket_;
  std::deque<WorkerExit> ended_;
};

Expected<std::unique_ptr<Launcher>> start_fork_server() {
  DLP_TRY(auto sockets, make_socket_pair(SOCK_STREAM));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return os_failure("start the fork server");
  if (pid == 0) {
    die_with_parent(parent);
    exec_role("dlp-forkserver", kForkServerRole, sockets.second.get(), {});
  }
  return std::make_unique<ServerLauncher>(pid, std::move(sockets.first));
}

/// The fork server's process: one loop, no threads, nothing in use that a fork could break.
class ForkServer {
 public:
  explicit ForkServer(int socket) : socket_(socket) {}

  Status run() {
    for (;;) {
      std::vector<pollfd> entries = {{.fd = socket_, .events = POLLIN, .revents = 0}};
      for (const auto& [pid, pidfd] : children_) {
        entries.push_back({.fd = pidfd.get(), .events = POLLIN, .revents = 0});
      }
      if (poll(entries.data(), entries.size(), -1) < 0 && errno != EINTR) {
        return os_failure("wait in the fork server");
      }
      DLP_CHECK(report_ended());
      if (entries[0].revents == 0) continue;
      uint64_t size = 0;
      DLP_TRY(const ReceivedMessage request, receive_with_fds(socket_, writable_bytes_of(size)));
      if (request.size != sizeof size) return {};
      DLP_CHECK(serve(size, request.fds));
    }
  }

  ~ForkServer() {
    for (const auto& [pid, pidfd] : children_)
      kill(pid, SIGKILL);
  }
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

 private:
  Status serve(uint64_t size, std::span<const UniqueFd> fds) {
    DLP_TRY(WorkerState state, read_state_bytes(socket_, size));
    size_t next = 0;
    for (int& fd : state.fds) {
      if (fd >= 0 && next < fds.size()) fd = fds[next++].get();
    }
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      die_with_parent(parent);
      close_all_except(open_fds(state));
      state.images = state.images.share(state.fds[kImages]);
      _exit(run_fresh_worker(std::move(state)));
    }
    const ServerMessage answer{
        .kind = ServerMessage::Kind::kStarted, .pid = pid, .value = pid < 0 ? errno : 0};
    if (pid > 0) children_.emplace(pid, open_pidfd(pid));
    return write_all(socket_, bytes_of(answer));
  }

  Status report_ended() {
    for (auto child = children_.begin(); child != children_.end();) {
      ServerMessage message{.kind = ServerMessage::Kind::kEnded, .pid = child->first, .value = 0};
      if (waitpid(child->first, &message.value, WNOHANG) != child->first) {
        ++child;
        continue;
      }
      child = children_.erase(child);
      DLP_CHECK(write_all(socket_, bytes_of(message)));
    }
    return {};
  }

  int socket_;
  std::map<pid_t, UniqueFd> children_;
};

}  // namespace

Expected<std::unique_ptr<Launcher>> Launcher::start(StartMethod method) {
  if (method == StartMethod::kForkserver) return start_fork_server();
  return std::make_unique<ChildLauncher>(method);
}

int run_spawned_worker(int fd) {
  set_process_name("dlp-worker");
  uint64_t size = 0;
  const auto outcome = read_whole(fd, writable_bytes_of(size));
  if (outcome != ReadOutcome::kWhole) return 1;
  auto state = read_state_bytes(fd, size);
  close(fd);
  if (!state) return 1;
  state->images = state->images.share(state->fds[kImages]);
  return run_fresh_worker(std::move(*state));
}

int run_fork_server(int fd) {
  set_process_name("dlp-forkserver");
  install_worker_handlers();
  return ForkServer(fd).run() ? 0 : 1;
}

}  // namespace dlprobe::loader
