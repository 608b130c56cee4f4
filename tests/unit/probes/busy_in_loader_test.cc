#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "tests/support/must.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

constexpr int32_t kIdle = 101;

StackFrame of_torch(std::string function, std::string_view file = "dataloader.py") {
  return python(std::move(function),
                "/usr/lib/python3/dist-packages/torch/utils/data/" + std::string(file), 1539);
}

StackFrame sampler() {
  return python("BalancedDraw.__iter__", "/srv/sampler.py", 19);
}

StackFrame training_loop() {
  return python("<module>", "/srv/train.py", 29);
}

StackFrame next_batch() {
  return of_torch("_BaseDataLoaderIter.__next__");
}

// The trainer is in its sampler, for which its loader waits.
HangScene scene_of_sampler() {
  HangScene scene;
  scene.run(scene.main(HangScene::kTrainer));
  scene.stack(
      scene.main(HangScene::kTrainer),
      {sampler(), of_torch("BatchSampler.__iter__", "sampler.py"),
       of_torch("_MultiProcessingDataLoaderIter._try_put_index"), next_batch(), training_loop()});
  return scene;
}

std::optional<Finding> busy_in(const HangScene& scene, int looks = 18) {
  return find(scene.examine(looks), FindingCode::kTrainerBusyInLoader);
}

TEST(BusyInLoader, ASamplerThatFindsNoIndex) {
  const auto finding = must(busy_in(scene_of_sampler()));
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(HangScene::kTrainer)});
  EXPECT_EQ(finding.message.plain(),
            "trainer 100 computes inside its loader (BalancedDraw.__iter__, /srv/sampler.py:19), "
            "for 17.0 s at least: both workers wait for a task, and got none");
  EXPECT_EQ(finding.remedies.front().commands.size(), 1U);
}

// The other rank, here in place of a worker, waits for it in a collective operation.
TEST(BusyInLoader, ARankThatOthersWaitFor) {
  constexpr const char* kC10d =
      "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
  HangScene scene = scene_of_sampler();
  for (const int32_t pid : {HangScene::kTrainer, kIdle}) {
    scene.info(pid).role = Role::kTrainer;
    scene.info(pid).ppid = 50;
    scene.info(pid).rank = JobRank{.job = "10.0.0.1:29500",
                                   .rank = pid - HangScene::kTrainer,
                                   .world_size = 2,
                                   .source = "RANK"};
  }
  scene.wait_in_futex(scene.main(kIdle), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kIdle), {native("_ZN4c10d4Work4waitE", "/usr/lib/libtorch_cpu.so"),
                                  python("barrier", kC10d, 5), training_loop()});
  const Verdict verdict = scene.examine(18);
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kTrainerBusyInLoader);
  EXPECT_EQ(must_find(verdict, FindingCode::kRankBehind).consequence_of,
            FindingCode::kTrainerBusyInLoader);
}

TEST(BusyInLoader, AShortTimeIsAWord) {
  EXPECT_EQ(must(busy_in(scene_of_sampler(), 4)).severity, Severity::kInfo);
}

TEST(BusyInLoader, ASamplerThatBeganWithinTheWatchCountsFromThen) {
  HangScene scene = scene_of_sampler();
  scene.works_until(scene.main(HangScene::kTrainer), 12);
  EXPECT_EQ(must(busy_in(scene)).severity, Severity::kInfo);
}

TEST(BusyInLoader, ABatchThatTakesLongToUnpickle) {
  HangScene scene = scene_of_sampler();
  scene.stack(scene.main(HangScene::kTrainer),
              {python("Batch.__setstate__", "/srv/data.py", 8),
               python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 122),
               of_torch("_try_get_data"), next_batch(), training_loop()});
  EXPECT_TRUE(must(busy_in(scene)).remedies.front().commands.empty()) << "no sampler is in it";
}

TEST(BusyInLoader, AThreadThatPinsABatch) {
  HangScene scene;
  scene.wait_in_futex(scene.main(HangScene::kTrainer), futex(LockKind::kCondition, 0x7000));
  ThreadSnapshot& pinning = scene.add_thread(HangScene::kTrainer, 150);
  scene.run(pinning);
  scene.stack(pinning, {python("Batch.pin_memory", "/srv/data.py", 12),
                        of_torch("_pin_memory_loop", "_utils/pin_memory.py")});
  const auto finding = must(busy_in(scene));
  EXPECT_TRUE(finding.message.plain().starts_with("thread 150 of trainer 100 computes"))
      << finding.message.plain();
}

TEST(BusyInLoader, ASlowSamplerHandsOutTasks) {
  HangScene scene = scene_of_sampler();
  scene.wakes(scene.main(kIdle));
  scene.reads_until(kIdle, 17);
  scene.reads_until(HangScene::kTrainer, 17);
  const auto finding = must(busy_in(scene));
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(finding.message.plain(),
            "trainer 100 is slower than its workers: it was at work inside its loader at 18 of 18 "
            "looks (BalancedDraw.__iter__, /srv/sampler.py:19); both workers mostly waited for a "
            "task");
  EXPECT_FALSE(busy_in(scene, 3)) << "too few looks";
}

TEST(BusyInLoader, AWorkerIsStillAtWork) {
  HangScene scene = scene_of_sampler();
  scene.run(scene.main(kIdle));
  EXPECT_FALSE(busy_in(scene));
}

TEST(BusyInLoader, ATrainerThatWorksBetweenTwoBatches) {
  HangScene scene = scene_of_sampler();
  scene.stack(scene.main(HangScene::kTrainer),
              {python("train_step", "/srv/train.py", 12), training_loop()});
  EXPECT_FALSE(busy_in(scene));
}

TEST(BusyInLoader, ASamplerOfPyTorchShuffles) {
  HangScene scene = scene_of_sampler();
  scene.stack(
      scene.main(HangScene::kTrainer),
      {of_torch("RandomSampler.__iter__", "sampler.py"),
       of_torch("_MultiProcessingDataLoaderIter._try_put_index"), next_batch(), training_loop()});
  EXPECT_FALSE(busy_in(scene));
}

// An evaluation whose loader has no workers, while those of the training loader wait for its next
// epoch.
TEST(BusyInLoader, ALoaderWithoutWorkersBesideIdleOnes) {
  HangScene scene = scene_of_sampler();
  scene.stack(scene.main(HangScene::kTrainer),
              {python("Images.__getitem__", "/srv/data.py", 30),
               of_torch("_MapDatasetFetcher.fetch", "_utils/fetch.py"),
               of_torch("_SingleProcessDataLoaderIter._next_data"), next_batch(), training_loop()});
  EXPECT_FALSE(busy_in(scene));
}

// The trainer gets a batch now and then; a worker is always in the middle of one.
HangScene scene_of_slow_loader() {
  HangScene scene;
  ThreadSnapshot& trainer = scene.main(HangScene::kTrainer);
  scene.stack(trainer, {next_batch(), training_loop()});
  scene.is_awake_at(trainer, 5);
  ThreadSnapshot& worker = scene.main(kIdle);
  scene.run(worker);
  scene.stack(worker,
              {python("Shards.__getitem__", "/srv/data.py", 14),
               of_torch("_MapDatasetFetcher.fetch", "_utils/fetch.py"),
               python("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108)});
  return scene;
}

TEST(SlowLoader, ATrainerThatNearlyAlwaysWaitsForItIsANote) {
  const Finding finding = must_find(scene_of_slow_loader().examine(6), FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_EQ(finding.message.plain(),
            "the loader is slower than the training: trainer 100 waited for a batch at 5 of 6 "
            "looks, and worker 101 was in the middle of one at 6 of 6 (Shards.__getitem__, "
            "/srv/data.py:14)");
}

TEST(SlowLoader, WorkersThatWaitForALockOfTheirsNeedNoMoreOfThem) {
  HangScene scene = scene_of_slow_loader();
  EXPECT_THAT(must_find(scene.examine(6), FindingCode::kSlowSample),
              AdvisesFirst("more workers do"));
  ThreadSnapshot& second = scene.main(102);
  scene.stack(second, scene.main(kIdle).stack);
  FutexWait lock = futex(LockKind::kSemaphore, 0x5000);
  lock.shared = true;
  scene.wait_in_futex(second, lock);
  scene.is_awake_at(second, 4);
  const Finding finding = must_find(scene.examine(6), FindingCode::kSlowSample);
  EXPECT_THAT(finding, Says("often they wait for a lock that they share"));
  EXPECT_THAT(finding, AdvisesFirst("Hold that lock for less"));
}

TEST(SlowLoader, OneThatIsOftenAtSomethingElseDoesNotWaitForIt) {
  HangScene scene = scene_of_slow_loader();
  scene.is_awake_at(scene.main(HangScene::kTrainer), 3);
  EXPECT_FALSE(find(scene.examine(6), FindingCode::kSlowSample));
}

TEST(SlowLoader, WorkersWithoutATaskAreNotWaitedFor) {
  HangScene scene = scene_of_slow_loader();
  scene.stack(scene.main(kIdle), {of_torch("_worker_loop", "_utils/worker.py")});
  EXPECT_FALSE(find(scene.examine(6), FindingCode::kSlowSample));
}

}  // namespace
}  // namespace dlprobe
