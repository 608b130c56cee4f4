#include "lib/os/disposable.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "lib/base/units.h"
#include "lib/os/atomic_file.h"
#include "lib/os/clock.h"
#include "lib/os/pipe.h"

namespace dlprobe {
namespace {

// The pipe becomes descriptor 3, everything else is closed.
[[noreturn]] void run_and_leave(int pipe_end, const std::function<std::string()>& job) {
  constexpr int kPipe = 3;
  const int nothing = ::open("/dev/null", O_RDWR);
  if (nothing < 0) ::_exit(1);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    ::dup2(nothing, stream);
  if (pipe_end != kPipe) ::dup2(pipe_end, kPipe);
  ::close_range(kPipe + 1, ~0U, 0);
  const Status told = write_all(kPipe, job(), "the answer");
  ::_exit(told ? 0 : 1);
}

pid_t start(int pipe_end, const std::function<std::string()>& job) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::setsid();
  run_and_leave(pipe_end, job);
}

}  // namespace

int reap(pid_t child) {
  int wait_status = 0;
  while (::waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  return wait_status;
}

Expected<std::string> run_disposable(const std::string& what,
                                     const std::function<std::string()>& job,
                                     std::chrono::nanoseconds limit) {
  const SystemClock clock;
  const BootNs end = clock.now() + limit.count();
  DLP_TRY(Pipe pipe, make_pipe());
  const pid_t pid = start(pipe.write_end.get(), job);
  if (pid < 0) return os_failure(what + ": fork");
  pipe.write_end.reset();
  std::string answer;
  std::array<char, 4096> buffer{};
  while (true) {
    if (!becomes_readable(pipe.read_end.get(), clock, end)) {
      ::kill(pid, SIGKILL);  // and whoever inherits it reaps it, when the kernel lets it go
      return failure(ErrorCode::kTimeout, what + ": no answer within " + format_duration(limit));
    }
    const ssize_t count = read_uninterrupted(pipe.read_end.get(), buffer.data(), buffer.size());
    if (count <= 0) {
      reap(pid);
      return answer;
    }
    answer.append(buffer.data(), static_cast<size_t>(count));
  }
}

}  // namespace dlprobe
