#include "lib/base/utf8.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace dlprobe {
namespace {

struct LeadByte {
  size_t bytes = 0;       // of the whole character; 0: begins none
  uint32_t bits = 0;      // its share of the code point
  uint32_t smallest = 0;  // less than this is an overlong form
};

LeadByte lead_byte(unsigned char byte) {
  if (byte < 0x80) return {.bytes = 1, .bits = byte, .smallest = 0};
  if ((byte & 0xE0U) == 0xC0) return {.bytes = 2, .bits = byte & 0x1FU, .smallest = 0x80};
  if ((byte & 0xF0U) == 0xE0) return {.bytes = 3, .bits = byte & 0x0FU, .smallest = 0x800};
  if ((byte & 0xF8U) == 0xF0) return {.bytes = 4, .bits = byte & 0x07U, .smallest = 0x10000};
  return {};
}

// Ranges of code points that a terminal obeys, reorders or does not show: C0, DEL, C1, soft hyphen,
// Arabic letter mark, zero width and direction marks, line and paragraph separators, embeddings and
// isolates, byte order mark, interlinear annotation, tags.
constexpr std::array<std::pair<uint32_t, uint32_t>, 10> kUnprintable = {{
    {0x00, 0x1F},
    {0x7F, 0x9F},
    {0xAD, 0xAD},
    {0x61C, 0x61C},
    {0x200B, 0x200F},
    {0x2028, 0x202E},
    {0x2060, 0x206F},
    {0xFEFF, 0xFEFF},
    {0xFFF9, 0xFFFB},
    {0xE0000, 0xE0FFF},
}};

bool is_unprintable(uint32_t code_point) {
  return std::ranges::any_of(kUnprintable, [code_point](const auto& range) {
    return code_point >= range.first && code_point <= range.second;
  });
}

std::string escape_byte(char byte) {
  return fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
}

std::string escape_code_point(uint32_t code_point) {
  switch (code_point) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return code_point < 0x80 ? fmt::format("\\x{:02x}", code_point)
                               : fmt::format("\\u{{{:04x}}}", code_point);
  }
}

}  // namespace

Utf8Char decode_utf8(std::string_view text) {
  constexpr Utf8Char kInvalid = {.code_point = 0xFFFD, .bytes = 1, .valid = false};
  const LeadByte lead = lead_byte(static_cast<unsigned char>(text.front()));
  if (lead.bytes == 0 || text.size() < lead.bytes) return kInvalid;
  uint32_t code_point = lead.bits;
  for (const char c : text.substr(1, lead.bytes - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0U) != 0x80) return kInvalid;
    code_point = (code_point << 6U) | (byte & 0x3FU);
  }
  const bool is_surrogate = code_point >= 0xD800 && code_point <= 0xDFFF;
  if (code_point < lead.smallest || code_point > 0x10FFFF || is_surrogate) return kInvalid;
  return {.code_point = code_point, .bytes = lead.bytes, .valid = true};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (!next.valid) return false;
    text.remove_prefix(next.bytes);
  }
  return true;
}

std::string to_valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    result += next.valid ? std::string(text.substr(0, next.bytes)) : escape_byte(text.front());
    text.remove_prefix(next.bytes);
  }
  return result;
}

std::string printable(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Utf8Char next = decode_utf8(text);
    if (!next.valid) {
      result += escape_byte(text.front());
    } else if (is_unprintable(next.code_point)) {
      result += escape_code_point(next.code_point);
    } else {
      result += text.substr(0, next.bytes);
    }
    text.remove_prefix(next.bytes);
  }
  return result;
}

}  // namespace dlprobe
