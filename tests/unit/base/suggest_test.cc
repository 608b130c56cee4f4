#include "lib/base/suggest.h"

#include <gtest/gtest.h>

#include <array>

namespace dlprobe {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"json", "human", "prometheus", "sarif"};

TEST(Suggest, TheNearestNameIfItIsNear) {
  EXPECT_EQ(did_you_mean("jsno", kNames), " (did you mean 'json'?)");
  EXPECT_EQ(did_you_mean("JSON", kNames), " (did you mean 'json'?)");
  EXPECT_EQ(did_you_mean("promethues", kNames), " (did you mean 'prometheus'?)");
  EXPECT_EQ(did_you_mean("sarf", kNames), " (did you mean 'sarif'?)");
  EXPECT_EQ(did_you_mean("pdf", kNames), "");
  EXPECT_EQ(did_you_mean("", kNames), "");
  EXPECT_EQ(did_you_mean(std::string(1000, 'j'), kNames), "");
}

}  // namespace
}  // namespace dlprobe
