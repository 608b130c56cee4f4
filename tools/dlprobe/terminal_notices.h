#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/session/notices.h"
#include "tools/dlprobe/command.h"

namespace dlprobe {

/// Says on stderr what a session tells. What goes on at the moment is one line there, redrawn in
/// place and wiped at the end; silent where stderr is not a terminal.
class TerminalNotices final : public Notices {
 public:
  explicit TerminalNotices(bool shows_progress);
  TerminalNotices(const TerminalNotices&) = delete;
  TerminalNotices& operator=(const TerminalNotices&) = delete;
  ~TerminalNotices() override { TerminalNotices::clear_progress(); }

  void tell(std::string_view sentence) override { complain(sentence); }
  void set_title(std::string title) override { title_ = std::move(title); }
  void show(std::string_view text) override;
  void clear_progress() override;

 private:
  bool is_on_;
  bool is_shown_ = false;
  std::string title_;
};

}  // namespace dlprobe
