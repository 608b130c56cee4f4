#include "tools/dlprobe/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>

#include "lib/base/parse.h"
#include "lib/os/atomic_file.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/config/own_environment.h"
#include "tools/dlprobe/exit_status.h"

namespace dlprobe {

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

}  // namespace dlprobe
