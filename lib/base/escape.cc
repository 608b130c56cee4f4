#include "lib/base/escape.h"

#include <array>
#include <cstdint>
#include <cstdio>

#include "lib/base/utf8.h"

namespace dlprobe {
namespace {

bool is_invisible(uint32_t c) {
  return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0x061c || c == 0x00ad ||
         (c >= 0xe0000 && c <= 0xe007f);
}

template <class... Arguments>
void append_format(std::string& out, const char* format, Arguments... arguments) {
  std::array<char, 16> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, arguments...);
  out.append(buffer.data(), static_cast<size_t>(length));
}

}  // namespace

std::string escape_for_terminal(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char point = decode_utf8(text);
    if (!point.valid) {
      append_format(out, "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(text.front())));
    } else if (point.code_point < 0x20 || (point.code_point >= 0x7f && point.code_point < 0xa0)) {
      append_format(out, "\\x%02x", point.code_point);
    } else if (is_invisible(point.code_point)) {
      append_format(out, "\\u{%x}", point.code_point);
    } else {
      out.append(text.substr(0, point.bytes));
    }
    text.remove_prefix(point.bytes);
  }
  return out;
}

}  // namespace dlprobe
