#include "lib/model/loader_plan.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(LoaderPlan, NamesGoBothWays) {
  for (const StartMethod method : kStartMethods) {
    EXPECT_EQ(start_method_from_string(to_string(method)), method);
  }
  for (const SharingStrategy strategy : kSharingStrategies) {
    EXPECT_EQ(sharing_strategy_from_string(to_string(strategy)), strategy);
  }
  EXPECT_EQ(start_method_from_string("Fork"), std::nullopt);
  EXPECT_EQ(sharing_strategy_from_string(""), std::nullopt);
}

TEST(LoaderPlan, ASampleIsItsExtentsTimesItsElement) {
  LoaderPlan plan;
  EXPECT_EQ(sample_bytes(plan), 3U * 224 * 224 * 4);
  plan.dtype = "uint8";
  EXPECT_EQ(sample_bytes(plan), 3U * 224 * 224);
  plan.sample_shape = {};
  EXPECT_EQ(sample_bytes(plan), 1U);
  EXPECT_EQ(dtype_bytes("complex64"), std::nullopt);
}

}  // namespace
}  // namespace dlprobe
