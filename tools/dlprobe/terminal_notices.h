#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/session/notices.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/progress_line.h"

namespace dlprobe {

/// Says on stderr what a session tells; its progress in one line that is redrawn.
class TerminalNotices final : public Notices {
 public:
  explicit TerminalNotices(bool shows_progress) : progress_(shows_progress) {}

  void tell(std::string_view sentence) override { complain(sentence); }
  void set_title(std::string title) override { progress_.set_title(std::move(title)); }
  void show(std::string_view text) override { progress_.show(text); }
  void clear_progress() override { progress_.clear(); }

 private:
  ProgressLine progress_;
};

}  // namespace dlprobe
