#pragma once

#include <cctype>

namespace dlprobe {

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Of ASCII; bytes of other letters are none.
inline bool is_letter(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0;
}

}  // namespace dlprobe
