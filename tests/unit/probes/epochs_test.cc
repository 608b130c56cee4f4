// DLP0111: workers that have ended, and a trainer that waits out its timeout for each.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/must.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

/// Two spawned workers, of which the manager of shared files has inherited the sentinels.
class EpochEnd : public testing::Test {
 protected:
  static constexpr int32_t kManager = 200;
  static constexpr uint64_t kBatches = 13771;  // pipes
  static constexpr uint64_t kFirstSentinel = 20001;
  static constexpr uint64_t kSecondSentinel = 20002;

  EpochEnd() {
    scene.process(kManager, Role::kShmManager);
    start_by(StartMethod::kSpawn);
    scene.trainer_wait = poll_wait(kBatches, 5000);
    look(1, 'S');
  }

  void start_by(StartMethod method) {
    for (ProcessInfo& process : scene.run().processes)
      if (process.role == Role::kWorker) process.start_method = method;
  }

  void look(double at_s, char workers) {
    scene.sample(at_s, 0);
    for (ProcessSample& process : scene.run().samples.back().processes) {
      const bool is_worker = process.key == key_of(101) || process.key == key_of(102);
      process.ppid = is_worker ? Scene::kTrainerPid : 1;
      process.threads = 1;
      if (is_worker) process.state = workers;
    }
  }

  /// The workers are there as zombies until then, and the trainer waits for that pipe.
  void ended(double from_s, double to_s, uint64_t pipe, int32_t timeout_ms = 5000) {
    scene.trainer_wait = poll_wait(pipe, timeout_ms);
    for (double at_s = from_s; at_s <= to_s; at_s += 0.5)
      look(at_s, 'Z');
  }

  std::optional<Finding> found() const {
    return find(scene.examine(), FindingCode::kEpochEndDelayed);
  }

  Scene scene;
};

TEST_F(EpochEnd, AWaitForEachEndedWorkerIsCertain) {
  ended(2, 6.5, kFirstSentinel);
  ended(7, 12, kSecondSentinel);
  const auto finding = must(found());
  EXPECT_THAT(finding, Is(Severity::kWarning, Confidence::kCertain));
  EXPECT_EQ(number(finding, "processes"), 2);
  EXPECT_EQ(finding.message.plain(),
            "trainer 100 waited 10.0 s at the end of an epoch for 2 workers that had already "
            "ended: torch_shm_manager keeps their pipes open");
}

TEST_F(EpochEnd, AnInterruptedJoinGoesOn) {
  ended(2, 5, kFirstSentinel);
  ended(5.5, 7, kFirstSentinel, 1577);
  EXPECT_TRUE(found());
}

TEST_F(EpochEnd, AWaitOnOnePipeIsLikelyWhereNoWaitForABatchWasSeen) {
  scene.run().samples.clear();
  ended(2, 7, kFirstSentinel);
  EXPECT_EQ(must(found()).confidence, Confidence::kLikely);
}

TEST_F(EpochEnd, AWaitForABatchOfWorkersThatEndedIsAnotherMatter) {
  ended(2, 7, kBatches);
  EXPECT_FALSE(found());
}

TEST_F(EpochEnd, WhatBeganWhileWorkersStillWorkedDoesNotCount) {
  scene.trainer_wait = poll_wait(kFirstSentinel, 5000);
  look(2, 'R');
  ended(4, 6.5, kFirstSentinel);
  ended(7, 11.5, kSecondSentinel);
  const auto finding = must(found());
  EXPECT_EQ(finding.first_seen, Scene::at(6.5));
  EXPECT_EQ(finding.last_seen, Scene::at(11.5));
}

TEST_F(EpochEnd, WorkersThatAreCollectedSoonDelayNothing) {
  ended(2, 3, kFirstSentinel);
  scene.run().processes.erase(scene.run().processes.begin() + 1, scene.run().processes.begin() + 3);
  look(3.5, 'S');
  EXPECT_FALSE(found());
}

TEST_F(EpochEnd, ForkedWorkersShareNoSentinel) {
  start_by(StartMethod::kFork);
  ended(2, 12, kFirstSentinel);
  EXPECT_FALSE(found());
}

TEST_F(EpochEnd, WorkersThatFailedAreAnotherMatter) {
  scene.exit_with(101, 20, 1);
  scene.exit_with(102, 20, 1);
  ended(2, 12, kFirstSentinel);
  EXPECT_FALSE(found());
}

TEST_F(EpochEnd, WithoutAManagerNobodyKeepsTheSentinels) {
  std::erase_if(scene.run().processes,
                [](const ProcessInfo& process) { return process.role == Role::kShmManager; });
  ended(2, 12, kFirstSentinel);
  EXPECT_FALSE(found());
}

}  // namespace
}  // namespace dlprobe
