#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// One line on stderr that says what is going on and how long still; redrawn in place, wiped at the
/// end. Silent where stderr is not a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool is_wanted);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// What stands in front of every line of this run: "run 2 of 6, spawn, file_system".
  void set_title(std::string title) { title_ = std::move(title); }
  void show(std::string_view text);
  void clear();

 private:
  bool is_on_;
  bool is_shown_ = false;
  std::string title_;
};

}  // namespace dlprobe
