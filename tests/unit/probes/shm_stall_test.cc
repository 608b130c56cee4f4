// DLP0106: the loader that waits for a batch which nobody makes any more.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kResultPipe = 13771;
constexpr uint64_t kIndexPipes = 20000;
constexpr int64_t kFutexCall = 202;
constexpr int64_t kClockNanosleep = 230;

// As measured: a cache takes all of shm, the feeder of worker 101 is refused a page, and then every
// process polls for 5 s at a time.
Scene stalled_loader(double for_s) {
  Scene scene;
  scene.trainer_wait = poll_wait(kResultPipe, 5000);
  scene.worker_wait = poll_wait(kIndexPipes, 5000);
  ShmSegment refused = tensor(101, 7, 4 * kMiB, CreatorState::kAlive);
  refused.allocated_bytes = 0;
  ShmSegment cache = foreign_block(8, 60 * kMiB, 0, "");
  cache.holders.clear();
  cache.kind = SegmentKind::kOther;
  cache.name = "sample-cache";
  for (int tick = 1; tick / 2.0 <= for_s + 0.5; ++tick) {
    const double at = tick / 2.0;
    scene.sample(at, 64 * kMiB);
    scene.ledger(at, {refused, cache});
  }
  return scene;
}

TEST(BatchLost, AStandingLoaderAfterARefusedSegmentIsCertain) {
  const Finding finding = only_finding(stalled_loader(12).examine());
  EXPECT_THAT(finding, Is(FindingCode::kBatchLostInWorker, Severity::kError, Confidence::kCertain));
  EXPECT_EQ(number(finding, "segment_size"), int64_t{4 * kMiB});
  EXPECT_EQ(number(finding, "shm_free"), 0);
  EXPECT_THAT(text(finding, "trainer_waits_in"), HasSubstr("13771"));
  EXPECT_THAT(text(finding, "file_nobody_has_open"), HasSubstr("sample-cache"));
  EXPECT_THAT(finding.alternatives.front().cause, HasSubstr("deadlock"));
}

TEST(BatchLost, BelowTheWorkersTickItIsNotAHangYet) {
  const Verdict verdict = stalled_loader(4).examine();
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
  EXPECT_TRUE(find(verdict, FindingCode::kShmExhausted)) << "the shortage is proven all the same";
}

TEST(BatchLost, WithoutAShortageItIsNotAMatterOfShm) {
  Scene scene = stalled_loader(12);
  scene.run().ledgers.clear();
  for (ShmUse& use : scene.run().shm_use)
    use.used_bytes = 10 * kMiB;
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(BatchLost, ForWantOfAnInodeItIsToldWithTheInodes) {
  Scene scene = stalled_loader(12);
  scene.run().ledgers.clear();
  for (ShmUse& use : scene.run().shm_use) {
    use.used_bytes = 10 * kMiB;
    use.inodes_used = use.inodes;
  }
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kShmInodesExhausted),
              Says("every worker is idle"));
}

// The nearest healthy twins: each differs from the stall in one thing.
Verdict twin(const std::function<void(Scene&)>& change) {
  Scene scene;
  scene.trainer_wait = poll_wait(kResultPipe, 5000);
  scene.worker_wait = poll_wait(kIndexPipes, 5000);
  change(scene);
  ShmSegment refused = tensor(101, 7, 4 * kMiB, CreatorState::kAlive);
  refused.allocated_bytes = 0;
  for (int tick = 1; tick <= 24; ++tick) {
    const double at = tick / 2.0;
    scene.cpu_ticks += scene.recording.header.host.ticks_per_second == 1000 ? 40 : 0;
    scene.sample(at, 64 * kMiB);
    scene.ledger(at, {refused});
  }
  return scene.examine();
}

TEST(BatchLost, ATrainerThatSleepsIsNotWaitingForABatch) {
  const Verdict verdict =
      twin([](Scene& scene) { scene.trainer_wait = other_wait(kClockNanosleep); });
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

TEST(BatchLost, AWorkerInALockIsADeadlock) {
  EXPECT_FALSE(find(twin([](Scene& scene) { scene.worker_wait = other_wait(kFutexCall); }),
                    FindingCode::kBatchLostInWorker));
}

TEST(BatchLost, AWorkerThatRunsIsASlowSample) {
  const Verdict verdict = twin([](Scene& scene) {
    scene.worker_wait = ThreadWait{};
    scene.worker_wait->running = true;
  });
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

TEST(BatchLost, CpuTimeIsProgress) {
  const Verdict verdict =
      twin([](Scene& scene) { scene.recording.header.host.ticks_per_second = 1000; });
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

TEST(BatchLost, AnUnknownMachineIsNotJudged) {
  EXPECT_FALSE(find(twin([](Scene& scene) { scene.recording.header.host.machine = "riscv64"; }),
                    FindingCode::kBatchLostInWorker));
}

TEST(BatchLost, ThroughThePinThreadItIsLikely) {
  Scene scene = stalled_loader(12);
  for (Sample& sample : scene.run().samples) {
    std::vector<ThreadWait>& waits = **sample.processes.front().waits;
    ThreadWait pin = waits.front();
    pin.tid = 105;
    waits.front() = other_wait(kFutexCall);
    waits.front().tid = 100;
    waits.push_back(pin);
  }
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kBatchLostInWorker).confidence,
            Confidence::kLikely);
}

TEST(BatchLost, UnreadableThreadsAreAGap) {
  Scene scene = stalled_loader(12);
  for (Sample& sample : scene.run().samples) {
    for (ProcessSample& process : sample.processes) {
      process.waits = failure(ErrorCode::kForbidden, "read /proc/100/task/100/syscall");
    }
  }
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_THAT(verdict.gaps.front().effect.plain(), HasSubstr("lost batch"));
}

}  // namespace
}  // namespace dlprobe
