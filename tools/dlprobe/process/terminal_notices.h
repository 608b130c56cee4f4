#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "lib/session/notices.h"

namespace dlprobe {

/// How much of its progress a command shows on stderr.
enum class ShowProgress {
  kNo,
  kLines,  ///< a line now and then that stays: what a command prints itself would break another
  kYes,    ///< at a terminal one line, redrawn; elsewhere the same as kLines
};

/// Says on stderr what a session tells. What goes on at the moment is one line of a terminal,
/// redrawn in place and wiped at the end.
class TerminalNotices final : public Notices {
 public:
  explicit TerminalNotices(ShowProgress progress);
  TerminalNotices(const TerminalNotices&) = delete;
  TerminalNotices& operator=(const TerminalNotices&) = delete;
  ~TerminalNotices() override;

  void tell(std::string_view sentence) override;
  void set_title(std::function<std::string()> title) override;
  void show(std::string_view text) override;
  void log_step(std::string_view line) override;
  void clear_progress() override;

 private:
  ShowProgress progress_;
  bool redraws_;
  bool is_shown_ = false;
  std::function<std::string()> title_;
};

}  // namespace dlprobe
