#pragma once

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace dlprobe {

/// The text with the letters A to Z as small ones (in the C locale, which dlprobe never leaves).
inline std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return result;
}

}  // namespace dlprobe
