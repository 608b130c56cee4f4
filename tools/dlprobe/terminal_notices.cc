#include "tools/dlprobe/terminal_notices.h"

#include <unistd.h>

#include <cstdio>

#include "lib/base/escape.h"

namespace dlprobe {

TerminalNotices::TerminalNotices(bool shows_progress)
    : is_on_(shows_progress && ::isatty(STDERR_FILENO) == 1) {}

void TerminalNotices::show(std::string_view text) {
  if (!is_on_) return;
  // \r and "erase to the end of the line" (ECMA-48 EL) work on every terminal that has a cursor.
  const std::string line = "\r\x1b[K" + escape_for_terminal(title_ + std::string(text));
  std::fputs(line.c_str(), stderr);
  is_shown_ = true;
}

void TerminalNotices::clear_progress() {
  if (is_shown_) std::fputs("\r\x1b[K", stderr);
  is_shown_ = false;
}

}  // namespace dlprobe
