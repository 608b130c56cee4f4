#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "probes/deadlock/may_be_stuck.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/ranks_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

TEST(Ranks, TheOneThatHasNotReachedTheCollectiveIsNamed) {
  Ranks ranks;
  ranks.sleeps(1);
  const Verdict verdict = ranks.scene.examine(kLong);
  const Finding finding = must_find(verdict, FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding,
              Says("rank 1 (101) sleeps (upload, /srv/train.py:17), and ranks 0, 2 wait in "
                   "all_reduce (main, /srv/train.py:41)"));
  EXPECT_EQ(verdict.findings.size(), 1U) << "who waits for another rank is no cause";
}

TEST(Ranks, ADumpOfTheFlightRecorderIsFurtherProof) {
  Ranks ranks;
  ranks.sleeps(1);
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.scene.process(kFirst + rank).flight =
        FlightRecord{.groups = {{.name = "0",
                                 .enqueued = rank == 1 ? 6 : 7,
                                 .completed = 6,
                                 .operation = "all_reduce"}}};
  }
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  const auto proof = std::ranges::find(finding.evidence, "flight_recorder", &Evidence::name);
  ASSERT_NE(proof, finding.evidence.end());
  EXPECT_THAT(std::get<Message>(proof->value).plain(),
              HasSubstr("ranks 0, 2 enqueued all_reduce number 7; rank 1 (101) completed 6 and "
                        "enqueued none after it"));
}

TEST(Ranks, OneThatWorksIsAWord) {
  Ranks ranks;
  ranks.works(1);
  EXPECT_EQ(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind).severity,
            Severity::kInfo)
      << "it may save a checkpoint";
  EXPECT_EQ(must_find(ranks.scene.examine(kAMinute), FindingCode::kRankBehind).severity,
            Severity::kWarning);
}

// It asks again and again whether a file is there.
TEST(Ranks, OneThatPollsStandsLikeOneThatSleeps) {
  Ranks ranks;
  ranks.polls(1);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("rank 1 (101) polls"));
  EXPECT_THAT(finding, AdvisesFirst("what that loop waits for"));
}

TEST(Ranks, OneThatComputesBetweenItsSleepsIsAtWork) {
  Ranks ranks;
  ranks.polls(1);
  ranks.scene.computes_at_times(ranks.main(1));
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("rank 1 (101) is at work"));
}

TEST(Ranks, AShortWaitIsAWordThatALongerWatchWouldSettle) {
  Ranks ranks;
  ranks.sleeps(1);
  EXPECT_EQ(must_find(ranks.scene.examine(3), FindingCode::kRankBehind).severity, Severity::kInfo);
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
                     python("main", "/srv/train.py", 30),
                     // It is a child of mp.spawn.
                     python("_wrap", "/usr/lib/torch/multiprocessing/spawn.py", 87)});
  FutexWait lock = futex(LockKind::kMutex, 0x1000);
  lock.owner_tid = kFirst + 1;
  lock.owner_gone = true;
  ranks.scene.wait_in_futex(ranks.main(2), lock);
  const Verdict verdict = ranks.scene.examine(kLong);
  ASSERT_GE(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kForkInheritedLock);
  const Finding behind = must_find(verdict, FindingCode::kRankBehind);
  EXPECT_EQ(behind.consequence_of, FindingCode::kForkInheritedLock);
  EXPECT_THAT(behind, Says("waits for a batch of its loader"));
}

// Children of a program that waits for their ends; they share a barrier of multiprocessing.
class AtABarrier : public testing::Test {
 protected:
  static constexpr uint64_t kBarrier = 7;
  static constexpr const char* kThreading = "/usr/lib/python3.11/threading.py";

  AtABarrier() {
    constexpr int kWait4 = 61;
    ThreadSnapshot& launcher = scene.main(kFirst);
    launcher.wait = {.tid = kFirst, .syscall = kWait4, .args = {kFirst + 1, 0, 0, 0, 0, 0}};
    for (const int32_t pid : {kFirst, kFirst + 1, kFirst + 2}) {
      scene.process(pid).sem_locks = {
          {.inode = kBarrier, .file = "/dev/shm/sem.mp-x", .count = 0, .last_tid = 0}};
      if (pid != kFirst) comes(pid);
    }
  }

  void comes(int32_t pid) {
    FutexWait wait = futex(LockKind::kSharedSemaphore, 0x3000);
    wait.shared = true;
    wait.inode = kBarrier;
    scene.wait_in_futex(scene.main(pid), wait);
    scene.stack(scene.main(pid),
                {python("Condition.wait", "/usr/lib/python3.11/multiprocessing/synchronize.py", 9),
                 python("Barrier._wait", kThreading, 5), python("Barrier.wait", kThreading, 4),
                 python("main", "/srv/train.py", 41)});
  }

  HangScene scene{2};
};

TEST_F(AtABarrier, TheOneThatHasNotComeIsNamed) {
  scene.wait_in_recv(scene.main(kFirst + 1), 4242, 0);
  scene.stack(scene.main(kFirst + 1), {python("settings", "/srv/train.py", 9)});
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding,
              Says("(settings, /srv/train.py:9), and worker 102 waits in Barrier.wait (main, "
                   "/srv/train.py:41)"));
}

// They are members of a process group as well.
TEST_F(AtABarrier, RanksThatHaveAllComeAreTooFewForIt) {
  for (const int32_t pid : {kFirst + 1, kFirst + 2}) {
    scene.info(pid).rank = JobRank{.job = "", .rank = pid - kFirst - 1, .world_size = 2};
    scene.stack(scene.add_thread(pid, pid + 100),
                {native("_ZN4c10d16ProcessGroupGloo7runLoopEi", "/usr/lib/libtorch_cpu.so")});
    comes(pid);
  }
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kCollectiveMismatch);
  EXPECT_THAT(finding, Says("all of them have come, and it waits for more"));
  EXPECT_THAT(finding, AdvisesFirst("Make the barrier for as many"));
  EXPECT_EQ(finding.remedies.size(), 1U);
}

// A thread of a pool started the process that now waits for the lock of its queue.
TEST_F(AtABarrier, ALockIsNoBarrierWhoeverStartedTheProcess) {
  scene.run(scene.main(kFirst + 1));
  const std::string folder = "/usr/lib/python3.11/multiprocessing/";
  scene.stack(
      scene.main(kFirst + 2),
      {python("__enter__", folder + "synchronize.py", 95), python("get", folder + "queues.py", 102),
       python("worker", folder + "pool.py", 114), python("Thread.run", kThreading, 975)});
  EXPECT_FALSE(find(scene.examine(kLong), FindingCode::kRankBehind));
}

TEST_F(AtABarrier, WhereAllHaveComeNobodyIsBehind) {
  const Verdict verdict = scene.examine(kLong);
  EXPECT_FALSE(find(verdict, FindingCode::kRankBehind));
  EXPECT_FALSE(find(verdict, FindingCode::kCollectiveMismatch));
}

TEST(Ranks, AWorkerAtAFifoThatNobodyOpensHoldsItsRank) {
  Ranks ranks;
  ProcessInfo& worker = ranks.scene.info(kFirst + 2);
  worker.role = Role::kWorker;
  worker.ppid = kFirst + 1;
  ranks.scene.wait_in_read(ranks.main(1), HangScene::kResults);
  ranks.scene.has_end(kFirst + 1, HangScene::kResults, true, false);
  ranks.scene.stack(ranks.main(1),
                    {python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103),
                     python("main", "/srv/train.py", 30)});
  constexpr int kOpenAt = 257;
  ranks.scene.wait_in_read(ranks.main(2), 7);
  ranks.scene.stack(ranks.main(2), {python("Clips.__getitem__", "/srv/data.py", 9)});
  ranks.main(2).wait = {.tid = kFirst + 2,
                        .syscall = kOpenAt,
                        .files = {{.kind = FileKind::kFifo, .inode = 7, .path = "/srv/meta.fifo"}}};
  const Verdict verdict = ranks.scene.examine(kLong);
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kPipeWithoutPeer);
  EXPECT_EQ(must_find(verdict, FindingCode::kRankBehind).consequence_of,
            FindingCode::kPipeWithoutPeer);
}

TEST(Ranks, DifferentOperationsDoNotFitTogether) {
  Ranks ranks;
  ranks.waits(1, "broadcast", 44);
  const Verdict verdict = ranks.scene.examine(kLong);
  EXPECT_TRUE(verdict.wait_graphs.front().chain.empty()) << "who is wrong is not known";
  const Finding finding = must_find(verdict, FindingCode::kCollectiveMismatch);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding,
              Says("ranks 0, 2 wait in all_reduce (main, /srv/train.py:41); rank 1 (101) waits "
                   "in broadcast (main, /srv/train.py:44)"));
}

// Ranks 0 and 1 are a group of their own; rank 2 waits for all.
TEST(Ranks, ThoseThatGoOnInAnotherGroupAreNoReasonOfTheirOwn) {
  Ranks ranks;
  ranks.waits(2, "all_reduce", 60);
  for (const int looks : {kLong, kAMinute}) {
    for (const int32_t rank : {0, 1})
      ranks.scene.works_until(ranks.main(rank), looks - 1);
    const Finding finding = only_finding(ranks.scene.examine(looks));
    EXPECT_EQ(finding.code, FindingCode::kCollectiveMismatch);
    EXPECT_EQ(finding.severity, looks == kLong ? Severity::kInfo : Severity::kWarning);
    EXPECT_THAT(finding,
                Says("ranks 0, 1 go on, now in all_reduce (main, /srv/train.py:41), and rank 2 "
                     "(102) waits in all_reduce (main, /srv/train.py:60)"));
  }
}

// Rank 0 waits in a group of its own with rank 1; rank 2 has no part in it.
TEST(Ranks, OfSeveralTheOneThatNeedsSomethingIsNamedFirst) {
  Ranks ranks;
  ranks.scene.wait_in_recv(ranks.main(1), 777, 0);
  ranks.scene.stack(ranks.main(1), {python("save", "/srv/train.py", 32)});
  ranks.sleeps(2);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_THAT(finding, Says("; rank 2 (102) sleeps (upload, "));
}

// A barrier made of files.
TEST(Ranks, ThoseThatPollForTheOneThatSleepsAreSaidToStand) {
  Ranks ranks;
  for (const int32_t rank : {0, 1}) {
    ranks.sleeps(rank);
    ranks.scene.wakes(ranks.main(rank));
  }
  ranks.sleeps(2);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 2)});
  EXPECT_THAT(finding,
              Says("nothing goes on: rank 2 (102) sleeps (upload, /srv/train.py:17); rank 0 "
                   "(100), rank 1 (101) poll (upload, /srv/train.py:17), for 11.0 s"));
  ranks.works(2);
  EXPECT_TRUE(ranks.scene.examine(kLong).findings.empty()) << "it goes on";
}

TEST(Ranks, AllThatPollAreAWarningAfterAMinute) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2}) {
    ranks.sleeps(rank);
    ranks.scene.wakes(ranks.main(rank));
  }
  EXPECT_TRUE(find(ranks.scene.examine(4), FindingCode::kConsumerStuck)) << "worth a longer watch";
  EXPECT_EQ(must_find(ranks.scene.examine(kLong), FindingCode::kConsumerStuck).severity,
            Severity::kInfo);
  EXPECT_EQ(must_find(ranks.scene.examine(kAMinute), FindingCode::kConsumerStuck).severity,
            Severity::kWarning);
}

TEST(Ranks, AtOnePlaceAllMayDifferInShape) {
  Ranks ranks;
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kCollectiveMismatch),
              Is(Severity::kWarning, Confidence::kPossible));
}

TEST(Ranks, ThoseOfOtherNodesMayBeWaitedFor) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank->world_size = 8;
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("ranks 3-7, on other nodes"));
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank->job = "localhost:29500";
  EXPECT_TRUE(find(ranks.scene.examine(kLong), FindingCode::kRankDead)) << "all meet here";
}

// Each was started by hand, and dlprobe was asked for one.
TEST(Ranks, OfOneThatIsAloneTheOthersMayBeHere) {
  Ranks ranks;
  ranks.scene.info(kFirst).rank->job = "127.0.0.1:29500";
  for (int32_t rank = 1; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).role = Role::kOther;
  const Verdict verdict = ranks.scene.examine(kLong);
  EXPECT_FALSE(find(verdict, FindingCode::kRankDead));
  EXPECT_THAT(must_find(verdict, FindingCode::kRankBehind), Says("which dlprobe did not look at"));
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
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankDead),
              Says("rank 3 of this job is not on this machine"));
}

TEST(Ranks, ThoseWithoutWorkersAreThroughWithTheirData) {
  Ranks ranks;
  ProcessInfo& worker = ranks.scene.info(kFirst + 2);
  worker.role = Role::kWorker;
  worker.ppid = kFirst;
  ranks.scene.info(kFirst).rank->world_size = 2;
  ranks.scene.info(kFirst + 1).rank->world_size = 2;
  ranks.waits(1, "barrier", 60);
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kUnevenData);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding.message.plain(), HasSubstr("rank 1 (101) is through with the data"));
  EXPECT_THAT(finding.message.plain(), HasSubstr("or never began to read it"));
  EXPECT_THAT(finding, AdvisesFirst("same number of batches"));
  ranks.scene.raised(kFirst + 2, Ended::kWorker);
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kUnevenData),
              AdvisesFirst("same number of batches"))
      << "a worker of the other rank";
  ranks.scene.had_child(kFirst + 1, 301, SIGTERM);
  ranks.scene.raised(301, Ended::kWorker);
  const Finding left_out = must_find(ranks.scene.examine(kLong), FindingCode::kUnevenData);
  EXPECT_THAT(left_out, Says("and went on without that batch"));
  EXPECT_THAT(left_out, AdvisesFirst("Let all ranks leave out that batch, or none"));
}

TEST(Ranks, AJobThatMovesHasItsSlowestRank) {
  Ranks ranks;
  ranks.scene.wakes(ranks.main(0));
  ranks.scene.wakes(ranks.main(2));
  ranks.works(1);
  EXPECT_THAT(only_finding(ranks.scene.examine(kLong)),
              Is(FindingCode::kSlowestRank, Severity::kInfo));
  ranks.waits(1, "all_reduce", 41);
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kSlowestRank)) << "it stands";
  ranks.scene.wakes(ranks.main(1));
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

TEST(Ranks, TwoThatWaitForMessagesDoNotWaitForOneAtTheEnd) {
  Ranks ranks;
  for (const int32_t rank : {0, 1})
    ranks.scene.stack(ranks.main(rank), {native("PMPI_Recv", "/usr/lib/libmpi.so.40"),
                                         python("exchange", "/srv/train.py", 30 + rank)});
  ranks.scene.stack(ranks.main(2), {native("PMPI_Finalize", "/usr/lib/libmpi.so.40")});
  const Verdict verdict = ranks.scene.examine(kLong);
  EXPECT_FALSE(find(verdict, FindingCode::kUnevenData));
  EXPECT_THAT(must_find(verdict, FindingCode::kCollectiveMismatch),
              Says("rank 0 (100) waits in MPI_Recv"));
  ranks.scene.stack(ranks.main(1), {native("PMPI_Finalize", "/usr/lib/libmpi.so.40")});
  EXPECT_TRUE(find(ranks.scene.examine(kLong), FindingCode::kUnevenData)) << "it left one";
}

TEST(Ranks, OneAtTheEndOfItsProgramHasLeftTheOthers) {
  Ranks ranks;
  ranks.scene.run(ranks.main(1));
  ranks.scene.stack(ranks.main(1), {native("opal_progress", "/usr/lib/libopen-pal.so.40"),
                                    native("ompi_mpi_finalize", "/usr/lib/libmpi.so.40")});
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kUnevenData);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding, Says("rank 1 (101) is at the end of the program"));
}

TEST(Ranks, RanksOfMpiAskAgainAndAgain) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 2}) {
    ranks.scene.run(ranks.main(rank));
    ranks.scene.stack(ranks.main(rank), {native("PMPI_Allreduce", "/usr/lib/libmpi.so.40"),
                                         python("main", "/srv/train.py", 41)});
  }
  const Finding finding = must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind);
  EXPECT_THAT(finding, Says("ranks 0, 2 wait in MPI_Allreduce"));
  EXPECT_EQ(finding.remedies.front().commands.front().plain(), "comm.Barrier()");
}

// Of torch.multiprocessing.spawn: process groups tell the ranks, and no launcher the job.
TEST(Ranks, WithoutALauncherThoseOfOneParentAreOneJob) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank->job.clear();
  ranks.sleeps(1);
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("rank 1 (101) sleeps"));
  ranks.scene.info(kFirst + 1).ppid = 51;
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind) &&
               find(ranks.scene.examine(kLong), FindingCode::kRankBehind)->processes ==
                   std::vector<ProcessKey>{key_of(kFirst + 1)})
      << "it is of another job";
}

TEST(Ranks, WithoutALauncherTheOthersMayBeAnywhere) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.scene.info(kFirst + rank).rank->job.clear();
    ranks.scene.info(kFirst + rank).rank->world_size = 4;
  }
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("rank 3, which dlprobe did not look at,"));
}

TEST(Ranks, OfTwoJobsThatMeetAtOneAddressNeitherWaitsForTheOther) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank =
        JobRank{.job = "127.0.0.1:29500", .rank = rank % 2, .world_size = 2, .local_world_size = 2};
  ranks.scene.info(kFirst + 2).ppid = 51;
  ranks.sleeps(2);
  for (const Finding& finding : ranks.scene.examine(kLong).findings)
    EXPECT_THAT(finding, testing::Not(Says("(102)")));
}

// A store at 127.0.0.1 that nobody tells of: it is this machine's own.
TEST(Ranks, WithoutALauncherAConnectionTellsThatAllMeetHere) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank) {
    ranks.scene.info(kFirst + rank).rank = JobRank{.rank = rank, .world_size = 4, .source = "RANK"};
    ranks.scene.wait_in_recv(ranks.main(rank), 8000 + static_cast<uint64_t>(rank), 0);
    ranks.main(rank).wait.files.front().path = "127.0.0.1:29723";
  }
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankDead))
      << "those of another node may come after these";
  ranks.scene.info(kFirst + 2).rank->rank = 3;
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankDead),
              Says("rank 2 of this job is not on this machine"));
  ranks.main(1).wait.files.front().path = "10.0.0.1:29723";
  ranks.main(2).wait.files.front().path = "10.0.0.1:29723";
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankDead))
      << "the first has the store, and others may reach it from elsewhere";
}

TEST(Ranks, TheOneChildThatHasEndedIsTheOneThatIsMissing) {
  Ranks ranks;
  for (int32_t rank = 0; rank < 3; ++rank)
    ranks.scene.info(kFirst + rank).rank =
        JobRank{.rank = rank, .world_size = 4, .source = "memory"};
  ranks.scene.had_child(ranks.scene.info(kFirst).ppid, kFirst + 3, SIGKILL);
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankDead),
              Says("rank 3 (103) was killed by signal 9 (SIGKILL)"));
}

// Of each GPU autograd has a thread, which runs the hooks of FSDP and of DistributedDataParallel.
TEST(Ranks, TheCollectiveMayBeInAThreadOfAutograd) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 2}) {
    ranks.scene.stack(
        ranks.main(rank),
        {native("_ZN5torch8autograd6Engine7executeEv", "/usr/lib/libtorch_cpu.so"),
         python("Tensor.backward", "/usr/lib/python3/dist-packages/torch/_tensor.py", 5),
         python("main", "/srv/train.py", 41)});
    const int32_t tid = 300 + rank;
    ThreadSnapshot& thread = ranks.scene.add_thread(kFirst + rank, tid);
    ranks.scene.stack(
        thread, {native("_ZN4c10d4Work4waitEv", "/usr/lib/libtorch_cpu.so"),
                 python("reduce_scatter_tensor", kC10d, 9),
                 native("_ZN5torch8autograd6Engine11thread_mainEv", "/usr/lib/libtorch_cpu.so")});
  }
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("ranks 0, 2 wait in reduce_scatter_tensor (main, /srv/train.py:41)"));
  for (const int32_t rank : {0, 2})
    ranks.scene.stack(ranks.scene.thread(kFirst + rank, 300 + rank), {});
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind)) << "it computes";
}

TEST(RanksInCalls, TheOneThatDoesNotAnswerIsNamedByTheThreadThatCarriesOutTheCall) {
  Ranks ranks;
  ranks.calls_another(0);
  ranks.answers_calls(1);
  ranks.answers_calls(2);
  ranks.scene.sleep(ranks.carries_out_a_call(1));
  const Finding finding = only_finding(ranks.scene.examine(kLong));
  EXPECT_THAT(finding, Is(FindingCode::kRankBehind, Severity::kWarning));
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kFirst + 1)});
  EXPECT_THAT(finding,
              Says("rank 1 (101) sleeps (serve, /srv/train.py:16), and rank 0 (100) waits in "
                   "rpc_sync (main, /srv/train.py:41), rank 2 (102) waits in shutdown"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("timeout=SECONDS"));
}

TEST(RanksInCalls, WhatCarriesOutACallMayWaitForARankInTurn) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2})
    ranks.calls_another(rank);
  ThreadSnapshot& passes_on = ranks.carries_out_a_call(1);
  passes_on.stack.insert(passes_on.stack.begin(), python("rpc_sync", Ranks::kRpc, 9));
  ranks.scene.sleep(ranks.carries_out_a_call(2));
  EXPECT_EQ(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind).processes,
            std::vector<ProcessKey>{key_of(kFirst + 2)});
}

TEST(RanksInCalls, WhereNobodyIsAtACallNoRankIsBlamed) {
  Ranks ranks;
  ranks.calls_another(0);
  ranks.answers_calls(1);
  ranks.answers_calls(2);
  const Finding finding = only_finding(ranks.scene.examine(kLong));
  EXPECT_EQ(finding.code, FindingCode::kCollectiveMismatch);
  EXPECT_THAT(finding, Says("no rank carries out a call"));
}

TEST(RanksInCalls, WhoAnswersCallsWaitsForNoOneRank) {
  Ranks ranks;
  for (const int32_t rank : {0, 1, 2})
    ranks.answers_calls(rank);
  ranks.sleeps(0);
  EXPECT_EQ(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind).severity,
            Severity::kInfo);
}

// A future of the program's own.
TEST(RanksInCalls, WithoutAnAgentAFutureIsNoCall) {
  Ranks ranks;
  ranks.scene.stack(ranks.main(0),
                    {native("_ZN5torch3jit19PythonFutureWrapper4waitEv", Ranks::kTorch),
                     python("main", "/srv/train.py", 41)});
  EXPECT_EQ(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind).processes,
            std::vector<ProcessKey>{key_of(kFirst)});
}

// An executor of the program's own, that overlaps communication with work.
TEST(Ranks, TheCollectiveMayBeInAThreadOfTheProgram) {
  Ranks ranks;
  ranks.sleeps(1);
  for (const int32_t rank : {0, 2}) {
    ranks.scene.wait_in_futex(ranks.main(rank), futex(LockKind::kCondition, 0x7000));
    ranks.scene.stack(ranks.main(rank),
                      {python("Future.result", "/usr/lib/python3.11/futures.py", 5),
                       python("main", "/srv/train.py", 41)});
    ThreadSnapshot& thread = ranks.scene.add_thread(kFirst + rank, 300 + rank);
    ranks.scene.wait_in_futex(thread, futex(LockKind::kCondition, 0x7100));
    ranks.scene.stack(
        thread, {native("_ZN4c10d4Work4waitE", "/usr/lib/libtorch_cpu.so"),
                 python("all_reduce", kC10d, 5), python("Overlap.reduce", "/srv/train.py", 8)});
  }
  EXPECT_THAT(must_find(ranks.scene.examine(kLong), FindingCode::kRankBehind),
              Says("ranks 0, 2 wait in all_reduce (Overlap.reduce, /srv/train.py:8)"));
  for (const int32_t rank : {0, 2})
    ranks.scene.run(ranks.main(rank));
  EXPECT_FALSE(find(ranks.scene.examine(kLong), FindingCode::kRankBehind))
      << "its main thread is not waiting";
}

}  // namespace
}  // namespace dlprobe
