#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/session/examination.h"
#include "lib/session/notices.h"
#include "tools/dlprobe/top/frame.h"
#include "tools/dlprobe/top/job_picture.h"
#include "tools/dlprobe/top/screen.h"

namespace dlprobe {

/// A text to read on the screen.
struct ScreenText {
  std::string title;
  std::string text;  ///< lines, safe for a terminal
};

/// What the keys of a live view have done elsewhere. The text fits so many columns.
struct LiveActions {
  std::function<Expected<ScreenText>(const TopProcess& process, size_t columns)> stacks;
  /// From what was recorded by now, with snapshots.
  std::function<Expected<ScreenText>(const Recording& recording, size_t columns)> report;
};

/// Shows a job on a screen while it is watched, and does what the keys ask for. What a session has
/// to tell stands in the last line.
class LiveView final : public Onlooker, public Notices {
 public:
  LiveView(Screen& screen, LiveActions actions) : screen_(screen), actions_(std::move(actions)) {}

  int descriptor() const override { return screen_.descriptor(); }
  void take(const Recording& recording) override;
  bool wants_snapshots() const override { return report_asked_at_.has_value(); }
  bool has_enough() const override { return is_over_; }

  void tell(std::string_view sentence) override { message_ = sentence; }
  void set_title(std::function<std::string()> /*title*/) override {}
  void show(std::string_view /*text*/) override {}
  void log_step(std::string_view /*line*/) override {}
  void clear_progress() override {}

 private:
  /// A text that covers the job until a key takes it away.
  struct Page {
    std::string title;
    std::vector<std::string> lines;
    size_t first = 0;
  };

  void take_key(char key);
  void take_page_key(Page& page, char key);
  void take_sort_key(char key);
  void select(ptrdiff_t steps);
  void show_stacks();
  static bool is_report_due(const Run& run, BootNs asked_at);
  void open_page(Expected<ScreenText> text);
  void draw() const;
  std::string footer() const;
  std::vector<FrameLine> page_frame(const Page& page) const;
  size_t page_lines() const;

  Screen& screen_;
  LiveActions actions_;
  JobPicture job_;
  BootNs taken_at_ = 0;  ///< the newest sample that was taken in
  TopPicture picture_;   ///< as shown: it stands while paused
  std::optional<ProcessKey> selected_;
  TopSort sort_ = TopSort::kJob;
  std::optional<Page> page_;
  std::string message_;
  std::optional<BootNs> report_asked_at_;
  bool is_paused_ = false;
  bool is_over_ = false;
};

}  // namespace dlprobe
