#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace dlprobe {

/// `text` with some characters written in another way, as a format escapes them.
inline std::string replaced(std::string_view text,
                            std::initializer_list<std::pair<char, std::string_view>> characters) {
  std::string result;
  for (const char& c : text) {
    const auto* found = std::ranges::find(characters, c, &std::pair<char, std::string_view>::first);
    result += found == characters.end() ? std::string_view(&c, 1) : found->second;
  }
  return result;
}

}  // namespace dlprobe
