#include "reports/document/text_layout.h"

#include <gtest/gtest.h>

#include <limits>

#include "reports/document/text_page.h"

namespace dlprobe {
namespace {

std::string paragraph(std::string_view lead, std::string_view text, int width) {
  TextPage page({.width = width});
  page.paragraph(lead, text);
  return std::move(page).take();
}

TEST(TextPage, BreaksBetweenWordsUnderTheLead) {
  EXPECT_EQ(paragraph("  - ", "one two three four five six", 25),
            "  - one two three four\n    five six\n");
  EXPECT_EQ(paragraph("- ", "", 80), "- \n");
}

TEST(TextPage, CutsAWordThatNoLineCanHold) {
  EXPECT_EQ(
      paragraph("", std::string(50, 'x'), 20),
      std::string(20, 'x') + "\n" + std::string(20, 'x') + "\n" + std::string(10, 'x') + "\n");
}

TEST(TextPage, CutsNoCode) {
  TextPage page({.width = 20});
  page.code("    ", "state = numpy.random.default_rng(seed).state");
  EXPECT_EQ(std::move(page).take(), "    state = numpy.random.default_rng(seed).state\n");
}

TEST(TextPage, CountsCharactersNotBytes) {
  EXPECT_EQ(columns_of("a\xc3\xa9\xff"), 3U);
  EXPECT_EQ(
      paragraph(
          "", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 bbbbbbbbbb",
          20),
      "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9 bbbbbbbbbb\n");
}

TEST(TextPage, ATableDropsColumnsThatDoNotFit) {
  TextPage page({.width = 14});
  page.table({{"name", "a", "c"}, {"x", "1", "3000000000"}, {"yy", "22", "4"}}, 1);
  EXPECT_EQ(std::move(page).take(), " name  a\n x     1\n yy   22\n");
}

TEST(TextValues, AbsentIsADashAndNeverAZero) {
  EXPECT_EQ(bytes_text(std::nullopt), "-");
  EXPECT_EQ(bytes_text(65536), "64.0 KiB");
  EXPECT_EQ(bytes_text(-65536), "-64.0 KiB");
  EXPECT_EQ(number_text(std::nullopt, "bytes"), "-");
  EXPECT_EQ(number_text(std::numeric_limits<double>::quiet_NaN(), "s"), "-");
  EXPECT_EQ(number_text(2.5, "s"), "2.5 s");
  EXPECT_EQ(value_text(int64_t{17}, "1"), "17");
  EXPECT_EQ(value_text(uint64_t{65536}, "bytes"), "64.0 KiB");
  EXPECT_EQ(number_text(1e300, "s"), "1e+300 s");
  EXPECT_EQ(shown(std::optional<std::string>()), "");
  EXPECT_EQ(shown("a\x1b"), "a\\x1b");
}

}  // namespace
}  // namespace dlprobe
