#include "lib/stacks/python/objects.h"

#include <fmt/format.h>

#include <algorithm>

namespace dlprobe {
namespace {

constexpr uint64_t kTextLimit = 65'536;              ///< characters
constexpr uint64_t kBytesLimit = uint64_t{4} << 20;  ///< a line table of 400 000 lines
constexpr size_t kTypeNameLimit = 100;
constexpr uint32_t kReplacement = 0xfffd;

void append_utf8(std::string& text, uint32_t code_point) {
  const auto add = [&text](uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_tail = [&](unsigned shift) { add(0x80U | ((code_point >> shift) & 0x3fU)); };
  if (code_point < 0x80) {
    add(code_point);
  } else if (code_point < 0x800) {
    add(0xc0U | (code_point >> 6U));
    add_tail(0);
  } else if (code_point < 0x10000) {
    add(0xe0U | (code_point >> 12U));
    add_tail(6);
    add_tail(0);
  } else {
    add(0xf0U | (code_point >> 18U));
    add_tail(12);
    add_tail(6);
    add_tail(0);
  }
}

void append_character(std::string& text, uint32_t character) {
  const bool is_escaped_byte = character >= 0xdc80 && character <= 0xdcff;  // PEP 383
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (is_escaped_byte) {
    text += static_cast<char>(character - 0xdc00);
  } else {
    append_utf8(text, is_surrogate || character > 0x10ffff ? kReplacement : character);
  }
}

/// `bytes` are characters of `width` bytes each: 1, 2 or 4.
std::string to_utf8(const std::vector<std::byte>& bytes, size_t width) {
  std::string text;
  text.reserve(bytes.size());
  for (size_t i = 0; i + width <= bytes.size(); i += width) {
    uint32_t character = 0;
    std::memcpy(&character, bytes.data() + i, width);
    append_character(text, character);
  }
  return text;
}

}  // namespace

Expected<std::string> python_type_name(const Memory& memory, const PythonLayout::Object& layout,
                                       uint64_t object) {
  DLP_TRY(const uint64_t type, memory.value<uint64_t>(object + layout.type));
  return python_name_of_type(memory, layout, type);
}

Expected<std::string> python_name_of_type(const Memory& memory, const PythonLayout::Object& layout,
                                          uint64_t type) {
  DLP_TRY(const uint64_t name_at, memory.value<uint64_t>(type + layout.type_name));
  std::string name;
  for (uint64_t i = 0; i < kTypeNameLimit; ++i) {
    DLP_TRY(const char letter, memory.value<char>(name_at + i));
    if (letter == '\0') return name;
    name += letter;
  }
  return failure(ErrorCode::kMalformed, fmt::format("read the name of the type at {:#x}", type));
}

/// What a str says of itself; its characters lie at `data`.
struct PythonObjects::StrHeader {
  uint64_t length = 0;
  size_t width = 1;
  uint64_t data = 0;
};

Expected<PythonObjects::StrHeader> PythonObjects::read_header(uint64_t object) const {
  const PythonLayout::Unicode& at = layout_.unicode;
  StrHeader header;
  DLP_TRY(header.length, memory_.value<uint64_t>(object + at.length));
  DLP_TRY(const uint32_t state, memory_.value<uint32_t>(object + at.state));
  header.width = (state >> at.kind_bit) & 7U;
  const bool is_compact = ((state >> (at.kind_bit + 3)) & 1U) != 0;
  const bool is_ascii = ((state >> (at.kind_bit + 4)) & 1U) != 0;
  const bool is_width = header.width == 1 || header.width == 2 || header.width == 4;
  if (!is_width || header.length > kTextLimit) {
    return failure(ErrorCode::kMalformed, fmt::format("read a str at {:#x}", object));
  }
  header.data = object + (is_compact && is_ascii ? at.ascii_size : at.compact_size);
  if (!is_compact) {
    DLP_TRY(header.data, memory_.value<uint64_t>(header.data));
  }
  return header;
}

Expected<std::string> PythonObjects::text(uint64_t object) {
  DLP_TRY(const StrHeader header, read_header(object));
  DLP_TRY(const auto bytes, read(header.data, header.length * header.width));
  return to_utf8(bytes, header.width);
}

Expected<std::vector<std::byte>> PythonObjects::bytes(uint64_t object) {
  DLP_TRY(const uint64_t count, memory_.value<uint64_t>(object + layout_.object.bytes_size));
  if (count > kBytesLimit) {
    return failure(ErrorCode::kMalformed, fmt::format("read bytes at {:#x}", object));
  }
  return read(object + layout_.object.bytes_data, count);
}

Expected<std::vector<std::byte>> PythonObjects::read(uint64_t address, uint64_t count) {
  if (count > bytes_left_) {
    return failure(ErrorCode::kMalformed, "read Python's objects: more than a process can need");
  }
  bytes_left_ -= count;
  std::vector<std::byte> bytes(count);
  DLP_CHECK(memory_.read(address, bytes));
  return bytes;
}

Status PythonListGuard::enter(uint64_t address) {
  if (seen_.size() >= limit_) {
    return failure(ErrorCode::kMalformed, fmt::format("read more than {} {}", limit_, what_));
  }
  if (!seen_.insert(address).second) {
    return failure(ErrorCode::kMalformed, fmt::format("read {}: a circle", what_));
  }
  return {};
}

}  // namespace dlprobe
