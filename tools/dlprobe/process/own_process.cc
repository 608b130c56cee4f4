#include "tools/dlprobe/process/own_process.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "lib/base/escape.h"
#include "lib/base/parse.h"
#include "lib/os/atomic_file.h"
#include "tools/dlprobe/process/exit_status.h"

namespace dlprobe {

std::optional<std::string> own_environment(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return value;
}

int columns_at(int fd, int otherwise) {
  constexpr int kNarrowest = 40;
  constexpr int kWidest = 160;
  const auto typed = parse_int<int>(own_environment("COLUMNS").value_or(""));
  if (typed.value_or(0) > 0) return std::clamp(typed.value_or(0), kNarrowest, kWidest);
  winsize size = {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return std::clamp<int>(size.ws_col, kNarrowest, kWidest);
}

bool is_colorful(int fd) {
  return ::isatty(fd) == 1 && own_environment("NO_COLOR").value_or("").empty() &&
         own_environment("TERM") != "dumb";
}

int print(std::string_view text) {
  const Status written = write_all(STDOUT_FILENO, text, "to standard output");
  if (written) return kExitPass;
  if (written.error().os_errno != EPIPE) complain(to_string(written.error()));
  return kExitIncomplete;
}

void complain(std::string_view message) {
  const std::string line = "dlprobe: " + escape_for_terminal(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace dlprobe
