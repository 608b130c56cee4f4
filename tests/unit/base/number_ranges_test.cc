#include "lib/base/number_ranges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

namespace dlprobe {
namespace {

using Numbers = std::vector<int64_t>;

TEST(NumberRanges, NumbersThatFollowOneAnotherAreOneRange) {
  EXPECT_EQ(ranges_text(Numbers{}), "");
  EXPECT_EQ(ranges_text(Numbers{9, 7, 8, 12}), "7-9, 12");
  EXPECT_EQ(ranges_text(Numbers{1, 2, 5, 6, 7}), "1, 2, 5-7");
  EXPECT_EQ(ranges_text(Numbers{3, 3, 4, 3}), "3, 4") << "each counts once";
}

TEST(NumberRanges, TheRestOfManyIsCounted) {
  EXPECT_EQ(ranges_text(Numbers{0, 2, 4, 6, 7, 8}, 2), "0, 2 and 4 more");
  EXPECT_EQ(ranges_text(Numbers{0, 2}, 2), "0, 2");
}

TEST(NumberRanges, WhatIsMissingUpToAnEnd) {
  const std::vector<NumberRange> there = ranges_of({1, 2, 5});
  EXPECT_EQ(gaps_between(there, 8), (std::vector<NumberRange>{{0, 0}, {3, 4}, {6, 7}}));
  EXPECT_EQ(gaps_between(there, 2), (std::vector<NumberRange>{{0, 0}}));
  EXPECT_TRUE(gaps_between(ranges_of({0, 1}), 2).empty());
  const int64_t most = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(count_in(gaps_between({}, most)), static_cast<uint64_t>(most));
}

}  // namespace
}  // namespace dlprobe
