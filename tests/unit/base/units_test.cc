#include "lib/base/units.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(FormatBytes, BinaryUnitsWithOneDecimal) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes(64U << 20U), "64.0 MiB");
  // Never "1024.0 KiB": what rounds up to the next unit is told in it.
  EXPECT_EQ(format_bytes((1U << 20U) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16384.0 PiB");
}

TEST(FormatDuration, TheTwoLargestUnits) {
  EXPECT_EQ(format_duration(milliseconds(350)), "350 ms");
  EXPECT_EQ(format_duration(milliseconds(2400)), "2.4 s");
  EXPECT_EQ(format_duration(milliseconds(59'999)), "60.0 s");
  EXPECT_EQ(format_duration(seconds(200)), "3 min 20 s");
  EXPECT_EQ(format_duration(seconds(7500)), "2 h 5 min");
}

TEST(ParseSize, TakesWhatPeopleType) {
  EXPECT_EQ(parse_size("4096"), 4096U);
  EXPECT_EQ(parse_size("64m"), 64U << 20U);
  EXPECT_EQ(parse_size("64M"), 64U << 20U);
  EXPECT_EQ(parse_size("64MiB"), 64U << 20U);
  EXPECT_EQ(parse_size("2gb"), uint64_t{2} << 30U);
  EXPECT_EQ(parse_size("0"), 0U);
}

TEST(ParseSize, RefusesTheRestWithTheText) {
  for (const char* text :
       {"", "m", "-1", "1.5g", "1x", "1mm", " 1", "1 m", "99999999999999999999", "17179869184g"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_EQ(size.error().code, ErrorCode::kInvalid);
    EXPECT_NE(size.error().context.find(text), std::string::npos);
  }
}

TEST(ParseDuration, NeedsAUnit) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("1.5s"), milliseconds(1500));
  EXPECT_EQ(parse_duration("10m"), seconds(600));
  EXPECT_EQ(parse_duration("2h"), seconds(7200));
  for (const char* text : {"", "5", "-5s", "5d", "s", "1.2.3s", "1e9s", "99999999999h"}) {
    EXPECT_FALSE(parse_duration(text)) << text;
  }
}

TEST(RoundUpToPages, WholePages) {
  EXPECT_EQ(round_up_to_pages(0, 4096), 0U);
  EXPECT_EQ(round_up_to_pages(1, 4096), 4096U);
  EXPECT_EQ(round_up_to_pages(4096, 4096), 4096U);
  EXPECT_EQ(round_up_to_pages(7, 0), 7U);
}

TEST(Units, NumbersWithTheirNouns) {
  EXPECT_EQ(counted(0, "file"), "0 files");
  EXPECT_EQ(counted(1, "process"), "1 process");
  EXPECT_EQ(counted(2, "process"), "2 processes");
  EXPECT_EQ(counted(3, "batch"), "3 batches");
  EXPECT_EQ(counted(4, "living process"), "4 living processes");
  EXPECT_EQ(all_of(0, "worker"), "no worker");
  EXPECT_EQ(all_of(1, "worker"), "the only worker");
  EXPECT_EQ(all_of(2, "worker"), "both workers");
  EXPECT_EQ(all_of(3, "batch"), "all 3 batches");
}

}  // namespace
}  // namespace dlprobe
