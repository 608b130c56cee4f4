#include "lib/subject/ask_program.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <optional>
#include <utility>

#include "lib/base/escape.h"
#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/os/disposable.h"
#include "lib/os/pipe.h"
#include "lib/subject/child_process.h"

namespace dlprobe {
namespace {

constexpr size_t kMostAnswer = size_t{1} << 20;

// Ends whoever is still there of the process group, and reaps its first process.
int end_group(pid_t pid) {
  ::kill(-pid, SIGKILL);
  return reap(pid);
}

// Waits until `end` for a process that has closed its streams.
void wait_for_end(pid_t pid, const Clock& clock, BootNs end) {
  constexpr int kMilliseconds = 1;
  siginfo_t info{};
  while (clock.now() < end && info.si_pid != pid) {
    const int failed = ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT);
    if (failed != 0) return;
    if (info.si_pid != pid) ::poll(nullptr, 0, kMilliseconds);
  }
}

// Until the other end is closed; nothing if that takes longer than `limit`, or is endless.
std::optional<std::string> read_all(int fd, const Clock& clock, BootNs end) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (text.size() <= kMostAnswer) {
    if (!becomes_readable(fd, clock, end)) return std::nullopt;
    const ssize_t count = read_uninterrupted(fd, buffer.data(), buffer.size());
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return std::nullopt;
}

}  // namespace

std::string first_line(std::string_view text) {
  constexpr size_t kMostShown = 200;
  text = text.substr(0, text.find('\n')).substr(0, kMostShown);
  return text.empty() ? "nothing" : escape_for_terminal(text);
}

std::string find_in_path(const Directory& root, const std::string& name,
                         std::string_view path_variable) {
  constexpr uint32_t kMayExecute = 0111;
  for (const std::string_view folder : split(path_variable, ':')) {
    if (!folder.starts_with('/')) continue;
    std::string path = fmt::format("{}/{}", folder, name);
    const auto stat = root.stat(path);
    if (stat && S_ISREG(stat->mode) && (stat->mode & kMayExecute) != 0) return path;
  }
  return "";
}

Expected<ProgramAnswer> ask_program(const std::vector<std::string>& argv, const Clock& clock,
                                    std::string_view purpose, std::chrono::nanoseconds limit) {
  const BootNs end = clock.now() + limit.count();
  DLP_TRY(Pipe pipe, make_pipe());
  const int output = pipe.write_end.get();
  DLP_TRY(const pid_t child,
          start_child({.argv = argv,
                       .descriptors = {{output, STDOUT_FILENO}, {output, STDERR_FILENO}},
                       .dies_with_us = true,
                       .adopts_orphans = false,
                       .own_process_group = true}));
  pipe.write_end.reset();
  auto text = read_all(pipe.read_end.get(), clock, end);
  // How it ends by itself says something of it, too.
  if (text) wait_for_end(child, clock, end);
  const int wait_status = end_group(child);
  if (!text) {
    return failure(ErrorCode::kTimeout, fmt::format("{} did not {} within {}; it was ended",
                                                    argv.front(), purpose, format_duration(limit)));
  }
  return ProgramAnswer{.text = std::move(*text), .wait_status = wait_status};
}

}  // namespace dlprobe
