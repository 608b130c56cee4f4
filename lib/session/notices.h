#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace dlprobe {

/// Whom a session tells what it does while it lasts. It prints nothing itself.
class Notices {
 public:
  virtual ~Notices() = default;
  Notices() = default;
  Notices(const Notices&) = delete;
  Notices& operator=(const Notices&) = delete;

  /// One sentence that the user should read now.
  virtual void tell(std::string_view sentence) = 0;

  /// Stands in front of all that show() says from now on; asked each time, as the time that is left
  /// changes. Empty: nothing does.
  virtual void set_title(std::function<std::string()> title) = 0;
  /// What goes on at this moment; the next call replaces it.
  virtual void show(std::string_view text) = 0;
  /// The same for a reader whose line cannot be replaced: it stays in a log.
  virtual void log_step(std::string_view line) = 0;
  virtual void clear_progress() = 0;
};

}  // namespace dlprobe
