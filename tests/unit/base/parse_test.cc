#include "lib/base/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace dlprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ParseInt, TakesTheWholeTextOrNothing) {
  EXPECT_EQ(parse_int<int>("42"), 42);
  EXPECT_EQ(parse_int<int>("-42"), -42);
  EXPECT_EQ(parse_int<uint64_t>("ff", 16), 255U);
  EXPECT_EQ(parse_int<uint64_t>("18446744073709551615"), UINT64_MAX);
  for (const char* text :
       {"", " 1", "1 ", "+1", "1x", "0x10", "--1", "18446744073709551616", "-1"}) {
    EXPECT_EQ(parse_int<uint64_t>(text), std::nullopt) << text;
  }
}

TEST(ParseDouble, TakesFiniteNumbersOnly) {
  EXPECT_EQ(parse_double("1.5"), 1.5);
  for (const char* text : {"", "nan", "inf", "1e999", "1.5s", " 1"}) {
    EXPECT_EQ(parse_double(text), std::nullopt) << text;
  }
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split_fields("  a \t b "), ElementsAre("a", "b"));
  EXPECT_THAT(split_fields(" \t"), IsEmpty());
  EXPECT_EQ(trim(" \ta b\r\n"), "a b");
  EXPECT_EQ(trim("\n"), "");
}

TEST(ForEachLine, ALastLineWithoutANewlineCounts) {
  std::vector<std::string> lines;
  for_each_line("a\n\nb", [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_THAT(lines, ElementsAre("a", "", "b"));
}

}  // namespace
}  // namespace dlprobe
