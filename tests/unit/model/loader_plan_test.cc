#include "lib/model/loader_plan.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

TEST(LoaderPlan, NamesGoBothWays) {
  for (const StartMethod method : kValues<StartMethod>) {
    EXPECT_EQ(from_string<StartMethod>(to_string(method)), method);
  }
  for (const SharingStrategy strategy : kValues<SharingStrategy>) {
    EXPECT_EQ(from_string<SharingStrategy>(to_string(strategy)), strategy);
  }
  EXPECT_EQ(from_string<StartMethod>("Fork"), std::nullopt);
  EXPECT_EQ(from_string<SharingStrategy>(""), std::nullopt);
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
