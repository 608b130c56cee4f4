#include "lib/os/stand_in.h"

#include <unistd.h>

#include <array>
#include <climits>
#include <csignal>

#include "lib/os/disposable.h"
#include "lib/os/pipe.h"

namespace dlprobe {
namespace {

// Of a pipe, which takes so few bytes whole. False: there were none.
template <class T>
bool receive(const UniqueFd& fd, T& value) {
  return read_uninterrupted(fd.get(), &value, sizeof value) == sizeof value;
}

template <class T>
void send(const UniqueFd& fd, const T& value) {
  static_assert(sizeof value <= PIPE_BUF);
  // If even that fails the reader sees the end of the file.
  if (::write(fd.get(), &value, sizeof value) < 0) _exit(1);
}

// Until nobody holds the other end.
[[noreturn]] void sleep_on(Pipe& lifeline) {
  lifeline.write_end.reset();
  char nothing = 0;
  read_uninterrupted(lifeline.read_end.get(), &nothing, 1);
  _exit(0);
}

struct Answer {
  ErrorCode code = ErrorCode::kIo;
  int os_errno = 0;
  bool is_fine = true;
  std::array<char, 400> context = {};
};

}  // namespace

Expected<StandIn> StandIn::start(Kinship kinship) {
  DLP_TRY(Pipe lifeline, make_pipe());
  DLP_TRY(Pipe news, make_pipe());
  const bool is_child = kinship == Kinship::kChild;
  const pid_t first = ::fork();
  if (first < 0) return os_failure("fork");
  if (first == 0) {
    // Whose parent has ended is nobody's descendant any more, for Yama too.
    const pid_t second = is_child ? 0 : ::fork();
    if (second != 0) _exit(second < 0 ? 1 : 0);
    send(news.write_end, ::getpid());
    sleep_on(lifeline);
  }
  if (!is_child) reap(first);
  news.write_end.reset();
  pid_t pid = -1;
  if (!receive(news.read_end, pid)) return failure(ErrorCode::kIo, "start a process to try on");
  return StandIn(pid, is_child, std::move(lifeline.write_end));
}

StandIn::~StandIn() {
  lifeline_.reset();
  if (!is_child_ || pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  reap(pid_);
}

Status try_in_child(const std::function<Status()>& work) {
  DLP_TRY(Pipe news, make_pipe());
  const pid_t child = ::fork();
  if (child < 0) return os_failure("fork");
  if (child == 0) {
    const Status done = work();
    Answer answer{.is_fine = done.has_value()};
    if (!done) {
      answer.code = done.error().code;
      answer.os_errno = done.error().os_errno;
      done.error().context.copy(answer.context.data(), answer.context.size() - 1);
    }
    send(news.write_end, answer);
    _exit(0);
  }
  news.write_end.reset();
  Answer answer;
  const bool is_told = receive(news.read_end, answer);
  reap(child);
  if (!is_told) return failure(ErrorCode::kIo, "a child to try it in ended early");
  if (answer.is_fine) return {};
  return std::unexpected(
      Error{.code = answer.code, .os_errno = answer.os_errno, .context = answer.context.data()});
}

}  // namespace dlprobe
