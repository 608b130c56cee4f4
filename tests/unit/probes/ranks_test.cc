#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "probes/deadlock/may_be_stuck.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

constexpr int32_t kFirst = HangScene::kTrainer;
constexpr const char* kC10d =
    "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
constexpr int kLong = 12;  // looks

// Rank 0 is pid 100, ranks 1 and 2 are 101 and 102; each trains without workers.
class Ranks {
 public:
  Ranks() {
    for (int32_t rank = 0; rank < 3; ++rank) {
      ProcessInfo& info = scene.info(kFirst + rank);
      info.role = Role::kTrainer;
      info.start_method.reset();
      info.ppid = 50;
      info.rank = JobRank{.job = "10.0.0.1:29500", .rank = rank, .world_size = 3, .source = "RANK"};
      waits(rank, "all_reduce", 41);
    }
  }

  ThreadSnapshot& main(int32_t rank) { return scene.main(kFirst + rank); }

  void waits(int32_t rank, const std::string& operation, int line) {
    scene.wait_in_futex(main(rank), futex(LockKind::kCondition, 0x7000));
    scene.stack(main(rank), {native("_ZN4c10d4Work4waitE", "/usr/lib/libtorch_cpu.so"),
                             python(operation, kC10d, 5), python("main", "/srv/train.py", line)});
  }

  void works(int32_t rank) {
    scene.run(main(rank));
    scene.stack(main(rank), {python("evaluate", "/srv/train.py", 20)});
  }

  void sleeps(int32_t rank) {
    scene.sleep(main(rank));
    scene.stack(main(rank), {python("upload", "/srv/train.py", 17)});
  }

  HangScene scene{2};
};

TEST(Ranks, TheOneThatHasNotReachedTheCollectiveIsNamed) {
  Ranks ranks;
  ranks.sleeps(1);
  const Verdict verdict = ranks.scene.examine(kLong);
  const auto finding = find(verdict, FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding->message.plain(),
              HasSubstr("rank 1 (101) sleeps (upload, /srv/train.py:17), and ranks 0, 2 wait in "
                        "all_reduce (main, /srv/train.py:41)"));
  EXPECT_EQ(verdict.findings.size(), 1U) << "who waits for another rank is no cause";
}

TEST(Ranks, OneThatWorksIsAWord) {
  Ranks ranks;
  ranks.works(1);
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kInfo) << "it may save a checkpoint";
}

TEST(Ranks, AShortWaitIsAWordThatALongerWatchWouldSettle) {
  Ranks ranks;
  ranks.sleeps(1);
  const auto finding = find(ranks.scene.examine(3), FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kInfo);
}

TEST(Ranks, WhatIsWrongWithItsLoaderComesFirst) {
  Ranks ranks;
  ProcessInfo& worker = ranks.scene.info(kFirst + 2);
  worker.role = Role::kWorker;
  worker.start_method = StartMethod::kFork;
  worker.ppid = kFirst + 1;
  ranks.scene.wait_in_read(ranks.main(1), HangScene::kResults);
  ranks.scene.has_end(kFirst + 1, HangScene::kResults, true, false);
  ranks.scene.stack(ranks.main(1),
                    {python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103),
                     python("main", "/srv/train.py", 30)});
  FutexWait lock = futex(LockKind::kMutex, 0x1000);
  lock.owner_tid = kFirst + 1;
  lock.owner_gone = true;
  ranks.scene.wait_in_futex(ranks.main(2), lock);
  const Verdict verdict = ranks.scene.examine(kLong);
  ASSERT_GE(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kForkInheritedLock);
  const auto behind = find(verdict, FindingCode::kRankBehind);
  ASSERT_TRUE(behind);
  EXPECT_EQ(behind->consequence_of, FindingCode::kForkInheritedLock);
  EXPECT_THAT(behind->message.plain(), HasSubstr("waits for a batch of its loader"));
}

TEST(Ranks, DifferentOperationsDoNotFitTogether) {
  Ranks ranks;
  ranks.waits(1, "broadcast", 44);
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kError);
  EXPECT_THAT(
      finding->message.plain(),
      HasSubstr("ranks 0, 2 wait in all_reduce (main, /srv/train.py:41); rank 1 (101) waits "
                "in broadcast (main, /srv/train.py:44)"));
}

TEST(Ranks, AtOnePlaceAllMayDifferInShape) {
  Ranks ranks;
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->severity, Severity::kWarning);
  EXPECT_EQ(finding->confidence, Confidence::kPossible);
}

TEST(Ranks, ThoseOfOtherNodesMayBeWaitedFor) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank->world_size = 8;
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message.plain(), HasSubstr("ranks 3-7, on other nodes"));
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank->job = "localhost:29500";
  EXPECT_TRUE(find(ranks.scene.examine(kLong), FindingCode::kRankDead)) << "all meet here";
}

// Who keeps the store of a job asks it again and again who has come.
TEST(Ranks, AllButOneWaitWhereTheyMeet) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.waits(rank, "init_process_group", 9);
    ranks.scene.info(kFirst + rank).rank->job = "127.0.0.1:29500";
    ranks.scene.info(kFirst + rank).rank->world_size = 4;
  }
  ranks.scene.wakes(ranks.main(0));
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kRankDead);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message.plain(), HasSubstr("rank 3 of this job is not on this machine"));
}

TEST(Ranks, ThoseWithoutWorkersAreThroughWithTheirData) {
  Ranks ranks;
  ProcessInfo& worker = ranks.scene.info(kFirst + 2);
  worker.role = Role::kWorker;
  worker.ppid = kFirst;
  ranks.scene.info(kFirst).rank->world_size = 2;
  ranks.scene.info(kFirst + 1).rank->world_size = 2;
  ranks.waits(1, "barrier", 60);
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kUnevenData);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding->message.plain(), HasSubstr("rank 1 (101) is through with the data"));
}

TEST(Ranks, AJobThatMovesHasItsSlowestRank) {
  Ranks ranks;
  ranks.scene.wakes(ranks.main(0));
  ranks.scene.wakes(ranks.main(2));
  ranks.works(1);
  const Verdict verdict = ranks.scene.examine(kLong);
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kSlowestRank);
  EXPECT_EQ(verdict.findings.front().severity, Severity::kInfo);
  ranks.scene.wakes(ranks.main(1));
  ranks.waits(1, "all_reduce", 41);
  EXPECT_TRUE(ranks.scene.examine(kLong).findings.empty()) << "all may be in another round";
}

// A master that takes messages waits for any of several workers, which sleep by turns.
TEST(Ranks, WhoTakesMessagesWaitsForNoOneRank) {
  Ranks ranks;
  ranks.scene.run(ranks.main(0));
  ranks.scene.stack(ranks.main(0), {native("PMPI_Mprobe", "/usr/lib/libmpi.so.40"),
                                    python("main", "/srv/train.py", 41)});
  for (const int32_t rank : {1, 2}) {
    ranks.sleeps(rank);
    ranks.scene.wakes(ranks.main(rank));
  }
  for (const Finding& finding : ranks.scene.examine(kLong).findings)
    EXPECT_EQ(finding.severity, Severity::kInfo) << finding.message.plain();
}

TEST(Ranks, OneAtTheEndOfItsProgramHasLeftTheOthers) {
  Ranks ranks;
  ranks.scene.run(ranks.main(1));
  ranks.scene.stack(ranks.main(1), {native("opal_progress", "/usr/lib/libopen-pal.so.40"),
                                    native("ompi_mpi_finalize", "/usr/lib/libmpi.so.40")});
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kUnevenData);
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding->message.plain(), HasSubstr("rank 1 (101) is at the end of the program"));
}

TEST(Ranks, RanksOfMpiAskAgainAndAgain) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 2}) {
    ranks.scene.run(ranks.main(rank));
    ranks.scene.stack(ranks.main(rank), {native("PMPI_Allreduce", "/usr/lib/libmpi.so.40"),
                                         python("main", "/srv/train.py", 41)});
  }
  const auto finding = find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message.plain(), HasSubstr("ranks 0, 2 wait in MPI_Allreduce"));
}

}  // namespace
}  // namespace dlprobe
