#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/ranks_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// How far a rank is in the default group, by its memory.
void is_at(Ranks& ranks, int32_t rank, int64_t enqueued, int64_t completed,
           const std::string& operation = "all_reduce", const std::string& tensors = "8 elements") {
  ranks.scene.process(kFirst + rank).flight = FlightRecord{.groups = {{.name = "0",
                                                                       .enqueued = enqueued,
                                                                       .completed = completed,
                                                                       .operation = operation,
                                                                       .tensors = tensors}},
                                                           .is_live = true};
}

TEST(RanksOnGpu, ACollectiveThatIsPendingAllAlongIsWhatTheyWaitIn) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.sleeps(1);
  is_at(ranks, 0, 7, 6);
  is_at(ranks, 1, 6, 6);
  is_at(ranks, 2, 7, 6);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_THAT(finding,
              Says("rank 1 (101) sleeps (upload, /srv/train.py:17), and ranks 0, 2 wait in "
                   "all_reduce (main, /srv/train.py:41)"));
  const auto proof = std::ranges::find(finding.evidence, "process_group", &Evidence::name);
  ASSERT_NE(proof, finding.evidence.end());
  EXPECT_EQ(std::get<Message>(proof->value).plain(),
            "ranks 0, 2 enqueued all_reduce number 7; rank 1 (101) completed 6 and enqueued none "
            "after it");
}

TEST(RanksOnGpu, ThoseThatHaveAskedForItAreNotBehind) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.works(1);
  ranks.sleeps(2);
  is_at(ranks, 0, 7, 6);
  is_at(ranks, 1, 7, 6);
  is_at(ranks, 2, 6, 6);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_THAT(finding.message.plain(), StartsWith("rank 2 (102) sleeps"));
  EXPECT_THAT(finding, Not(Says("rank 1")));
}

TEST(RanksOnGpu, AtOnePlaceTheyMayBeInDifferentCollectives) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2}) {
    ranks.waits_for_gpu(rank, 41);
    is_at(ranks, rank, 7, 6, rank == 1 ? "broadcast" : "all_reduce");
  }
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kCertain));
  EXPECT_THAT(finding, Says("ranks 0, 2 wait in all_reduce (main, /srv/train.py:41); rank 1 (101) "
                            "waits in broadcast (main, /srv/train.py:41)"));
}

TEST(RanksOnGpu, TensorsThatDifferAreProved) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2}) {
    ranks.waits_for_gpu(rank, 41);
    is_at(ranks, rank, 7, 6, "all_reduce", rank == 1 ? "16 elements" : "8 elements");
  }
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("rank 1 (101) is in all_reduce number 7, 16 elements"));
}

// A kernel that does not end is before it in the stream of rank 1.
TEST(RanksOnGpu, WhatAllHaveAskedForMayBeHeldUpByAGpu) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2}) {
    ranks.waits_for_gpu(rank, 41);
    is_at(ranks, rank, 7, 6);
  }
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  EXPECT_THAT(finding, Is(Severity::kWarning, Confidence::kPossible));
  EXPECT_THAT(finding, Says("a GPU may be at earlier work"));
  EXPECT_EQ(finding.remedies.size(), 1U);
}

TEST(RanksOnGpu, OneThatPollsForACollectiveWaitsInIt) {
  Ranks ranks;
  for (const int32_t rank : {0, 2}) {
    ranks.polls(rank);
    is_at(ranks, rank, 7, 6);
  }
  ranks.sleeps(1);
  is_at(ranks, 1, 6, 6);
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("ranks 0, 2 wait in all_reduce"));
}

// Each look meets rank 1 in the sleep of another step.
TEST(Ranks, ThoseThatMeetMeanwhileStandNowhere) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 1, 2})
    is_at(ranks, rank, rank == 1 ? 6 : 7, 6);
  EXPECT_TRUE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind));
  for (const int32_t rank : {0, 1, 2})
    ranks.scene.meets_meanwhile(kFirst + rank);
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind));
}

// Once the others had given up it came to the operation.
TEST(Ranks, WhatOneMeetsAfterOthersGaveUpIsNoMotion) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 1, 2})
    is_at(ranks, rank, 7, rank == 1 ? 7 : 6);
  ranks.scene.has_met(kFirst + 1, 6, kLong - 1);
  ranks.scene.gives_up(kFirst);
  ranks.scene.ends_with(1);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_THAT(finding, Says("rank 1 (101) sleeps"));
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
}

TEST(RanksOnGpu, AReadThatFailsOnceLeavesThemWhereTheyAre) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.sleeps(1);
  ranks.scene.has_only_python_at(ranks.main(2), 3);
  EXPECT_TRUE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind));
}

// NCCL's watchdog ends the ranks that waited, not the one that others waited for.
TEST(RanksOnGpu, ThoseThatWaitedAndThenAbortedAreNotTheReason) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.sleeps(1);
  ranks.scene.is_looked_at_when_quiet();
  ranks.scene.moves_again();
  ranks.scene.aborts(kFirst + 2);
  ranks.scene.ends_with(1);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), EndsWith("rank 2 (102) then gave up (SIGABRT)"));
  EXPECT_THAT(finding.processes, Contains(key_of(kFirst + 2))) << "its crash is explained";
}

// NCCL's watchdog gives the group up, and ends its process long after: meanwhile ranks go on.
TEST(RanksOnGpu, WhatTheyDoOnceTheirGroupHasGivenUpIsOfThat) {
  constexpr int kGoesOn = 20;
  constexpr double kTimeout = 10;
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2})
    ranks.waits_for_gpu(rank, 41 + rank);
  is_at(ranks, 0, 9, 8);
  is_at(ranks, 1, 7, 6);
  is_at(ranks, 2, 9, 8);
  for (const int32_t rank : {0, 2})
    ranks.scene.has_met(kFirst + rank, 6, kGoesOn);
  ranks.scene.works_until(ranks.main(0), kGoesOn);
  ranks.scene.works_until(ranks.main(2), kGoesOn);
  ranks.scene.is_looked_at_when_quiet();
  ranks.scene.moves_again();
  ranks.scene.aborts(kFirst + 1);
  ranks.scene.ends_with(1);
  const auto untold = find(ranks.scene.examine(kGoesOn + kLong), FindingCode::kRankBehind);
  EXPECT_TRUE(!untold || !untold->message.plain().starts_with("ranks 0, 2 are at work"));
  ranks.scene.waits_at_most(kFirst + 1, kTimeout);
  const Finding finding = must_find(ranks.scene.examine(kGoesOn + kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), StartsWith("ranks 0, 2 are at work"));
  EXPECT_THAT(finding.message.plain(), EndsWith("rank 1 (101) then gave up (SIGABRT)"));
}

TEST(RanksOnGpu, TheOneThatIsBehindMayCrashByItself) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.works(1);
  ranks.scene.is_looked_at_when_quiet();
  ranks.scene.aborts(kFirst + 1);
  ranks.scene.ends_with(1);
  EXPECT_NE(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind).severity,
            Severity::kError);
}

TEST(RanksOnGpu, TheOneThatIsNotThereIsBehind) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  ranks.waits_for_gpu(2, 41);
  ranks.sleeps(1);
  const Verdict verdict = ranks.scene.examine(kLong);
  const Finding finding = must_find(verdict, FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.confidence, Confidence::kLikely) << "the others may compute";
  EXPECT_THAT(finding,
              Says("rank 1 (101) sleeps (upload, /srv/train.py:17), and ranks 0, 2 wait for "
                   "the GPU, where a collective may be pending (main, /srv/train.py:41)"));
  EXPECT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(finding.remedies.back().commands.front().plain(),
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
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch),
              Is(Severity::kInfo, Confidence::kPossible));
}

// Rank 0 evaluates, alone.
TEST(RanksOnGpu, WhatAStackProvesCountsBeforeAWaitForTheGpu) {
  Ranks ranks;
  ranks.waits_for_gpu(0, 41);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst)});
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding,
              Says("rank 0 (100) waits for the GPU, where a collective may be pending (main, "));
  EXPECT_THAT(finding, Says("and ranks 1, 2 wait in all_reduce"));
}

}  // namespace
}  // namespace dlprobe
