#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace dlprobe {

/// The first character of a text: its code point and how many bytes it takes.
struct Utf8Char {
  uint32_t code_point = 0;
  size_t bytes = 0;    ///< 1 to 4; 1 where `valid` is false
  bool valid = false;  ///< false: the first byte begins no well-formed UTF-8 character (RFC 3629)
};

/// Decodes the first character of `text`, which must not be empty. Overlong forms, surrogates and
/// values above U+10FFFF are not valid.
Utf8Char decode_utf8(std::string_view text);

/// Whether all of `text` is well-formed UTF-8.
bool is_utf8(std::string_view text);

/// `text` with each byte that is not part of well-formed UTF-8 written as "\xHH".
std::string to_valid_utf8(std::string_view text);

}  // namespace dlprobe
