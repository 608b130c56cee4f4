#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "probes/facts/deaths.h"
#include "tests/support/must.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

/// DLP0603 ahead, of a trainer with two workers.
class GrowingTasks : public testing::Test {
 protected:
  static constexpr int32_t kGrowing = 101;

  Scene scene;

  /// Samples at 2 Hz; the worker has `per_second` threads more each second, until `full_s`.
  void threads_of_worker(double to_s, double per_second, double full_s = 1e9) {
    for (double at_s = 0; at_s <= to_s; at_s += 0.5) {
      scene.sample(at_s, 0);
      for (ProcessSample& each : scene.run().samples.back().processes) {
        each.threads = 3;
        if (each.key == key_of(kGrowing))
          each.threads += static_cast<int32_t>(per_second * std::min(at_s, full_s));
      }
    }
  }

  /// The worker has so many children each second that end at once; it waits for them when there
  /// are `batch`.
  void zombies_of_worker(double to_s, int per_second, int batch) {
    for (double at_s = 0; at_s <= to_s; at_s += 0.5) {
      scene.sample(at_s, 0);
      for (int child = 0; child < static_cast<int>(per_second * at_s) % batch; ++child) {
        ProcessSample zombie;
        zombie.key = key_of(1000 + child);
        zombie.ppid = kGrowing;
        zombie.state = 'Z';
        zombie.threads = 1;
        scene.run().samples.back().processes.push_back(std::move(zombie));
      }
    }
  }

  std::optional<Finding> told() const {
    return find(probes::exits::kProbe.examine_run(
                    {.recording = scene.recording, .run = scene.recording.runs.front()}),
                FindingCode::kProcessLimitReached);
  }

  /// The workers end at that second, and the job with them, but for the trainer's own end.
  void ends(double workers_s, double job_s) {
    for (const int32_t worker : {kGrowing, kGrowing + 1})
      scene.exit_with(worker, workers_s, 0);
    for (double at_s = workers_s; at_s < job_s; at_s += 0.5)
      scene.sample(at_s, 0);
    scene.exit_with(Scene::kTrainerPid, job_s, 0);
    scene.run().end = RunEnd{.at = Scene::at(job_s), .reason = RunEndReason::kSubjectEnded};
  }
};

TEST_F(GrowingTasks, ThreadsOfAWorkerThatEndedWithItsJob) {
  threads_of_worker(30, 10);
  ends(30.2, 33);
  const auto finding = must(told());
  EXPECT_EQ(finding.discriminator, "growing-threads");
  EXPECT_EQ(finding.processes, std::vector{key_of(kGrowing)});
}

TEST_F(GrowingTasks, WhereThreadsStandSaysMoreThanWhatALibraryKeepsOfThem) {
  threads_of_worker(30, 10);
  ContainerLook look{.before_at = Scene::at(5), .process = key_of(kGrowing)};
  GrownContainer pools{.name = "Condition._waiters", .type = "deque", .before = 50, .count = 250};
  look.at = Scene::at(25);
  look.grown = {pools};
  look.threads = 250;
  look.in_crowd = 240;
  look.crowd = StackFrame{.python = true, .function = "write", .file = "/job/save.py", .line = 7};
  scene.run().grown = {look};
  ends(30.2, 33);
  EXPECT_THAT(told()->message.plain(), testing::HasSubstr("240 of them stand at save.py:7"));
  pools.user = StackFrame{.python = true, .function = "submit", .file = "/job/save.py", .line = 3};
  scene.run().grown.front().grown = {pools};
  EXPECT_THAT(told()->message.plain(), testing::HasSubstr("grew from 50 to 250 items"));
}

TEST_F(GrowingTasks, ThreadsOfAWorkerThatEndedLongBeforeAreGone) {
  threads_of_worker(30, 10);
  ends(30.2, 60);
  EXPECT_FALSE(told());
}

TEST_F(GrowingTasks, APoolThatFillsIsFull) {
  threads_of_worker(30, 10, 8);
  ends(30.2, 33);
  EXPECT_FALSE(told());
}

TEST_F(GrowingTasks, ThreadsFromTheBirthToTheEndOfAShortLife) {
  threads_of_worker(6.5, 20);
  ends(6.6, 7);
  EXPECT_TRUE(told());
}

TEST_F(GrowingTasks, APoolThatFillsInAShortLifeIsFull) {
  threads_of_worker(6.5, 20, 4);
  ends(6.6, 7);
  EXPECT_FALSE(told());
}

TEST_F(GrowingTasks, AShortLifeThatGoesOnMayFillAPool) {
  threads_of_worker(6.5, 20);
  EXPECT_FALSE(told());
}

TEST_F(GrowingTasks, ChildrenThatNobodyWaitsFor) {
  zombies_of_worker(12, 10, 1000);
  const auto finding = must(told());
  EXPECT_EQ(finding.processes, std::vector{key_of(kGrowing)});
  EXPECT_THAT(finding.message.plain(),
              testing::StartsWith("worker 101 does not wait for its children"));
}

TEST_F(GrowingTasks, ChildrenThatAreWaitedForInBatches) {
  zombies_of_worker(12, 20, 40);
  EXPECT_FALSE(told());
}

/// A trainer that begins without a worker.
class GrowingLoaders : public GrowingTasks {
 protected:
  GrowingLoaders() { scene.run().processes.resize(1); }

  /// Samples at 2 Hz; at each full second one more worker of a loader, until `full_s`.
  void workers(double to_s, bool are_fed, double full_s = 1e9) {
    int32_t count = 0;
    for (double at_s = 0; at_s <= to_s; at_s += 0.5) {
      if (at_s == std::floor(at_s) && at_s < full_s) {
        scene.process(Scene::kTrainerPid + ++count, Role::kWorker);
        for (const int signal : {SIGBUS, SIGSEGV, SIGFPE, SIGTERM}) {
          auto& caught = scene.run().processes.back().signals_caught;
          caught = caught.value_or(0) | 1ULL << (signal - 1);
        }
      }
      scene.sample(at_s, 0);
      for (ProcessSample& each : scene.run().samples.back().processes)
        each.threads = each.key == key_of(Scene::kTrainerPid) && are_fed ? count + 1 : 1;
    }
  }
};

TEST_F(GrowingLoaders, IteratorsThatAreKept) {
  workers(30, true);
  const auto finding = must(told());
  EXPECT_EQ(finding.discriminator, "growing-processes") << "pipes come with it";
  EXPECT_EQ(finding.processes, std::vector{key_of(Scene::kTrainerPid)});
  EXPECT_THAT(finding, Says("keeps iterators of its loaders"));
}

// Looks at a crowd take long, and leave few samples.
TEST_F(GrowingLoaders, WhenThoseThatLiveBeganTellsAsMuch) {
  constexpr uint64_t kTicks = 100;  // a second
  workers(60, true);
  auto& samples = scene.run().samples;
  samples = {Sample(samples[samples.size() / 2]), Sample(samples.back())};
  const auto are_born = [&](auto&& second_of) {
    const auto set = [&](ProcessKey& key) {
      if (key.pid != Scene::kTrainerPid)
        key.start_ticks = kTicks * second_of(static_cast<uint64_t>(key.pid - Scene::kTrainerPid));
    };
    for (ProcessInfo& process : scene.run().processes)
      set(process.key);
    for (Sample& sample : samples)
      for (ProcessSample& each : sample.processes)
        set(each.key);
  };
  are_born([](uint64_t number) { return number; });
  ASSERT_TRUE(told());
  EXPECT_THAT(told()->message.plain(), testing::HasSubstr("61 workers"));
  are_born([](uint64_t number) { return 50 + number / 10; });
  EXPECT_FALSE(told()) << "those of the newest epoch";
  are_born([](uint64_t number) { return number; });
  samples.front() = samples.back();
  EXPECT_FALSE(told()) << "they do not become more";
}

TEST_F(GrowingLoaders, OneThatTakesLongToStart) {
  workers(30, false);
  EXPECT_FALSE(told());
}

TEST_F(GrowingLoaders, AFewLoadersThatAreMadeOnce) {
  workers(30, true, 12);
  EXPECT_FALSE(told());
}

}  // namespace
}  // namespace dlprobe
