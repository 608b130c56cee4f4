#pragma once

#include <string>
#include <string_view>

#include "lib/base/escape.h"

namespace dlprobe {

/// As escape_for_terminal, but newlines stay.
inline std::string escape_lines(std::string_view text) {
  std::string out;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    out += escape_for_terminal(text.substr(0, end)) + '\n';
    text.remove_prefix(end + 1);
  }
  return out + escape_for_terminal(text);
}

}  // namespace dlprobe
