#include "lib/base/suggest.h"

#include <gtest/gtest.h>

#include <array>

namespace dlprobe {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"json", "human", "prometheus", "sarif"};

TEST(Suggest, TheNearestNameIfItIsNear) {
  EXPECT_EQ(closest("jsno", kNames), "json");
  EXPECT_EQ(closest("JSON", kNames), "json");
  EXPECT_EQ(closest("promethues", kNames), "prometheus");
  EXPECT_EQ(closest("sarf", kNames), "sarif");
  EXPECT_EQ(closest("pdf", kNames), "");
  EXPECT_EQ(closest("", kNames), "");
  EXPECT_EQ(closest(std::string(1000, 'j'), kNames), "");
}

TEST(Suggest, AsAQuestion) {
  EXPECT_EQ(did_you_mean("humna", kNames), " (did you mean 'human'?)");
  EXPECT_EQ(did_you_mean("x", kNames), "");
}

}  // namespace
}  // namespace dlprobe
