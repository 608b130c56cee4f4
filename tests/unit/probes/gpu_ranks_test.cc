#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/ranks_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

TEST(RanksOnGpu, TheOneThatIsNotThereIsBehind) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.sleeps(1);
  const Verdict verdict = ranks.scene.examine(kLong);
  const auto finding = find(verdict, FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->confidence, Confidence::kLikely) << "the others may compute";
  EXPECT_THAT(finding->message.plain(),
              HasSubstr("rank 1 (101) sleeps (upload, /srv/train.py:17), and ranks 0, 2 wait for "
                        "the GPU, where a collective may be pending (main, /srv/train.py:41)"));
  EXPECT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(finding->remedies.back().commands.front().plain(),
              HasSubstr("TORCH_NCCL_TRACE_BUFFER_SIZE"));
}

TEST(RanksOnGpu, WithoutNcclTheyWaitForNobody) {
  Ranks ranks;
  for (const int32_t rank : {0, 2}) {
    ranks.waits_for_gpu(rank, 41);
    ranks.scene.stack(ranks.scene.thread(kFirst + rank, 200 + rank), {});
  }
  ranks.sleeps(1);
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind));
}

TEST(RanksOnGpu, AGpuThatAlwaysHasWorkIsNoHang) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2})
    ranks.waits_for_gpu(rank, 41);
  EXPECT_TRUE(ranks.scene.examine(kLong).findings.empty()) << "they may train";
}

// The last look meets rank 1 between two waits.
TEST(RanksOnGpu, OneThatComesAndGoesIsNotBehind) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2})
    ranks.waits_for_gpu(rank, 41);
  ranks.scene.is_awake_at(ranks.main(1), kLong - 1);
  EXPECT_TRUE(ranks.scene.examine(kLong).findings.empty());
}

TEST(RanksOnGpu, AtDifferentPlacesIsAWord) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(1, 60);
  ranks.waits_for_gpu(2, 41);
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_EQ(finding->confidence, Confidence::kPossible);
}

// Rank 0 evaluates, alone.
TEST(RanksOnGpu, WhatAStackProvesCountsBeforeAWaitForTheGpu) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->processes, std::vector<ProcessKey>{key_of(kFirst)});
  EXPECT_EQ(finding->severity, Severity::kInfo);
  EXPECT_THAT(
      finding->message.plain(),
      HasSubstr("rank 0 (100) waits for the GPU, where a collective may be pending (main, "));
  EXPECT_THAT(finding->message.plain(), HasSubstr("and ranks 1, 2 wait in all_reduce"));
}

}  // namespace
}  // namespace dlprobe
