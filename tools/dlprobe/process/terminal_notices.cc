#include "tools/dlprobe/process/terminal_notices.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "lib/base/escape.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

// \r and "erase to the end of the line" (ECMA-48 EL) work on every terminal that has a cursor.
constexpr const char* kWipe = "\r\x1b[K";
constexpr int kColumns = 80;

}  // namespace

TerminalNotices::TerminalNotices(ShowProgress progress)
    : progress_(progress),
      redraws_(progress == ShowProgress::kYes && ::isatty(STDERR_FILENO) == 1) {}

TerminalNotices::~TerminalNotices() {
  TerminalNotices::clear_progress();
}

void TerminalNotices::tell(std::string_view sentence) {
  clear_progress();
  complain(sentence);
}

void TerminalNotices::set_title(std::function<std::string()> title) {
  title_ = std::move(title);
}

void TerminalNotices::show(std::string_view text) {
  if (!redraws_) return;
  std::string line = title_ ? title_() : std::string();
  if (!line.empty() && !text.empty()) line += ": ";
  line = escape_for_terminal(line + std::string(text));
  // Of a line that wraps only the last row would be wiped.
  line.resize(std::min(line.size(), static_cast<size_t>(columns_at(STDERR_FILENO, kColumns) - 1)));
  std::fputs((kWipe + line).c_str(), stderr);
  is_shown_ = true;
}

void TerminalNotices::log_step(std::string_view line) {
  if (progress_ != ShowProgress::kNo && !redraws_) complain(line);
}

void TerminalNotices::clear_progress() {
  if (is_shown_) std::fputs(kWipe, stderr);
  is_shown_ = false;
}

}  // namespace dlprobe
