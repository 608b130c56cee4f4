#include <gtest/gtest.h>

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "lib/stacks/python/line_table.h"

namespace dlprobe {
namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values)
    result.push_back(static_cast<std::byte>(value));
  return result;
}

std::vector<int> lines(PythonLineTable format, const std::vector<std::byte>& table, int first_line,
                       std::initializer_list<int64_t> positions) {
  std::vector<int> found;
  for (const int64_t position : positions)
    found.push_back(python_line_at(format, table, first_line, position).value_or(0));
  return found;
}

// The example of CPython's Objects/lnotab_notes.txt.
TEST(PythonLineTable, DeltasAreAddedUpToThePosition) {
  const auto table = bytes({0, 1, 6, 1, 44, 5, 250, 0, 45, 100, 0, 100, 0, 7});
  EXPECT_EQ(lines(PythonLineTable::kDeltas, table, 0, {0, 5, 6, 49, 50, 344, 345}),
            (std::vector{1, 1, 2, 2, 7, 7, 214}));
}

TEST(PythonLineTable, DeltasMayGoBack) {
  const auto table = bytes({2, 3, 4, 0xfe});
  EXPECT_EQ(lines(PythonLineTable::kDeltas, table, 10, {0, 2, 6}), (std::vector{10, 13, 11}));
}

TEST(PythonLineTable, RangesMayHaveNoLine) {
  const auto table = bytes({4, 0, 2, 0x80, 2, 3, 0, 5, 2, 0xff});
  EXPECT_EQ(lines(PythonLineTable::kRanges, table, 10, {0, 3, 4, 6, 8, 10}),
            (std::vector{10, 10, 0, 13, 17, 0}));
}

TEST(PythonLineTable, LocationsOfEveryKind) {
  const auto table = bytes({
      0x80, 0x12,                  // kind 0, one unit: the same line
      0x80 | (11 << 3) | 1, 1, 2,  // kind 11, two units: one line on
      0x80 | (13 << 3), 0x40 | 0x08,
      0x3,  // kind 13: a varint of 0x3 << 6 | 0x8 = 200: 100 lines on
      0x80 | (14 << 3), 0x05, 0, 0x41, 1, 0,  // kind 14: two lines back; the end line has two bytes
      0x80 | (15 << 3),                       // kind 15: no line
      0x80 | (12 << 3), 0, 0,                 // kind 12: two lines on
  });
  EXPECT_EQ(lines(PythonLineTable::kLocations, table, 7, {0, 2, 4, 6, 8, 10, 12, 14}),
            (std::vector{7, 8, 8, 108, 106, 0, 108, 0}));
}

TEST(PythonLineTable, BeforeTheFirstInstructionItIsTheFirstLine) {
  const auto table = bytes({0x80 | (12 << 3), 0, 0});
  EXPECT_EQ(python_line_at(PythonLineTable::kLocations, table, 7, -2), 7);
  EXPECT_EQ(python_line_at(PythonLineTable::kDeltas, bytes({0, 1}), 7, -1), 7);
}

TEST(PythonLineTable, AnyBytesAreRead) {
  for (const PythonLineTable format :
       {PythonLineTable::kDeltas, PythonLineTable::kRanges, PythonLineTable::kLocations}) {
    for (int value = 0; value < 256; ++value) {
      for (size_t length = 0; length < 40; ++length) {
        const std::vector<std::byte> table(length, static_cast<std::byte>(value));
        python_line_at(format, table, std::numeric_limits<int>::max(), int64_t{1} << 40);
      }
    }
  }
}

}  // namespace
}  // namespace dlprobe
