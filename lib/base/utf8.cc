#include "lib/base/utf8.h"

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

std::string escape_byte(char byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto value = static_cast<unsigned char>(byte);
  return {'\\', 'x', kDigits[value >> 4U], kDigits[value & 0xFU]};
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

}  // namespace dlprobe
