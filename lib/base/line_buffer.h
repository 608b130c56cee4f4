#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// Makes lines of text that comes in pieces.
class LineBuffer {
 public:
  /// Calls `visit(line)` for each line that has its newline by now, without it. What grows too long
  /// for a line is dropped.
  template <class Visit>
  void add(std::string_view piece, const Visit& visit) {
    constexpr size_t kLongest = size_t{64} << 10U;
    rest_ += piece;
    size_t from = 0;
    for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', from)) {
      visit(std::string_view(rest_).substr(from, end - from));
      from = end + 1;
    }
    rest_.erase(0, from);
    if (rest_.size() > kLongest) rest_.clear();
  }

 private:
  std::string rest_;  ///< of a line whose end has not come yet
};

}  // namespace dlprobe
