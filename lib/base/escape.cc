#include "lib/base/escape.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>

namespace dlprobe {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t length = 0;
};

// One well-formed UTF-8 sequence (RFC 3629) at the start of `text`; nothing if there is none.
std::optional<CodePoint> decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return CodePoint{.value = first, .length = 1};
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return std::nullopt;
  uint32_t value = first & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return std::nullopt;
    value = value << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = value >= 0xd800 && value <= 0xdfff;
  if (value < kLeast.at(length) || value > 0x10ffff || is_surrogate) return std::nullopt;
  return CodePoint{.value = value, .length = length};
}

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

std::string escape(std::string_view text, bool keep_newlines) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto point = decode(text);
    const size_t length = point ? point->length : 1;
    if (!point) {
      append_format(out, "\\x%02x", static_cast<unsigned>(static_cast<uint8_t>(text.front())));
    } else if (point->value < 0x20 || (point->value >= 0x7f && point->value < 0xa0)) {
      if (keep_newlines && point->value == '\n') {
        out += '\n';
      } else {
        append_format(out, "\\x%02x", point->value);
      }
    } else if (is_invisible(point->value)) {
      append_format(out, "\\u{%x}", point->value);
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

std::string escape_for_terminal(std::string_view text) { return escape(text, false); }

std::string escape_keeping_newlines(std::string_view text) { return escape(text, true); }

}  // namespace dlprobe
