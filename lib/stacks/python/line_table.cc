#include "lib/stacks/python/line_table.h"

#include <algorithm>

namespace dlprobe {
namespace {

constexpr int kInstructionBytes = 2;

uint8_t unsigned_at(std::span<const std::byte> table, size_t i) {
  return std::to_integer<uint8_t>(table[i]);
}
int8_t signed_at(std::span<const std::byte> table, size_t i) {
  return static_cast<int8_t>(unsigned_at(table, i));
}

/// Pairs of unsigned bytecode delta and signed line delta.
int line_by_deltas(std::span<const std::byte> table, int first_line, int64_t position) {
  int64_t line = first_line;
  int64_t start = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    start += unsigned_at(table, i);
    if (start > position) break;
    line += signed_at(table, i + 1);
  }
  return static_cast<int>(line);
}

/// Pairs of unsigned length and signed line delta; -128: the range has no line.
std::optional<int> line_by_ranges(std::span<const std::byte> table, int first_line,
                                  int64_t position) {
  constexpr int8_t kNoLine = -128;
  int64_t line = first_line;
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += unsigned_at(table, i);
    const int8_t delta = signed_at(table, i + 1);
    if (delta != kNoLine) line += delta;
    if (position < end)
      return delta == kNoLine ? std::nullopt : std::optional(static_cast<int>(line));
  }
  return std::nullopt;
}

/// Reads numbers off the front of a location entry.
class VarintReader {
 public:
  explicit VarintReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool at_end() const { return bytes_.empty(); }
  uint8_t byte() {
    if (bytes_.empty()) return 0;
    const uint8_t first = unsigned_at(bytes_, 0);
    bytes_ = bytes_.subspan(1);
    return first;
  }
  void skip(size_t count) { bytes_ = bytes_.subspan(std::min(count, bytes_.size())); }
  /// Six bits a byte, the lowest first; bit 6: more follow.
  uint32_t varint() {
    uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 6) {
      const uint8_t next = byte();
      value |= (next & 0x3fU) << shift;
      if ((next & 0x40U) == 0) break;
    }
    return value;
  }
  /// The lowest bit is the sign.
  int signed_varint() {
    const uint32_t value = varint();
    const int magnitude = static_cast<int>(value >> 1);
    return (value & 1U) != 0 ? -magnitude : magnitude;
  }

 private:
  std::span<const std::byte> bytes_;
};

std::optional<int> line_by_locations(std::span<const std::byte> table, int first_line,
                                     int64_t position) {
  enum Kind : unsigned { kOneLine0 = 10, kNoColumns = 13, kLong = 14, kNone = 15 };
  VarintReader reader(table);
  int64_t line = first_line;
  int64_t end = 0;
  while (!reader.at_end()) {
    const uint8_t first = reader.byte();
    const unsigned kind = (first >> 3U) & 0xfU;
    const int64_t instructions = (first & 7U) + 1;
    end += instructions * kInstructionBytes;
    if (kind < kOneLine0) {
      reader.skip(1);
    } else if (kind < kNoColumns) {
      line += kind - kOneLine0;
      reader.skip(2);
    } else if (kind < kNone) {
      line += reader.signed_varint();
      for (int columns = 0; kind == kLong && columns < 3; ++columns)
        reader.varint();
    }
    if (position < end) return kind == kNone ? std::nullopt : std::optional(static_cast<int>(line));
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> python_line_at(PythonLineTable format, std::span<const std::byte> table,
                                  int first_line, int64_t position) {
  if (position < 0) return first_line;
  switch (format) {
    case PythonLineTable::kDeltas:
      return line_by_deltas(table, first_line, position);
    case PythonLineTable::kRanges:
      return line_by_ranges(table, first_line, position);
    case PythonLineTable::kLocations:
      return line_by_locations(table, first_line, position);
  }
  return std::nullopt;
}

}  // namespace dlprobe
