#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/error.h"
#include "tools/dlprobe/top/frame.h"

namespace dlprobe {

/// Keys without a letter, by the characters that do the same in vi and less; the arrows are 'k'
/// and 'j', Home and End 'g' and 'G'.
inline constexpr char kPageUpKey = 2;    ///< Ctrl-B
inline constexpr char kPageDownKey = 6;  ///< Ctrl-F
inline constexpr char kEnterKey = '\n';
inline constexpr char kEscapeKey = 27;
inline constexpr char kRedrawKey = 12;  ///< Ctrl-L; also when the size has changed
inline constexpr char kHangUp = 4;      ///< Ctrl-D, or nobody will type any more

/// A screen of lines with a keyboard.
class Screen {
 public:
  virtual ~Screen() = default;
  Screen() = default;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  virtual size_t columns() const = 0;
  virtual size_t lines() const = 0;
  /// To be polled for reading.
  virtual int descriptor() const = 0;
  /// Shows these lines and nothing else.
  virtual void draw(const std::vector<FrameLine>& lines) = 0;
  /// The next key that was pressed; nothing if none was. Never waits.
  virtual std::optional<char> key() = 0;
};

/// The terminal of stdin and stdout. It is as it was once the screen is destroyed, and when a fault
/// or a signal ends dlprobe. There may be one at a time. kInvalid: they are no terminal.
Expected<std::unique_ptr<Screen>> open_terminal();

}  // namespace dlprobe
