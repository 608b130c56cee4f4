#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "lib/model/finding.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {
namespace {

using ::testing::HasSubstr;

Expected<FaultEffects> effects(const std::string& text, const LoaderPlan& plan = {}) {
  const auto fault = parse_fault(text);
  if (!fault) return std::unexpected(fault.error());
  return effects_of(*fault, plan);
}

std::string error_of(const std::string& text, const LoaderPlan& plan = {}) {
  const auto result = effects(text, plan);
  return result ? "" : to_string(result.error());
}

TEST(LoaderFault, NoneHasNoEffects) {
  const auto none = effects("");
  ASSERT_TRUE(none);
  EXPECT_EQ(none->hang, FaultKind::kNone);
  EXPECT_FALSE(none->private_mount);
}

TEST(LoaderFault, EachHangNeedsNoMountAndEnoughBatches) {
  LoaderPlan plan;
  plan.workers = 3;
  plan.prefetch_factor = 2;
  for (const FaultInfo& info : all_faults()) {
    const auto result = effects(std::string(info.name), plan);
    if (info.kind == FaultKind::kShmLeak) continue;  // wants another sharing strategy
    ASSERT_TRUE(result) << info.name;
    if (result->hang == FaultKind::kNone) {
      EXPECT_TRUE(result->private_mount) << info.name;
      continue;
    }
    EXPECT_EQ(result->hang, info.kind);
    EXPECT_FALSE(result->private_mount) << info.name;
    EXPECT_EQ(result->hang_after, 4) << info.name;
    EXPECT_EQ(result->hang_worker, 0) << info.name;
    EXPECT_GE(result->needs_batches, result->hang_after + plan.workers) << info.name;
  }
}

TEST(LoaderFault, ParametersOfAHang) {
  const auto stopped = effects("worker-stopped:after=7,worker=1");
  ASSERT_TRUE(stopped);
  EXPECT_EQ(stopped->hang_after, 7);
  EXPECT_EQ(stopped->hang_worker, 1);
  const auto slow = effects("slow-sample:seconds=2");
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->sample_time, std::chrono::seconds(2));
  const auto blocking = effects("fork-lost-thread-pool");
  ASSERT_TRUE(blocking);
  EXPECT_FALSE(blocking->spins);
  const auto spinning = effects("fork-lost-thread-pool:wait=spinning");
  ASSERT_TRUE(spinning);
  EXPECT_TRUE(spinning->spins);
}

TEST(LoaderFault, WhatCannotHappenIsSaid) {
  LoaderPlan plan;
  plan.workers = 2;
  EXPECT_THAT(error_of("lock-cycle:worker=2", plan), HasSubstr("from 0 to 1"));
  plan.workers = 0;
  EXPECT_THAT(error_of("lock-cycle", plan), HasSubstr("--workers 1"));
  EXPECT_THAT(error_of("shm-too-small", plan), HasSubstr("--workers 1"));
}

TEST(LoaderFault, WhatIsNoFaultListsThoseThatAre) {
  EXPECT_THAT(error_of("gil-held-while-blocked"), HasSubstr("consumer-stuck"));
  EXPECT_THAT(error_of("consumer-stuck:worker=0"), HasSubstr("one of: after"));
  EXPECT_THAT(error_of("lock-cycle:after=0"), HasSubstr("from 1"));
  EXPECT_THAT(error_of("lock-cycle:worker=-1"), HasSubstr("from 0"));
  EXPECT_THAT(error_of("fork-lost-thread-pool:wait=long"), HasSubstr("blocking|spinning"));
}

TEST(LoaderFault, EveryFaultHasTheNameOfAFinding) {
  for (const FaultInfo& info : all_faults())
    EXPECT_NE(find_finding(info.name), nullptr) << info.name;
}

}  // namespace
}  // namespace dlprobe::loader
