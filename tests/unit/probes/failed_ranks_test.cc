// Ranks of a job that failed: what dlprobe run says of it without a look at their stacks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>

#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kInTorch = "/usr/lib/python3/dist-packages/torch/distributed/";

// A launcher, pid 100, and ranks 0 to 2, pids 101 to 103.
class FailedRanks : public ::testing::Test {
 protected:
  FailedRanks() : scene(64 * kMiB, 3) {
    for (ProcessInfo& process : scene.run().processes) {
      process.role = process.key == key_of(100) ? Role::kLauncher : Role::kTrainer;
      if (process.role == Role::kLauncher) continue;
      process.ppid = 100;
      process.rank = JobRank{.job = "127.0.0.1:29500",
                             .rank = process.key.pid - 101,
                             .world_size = 3,
                             .source = "RANK"};
    }
  }

  void tell(double at_s, int32_t rank, StartEvent event) {
    event.at = Scene::at(at_s);
    event.process = key_of(101 + rank);
    scene.run().start_events.push_back(std::move(event));
  }

  // And leaves by it.
  void fails_in(double at_s, int32_t rank, const std::string& in,
                std::string type = "RuntimeError") {
    tell(at_s, rank,
         {.kind = StartEventKind::kFailed,
          .message = type + ": Connection closed by peer",
          .type = std::move(type),
          .file = "/srv/train.py",
          .line = 14,
          .function = "step",
          .ended = Ended::kProcess,
          .raised_in = kInTorch + in});
    scene.exit_with(101 + rank, at_s + 0.1, 1);
  }

  void aborts(double at_s, int32_t rank) {
    scene.run().signals.push_back({.at = Scene::at(at_s),
                                   .signal = SIGABRT,
                                   .code = -6,
                                   .target = key_of(101 + rank),
                                   .sender_pid = 101 + rank,
                                   .sender = key_of(101 + rank)});
    scene.exit_by_signal(101 + rank, at_s + 0.01, SIGABRT);
  }

  Finding first() const {
    const Verdict verdict = probes::exits::kProbe.examine_run(
        {.recording = scene.recording, .run = scene.recording.runs.front()});
    EXPECT_FALSE(verdict.findings.empty());
    return verdict.findings.empty() ? Finding() : verdict.findings.front();
  }

  Scene scene;
};

TEST_F(FailedRanks, ARankForWhichTheLauncherEndsTheOthersIsTheCause) {
  scene.exit_with(103, 2, 7);
  for (const int32_t rank : {0, 1}) {
    scene.run().signals.push_back({.at = Scene::at(1.95),
                                   .signal = SIGTERM,
                                   .target = key_of(101 + rank),
                                   .sender_pid = 100,
                                   .sender = key_of(100)});
    scene.exit_by_signal(101 + rank, 2.2, SIGTERM);
  }
  scene.exit_with(100, 3, 7);
  tell(1, 2, {.kind = StartEventKind::kMpiReady});
  EXPECT_EQ(first().code, FindingCode::kWorkerExited);
  EXPECT_THAT(first(), Says("rank 2 (103) exited by itself with code 7", "as MPI_Abort does"));
  tell(1.9, 2,
       {.kind = StartEventKind::kExits,
        .message = "sys.exit",
        .file = "/srv/train.py",
        .line = 7,
        .function = "load",
        .count = 7});
  EXPECT_THAT(first(), Says("it called sys.exit at train.py:7 in load"));
  scene.run().start_events.back().count = 2;
  EXPECT_THAT(first(), Not(Says("sys.exit"))) << "that was caught";
}

TEST_F(FailedRanks, ARankThatCrashesAsItLeavesHasALineToo) {
  tell(1.9, 1,
       {.kind = StartEventKind::kExits,
        .message = "sys.exit",
        .file = "/srv/train.py",
        .line = 7,
        .function = "check",
        .count = 3});
  aborts(2, 1);
  scene.exit_with(100, 3, 1);
  EXPECT_THAT(first(),
              Says("SIGABRT as it ended, after it had called sys.exit at train.py:7 in check"));
}

TEST_F(FailedRanks, WhatOthersFailOfOnceOneHasCrashedIsOfThat) {
  aborts(2, 1);
  fails_in(2.1, 0, "distributed_c10d.py:3252 all_reduce");
  fails_in(2.2, 2, "distributed_c10d.py:3252 all_reduce");
  scene.exit_with(100, 3, 1);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kWorkerCrashed);
  EXPECT_EQ(finding.message.plain(),
            "rank 1 (102) crashed: SIGABRT; rank 0 (101) and rank 2 (103) then failed in "
            "all_reduce at train.py:14 in step");
  for (const Remedy& remedy : finding.remedies)
    EXPECT_THAT(remedy.title.plain(), Not(HasSubstr("worker"))) << "a rank is none";
}

// The launcher ends by a code of its own, and may have known what to do about it.
TEST_F(FailedRanks, WhatTheyFailOfIsNoChildThatItsParentHandled) {
  aborts(2, 1);
  scene.exit_with(100, 9, 1);
  EXPECT_EQ(first().severity, Severity::kInfo);
  fails_in(2.1, 0, "distributed_c10d.py:3252 all_reduce");
  EXPECT_EQ(first().severity, Severity::kError);
}

TEST_F(FailedRanks, WhatOthersFailedOfBeforeIsNot) {
  fails_in(0.5, 0, "distributed_c10d.py:3252 all_reduce");
  aborts(4, 1);
  scene.exit_with(100, 5, 1);
  EXPECT_THAT(first(), Not(Says("then failed")));
}

TEST_F(FailedRanks, WhereOneCalledAbortIsNamed) {
  tell(1.9, 1,
       {.kind = StartEventKind::kExits,
        .message = "os.abort",
        .file = "/srv/sim.py",
        .line = 8,
        .function = "check"});
  aborts(2, 1);
  scene.exit_with(100, 3, 1);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kWorkerCrashed);
  EXPECT_EQ(finding.message.plain(),
            "rank 1 (102) crashed: SIGABRT: it called os.abort at sim.py:8 in check");
  EXPECT_THAT(finding, AdvisesFirst("sim.py:8"));
}

TEST_F(FailedRanks, OneThatWasNeverStartedIsWhyOthersGiveUpTheirMeeting) {
  scene.run().processes.pop_back();
  fails_in(16, 0, "rendezvous.py:199 _create_c10d_store", "torch.distributed.DistStoreError");
  fails_in(16, 1, "distributed_c10d.py:2169 _new_process_group_helper", "DistStoreError");
  scene.exit_with(100, 17, 1);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_EQ(finding.message.plain(),
            "ranks 0, 1 gave up in init_process_group at train.py:14 in step: the command started "
            "2 of the 3 ranks, and no rank 2");
}

TEST_F(FailedRanks, OneOfAnotherNodeMayHaveComeTooLate) {
  scene.run().processes.pop_back();
  for (ProcessInfo& process : scene.run().processes)
    if (process.rank) process.rank->job = "10.0.0.1:29500";
  fails_in(16, 0, "rendezvous.py:199 _create_c10d_store", "torch.distributed.DistStoreError");
  scene.exit_with(100, 17, 1);
  EXPECT_EQ(first().code, FindingCode::kUncaughtException);
}

TEST_F(FailedRanks, OnesThatHadMetWereAllStarted) {
  scene.run().processes.pop_back();
  for (const int32_t rank : {0, 1})
    tell(1, rank, {.kind = StartEventKind::kJoinedGroup, .count = rank, .workers = 3});
  fails_in(16, 0, "distributed_c10d.py:3252 all_reduce");
  scene.exit_with(100, 17, 1);
  EXPECT_EQ(first().code, FindingCode::kUncaughtException);
}

TEST_F(FailedRanks, OneThatLeftWellBeforeTheyMetHasNoFewerBatches) {
  scene.exit_with(103, 2, 0);
  fails_in(16, 0, "rendezvous.py:199 _create_c10d_store", "torch.distributed.DistStoreError");
  scene.exit_with(100, 17, 1);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_EQ(finding.message.plain(),
            "rank 2 (103) ended with exit code 0, before it had met the others, while rank 0 (101) "
            "waited for it in init_process_group at train.py:14 in step, which then failed");
  EXPECT_THAT(finding, AdvisesFirst("where they meet"));
}

/// Ranks that come to a meeting which fails.
class FailedMeeting : public FailedRanks {
 protected:
  void comes(double at_s, int32_t rank, const std::string& address, int32_t number) {
    tell(at_s, rank,
         {.kind = StartEventKind::kMeetsAt,
          .path = address,
          .file = "/srv/train.py",
          .line = 9,
          .count = number,
          .workers = 3});
  }
  void fails_to_meet(double at_s, int32_t rank) {
    fails_in(at_s, rank, "rendezvous.py:199 _create_c10d_store",
             "torch.distributed.DistStoreError");
    scene.exit_with(100, at_s + 1, 1);
  }
};

TEST_F(FailedMeeting, TwoThatCameWithOneNumberAreNamed) {
  comes(1, 0, "127.0.0.1:29500", 0);
  comes(1.1, 1, "127.0.0.1:29500", 0);
  fails_to_meet(9, 0);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kRankDead);
  EXPECT_EQ(finding.message.plain(),
            "rank 0 (101) and rank 1 (102) both came to 127.0.0.1:29500 as rank 0 of 3 at "
            "train.py:9: no two may have one number, and another one is missing");
}

TEST_F(FailedMeeting, OneThatWasStartedAgainHasTheNumberOfTheOneBefore) {
  comes(1, 0, "127.0.0.1:29500", 0);
  scene.exit_with(101, 2, 0);
  comes(3, 1, "127.0.0.1:29500", 0);
  fails_to_meet(9, 1);
  EXPECT_THAT(first(), Not(Says("both came")));
}

TEST_F(FailedMeeting, AddressesThatDifferAreNamed) {
  comes(1, 0, "127.0.0.1:29500", 0);
  comes(1, 1, "127.0.0.1:29501", 1);
  fails_to_meet(9, 0);
  const Finding finding = first();
  EXPECT_EQ(finding.code, FindingCode::kCollectiveMismatch);
  EXPECT_EQ(finding.message.plain(),
            "rank 0 (101) came to 127.0.0.1:29500 and rank 1 (102) to 127.0.0.1:29501 at "
            "train.py:14 in step: all ranks of a job have to meet at one address");
}

TEST_F(FailedMeeting, TwoJobsMeetAtAddressesOfTheirOwn) {
  comes(1, 0, "127.0.0.1:29500", 0);
  comes(1, 1, "127.0.0.1:29501", 0);
  fails_to_meet(9, 0);
  EXPECT_THAT(first(), Not(Says("one address")));
}

TEST_F(FailedMeeting, WhoListensAtThePortIsNamed) {
  comes(1, 0, "127.0.0.1:29500", 0);
  fails_to_meet(2, 0);
  StartEvent& failed = scene.run().start_events.back();
  failed.error_number = EADDRINUSE;
  failed.count = 29500;
  failed.child_pid = 4242;
  failed.path = "python -m http.server 29500";
  EXPECT_EQ(first().message.plain(),
            "rank 0 (101) could not listen at port 29500 for the other ranks at train.py:14 in "
            "step: process 4242 (python -m http.server 29500) listens there");
}

TEST_F(FailedMeeting, WhatFailsOnceTheyHaveMetIsNone) {
  comes(1, 0, "127.0.0.1:29500", 0);
  comes(1, 1, "127.0.0.1:29501", 1);
  tell(1.5, 0, {.kind = StartEventKind::kJoinedGroup, .count = 0, .workers = 3});
  fails_to_meet(9, 0);
  EXPECT_THAT(first(), Not(Says("one address")));
}

}  // namespace
}  // namespace dlprobe
