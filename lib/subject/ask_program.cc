#include "lib/subject/ask_program.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "lib/base/unique_fd.h"
#include "lib/base/units.h"
#include "lib/subject/child_process.h"

namespace dlprobe {
namespace {

constexpr size_t kMostAnswer = size_t{1} << 20;

// Ends whoever is still there of the process group, and reaps its first process.
void end_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  int wait_status = 0;
  while (::waitpid(pid, &wait_status, 0) < 0 && errno == EINTR) {
  }
}

// Until the other end is closed; nothing if that takes longer than `limit`, or is endless.
std::optional<std::string> read_all(int fd, const Clock& clock, std::chrono::nanoseconds limit) {
  const BootNs end = clock.now() + limit.count();
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() <= kMostAnswer) {
    const BootNs left = std::max<BootNs>(end - clock.now(), 0);
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const timespec timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
    const int ready = ::ppoll(&entry, 1, &timeout, nullptr);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return std::nullopt;
}

}  // namespace

Expected<std::string> ask_program(const std::vector<std::string>& argv, const Clock& clock,
                                  std::chrono::nanoseconds limit) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_failure("pipe");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  DLP_TRY(const ChildProcess child,
          ChildProcess::start(
              {.argv = argv,
               .descriptors = {{write_end.get(), STDOUT_FILENO}, {write_end.get(), STDERR_FILENO}},
               .dies_with_us = true,
               .adopts_orphans = false,
               .environment = {},
               .own_process_group = true,
               .limits = {},
               .before_exec = {}}));
  write_end.reset();
  auto text = read_all(read_end.get(), clock, limit);
  end_group(child.pid());
  if (!text) {
    return failure(ErrorCode::kTimeout,
                   argv.front() + " did not end within " + format_duration(limit));
  }
  return std::move(*text);
}

}  // namespace dlprobe
