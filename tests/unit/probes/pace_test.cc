// Waits in the middle of a batch that end by themselves, or in which something comes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "lib/base/units.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

constexpr int32_t kFetcher = 101;
constexpr int32_t kNextFetcher = 102;
constexpr int kLongWatch = 15;  // a second apart: long enough for a warning

void is_fetching(HangScene& scene, int32_t pid) {
  scene.stack(scene.main(pid), {python("Rows.__getitem__", "/srv/train.py", 8)});
}

std::optional<Severity> slow_severity(const HangScene& scene) {
  const auto finding = find(scene.examine(kLongWatch), FindingCode::kSlowSample);
  return finding ? std::optional(finding->severity) : std::nullopt;
}

// As between two tries for an object that its server does not give yet.
TEST(Pace, ASleepThatIsOverWithinAMinuteIsAWord) {
  HangScene scene(1);
  scene.sleep(scene.main(kFetcher));
  is_fetching(scene, kFetcher);
  EXPECT_EQ(slow_severity(scene), Severity::kWarning) << "its end is not known";
  scene.main(kFetcher).wait.ends_in_ns = 16 * kSecond;
  EXPECT_EQ(slow_severity(scene), Severity::kInfo);
  EXPECT_THAT(find(scene.examine(kLongWatch), FindingCode::kSlowSample)->message.plain(),
              testing::HasSubstr("the end of a sleep, in 16.0 s at most"));
  scene.main(kFetcher).wait.ends_in_ns = 1000 * kSecond;
  EXPECT_EQ(slow_severity(scene), Severity::kWarning);
}

// One party prepares, the other waits for its notification: what the one does is told, and once.
TEST(Pace, WhoWaitsForOneThatSleepsIsNoNews) {
  HangScene scene(2);
  scene.sleep(scene.main(kFetcher));
  scene.main(kFetcher).wait.ends_in_ns = 16 * kSecond;
  is_fetching(scene, kFetcher);
  FutexWait wait = futex(LockKind::kSharedSemaphore, 0x2000);
  wait.shared = true;
  wait.inode = 7;
  scene.wait_in_futex(scene.main(kNextFetcher), wait);
  is_fetching(scene, kNextFetcher);
  for (const int32_t pid : {HangScene::kTrainer, kFetcher, kNextFetcher})
    scene.process(pid).sem_locks = {{.inode = 7, .max_value = 100}};
  const Verdict verdict = scene.examine(kLongWatch);
  ASSERT_THAT(verdict.findings, testing::SizeIs(1));
  EXPECT_EQ(verdict.findings.front().severity, Severity::kInfo);
  EXPECT_EQ(verdict.findings.front().processes, std::vector<ProcessKey>{key_of(kFetcher)});
}

TEST(Pace, AMinuteOfNothingButShortSleepsIsWorthAWarning) {
  HangScene scene(1);
  scene.sleep(scene.main(kFetcher));
  scene.main(kFetcher).wait.ends_in_ns = kSecond / 10;
  scene.wakes(scene.main(kFetcher));
  is_fetching(scene, kFetcher);
  scene.reads_until(kFetcher, 0);
  const auto after = [&](int looks) {
    return find(scene.examine(looks), FindingCode::kSlowSample)->severity;
  };
  EXPECT_EQ(after(40), Severity::kInfo);
  EXPECT_EQ(after(70), Severity::kWarning);
}

HangScene fetcher_at_a_server() {
  HangScene scene(1);
  scene.wait_in_recv(scene.main(kFetcher), 7001, 7002);
  scene.has_socket(7777, 7002);
  is_fetching(scene, kFetcher);
  return scene;
}

TEST(Pace, DataThatComeSlowlyAreAWord) {
  HangScene scene = fetcher_at_a_server();
  EXPECT_EQ(slow_severity(scene), Severity::kWarning);
  scene.wakes(scene.main(kFetcher));
  EXPECT_EQ(slow_severity(scene), Severity::kInfo);
  scene.info(kFetcher).signals_caught = uint64_t{1} << (SIGALRM - 1);
  EXPECT_EQ(slow_severity(scene), Severity::kWarning) << "a signal may have woken it";
}

TEST(Pace, WhatATimeoutExplainsIsNoData) {
  HangScene scene = fetcher_at_a_server();
  ThreadWait& wait = scene.main(kFetcher).wait;
  wait.syscall = 7;  // poll
  wait.args = {0x9000, 1, 60'000, 0, 0, 0};
  scene.wakes(scene.main(kFetcher));
  EXPECT_EQ(slow_severity(scene), Severity::kInfo);
  wait.args[2] = 200;
  EXPECT_EQ(slow_severity(scene), Severity::kWarning);
}

// One worker downloads what all need, and sleeps now and then; the other waits for its lock.
TEST(Pace, ALockOfOneWhoSleepsForAWhileIsAWord) {
  HangScene scene;
  scene.sleep(scene.main(kFetcher));
  scene.main(kFetcher).wait.ends_in_ns = kSecond / 10;
  scene.wait_in_flock(scene.main(kNextFetcher), 600);
  scene.has_flock(kFetcher, 600);
  is_fetching(scene, kFetcher);
  is_fetching(scene, kNextFetcher);
  EXPECT_EQ(slow_severity(scene), Severity::kInfo);
  scene.main(kFetcher).wait.ends_in_ns = 1000 * kSecond;
  EXPECT_EQ(slow_severity(scene), Severity::kWarning);
}

// It asks again and again whether a file is there that its code names.
TEST(Pace, AFileThatItsMakerLeftBehindIsNamed) {
  HangScene scene(1);
  scene.sleep(scene.main(kFetcher));
  scene.main(kFetcher).wait.ends_in_ns = kSecond / 10;
  scene.main(kFetcher).wait.files = {
      {.fd = -1, .kind = FileKind::kFile, .inode = 600, .path = "/data/cache.lock"}};
  scene.wakes(scene.main(kFetcher));
  is_fetching(scene, kFetcher);
  const auto finding = [&] { return find(scene.examine(), FindingCode::kSlowSample); };
  const auto lonely = finding();
  ASSERT_TRUE(lonely);
  EXPECT_THAT(lonely->message.plain(), testing::HasSubstr("maybe until the file /data/cache.lock "
                                                          "is removed, which no process has open"));
  EXPECT_EQ(lonely->remedies.front().commands.at(0).plain(), "ls -l /data/cache.lock");
  EXPECT_EQ(lonely->severity, Severity::kInfo);
  scene.has_flock(7777, 600);
  EXPECT_THAT(finding()->message.plain(),
              testing::HasSubstr("maybe for a lock of the file /data/cache.lock held by process"));
  EXPECT_THAT(finding()->remedies.front().title.plain(), testing::HasSubstr("that line"));
}

// A producer has ended with code 3; a consumer asks their shared memory for its next item.
HangScene consumer_in_a_loop(int reads_until = 0) {
  HangScene scene(1);
  scene.main(HangScene::kTrainer).wait = {
      .tid = HangScene::kTrainer, .syscall = 61, .args = {kFetcher, 0, 0, 0, 0, 0}};
  scene.run(scene.main(kFetcher));
  scene.stack(scene.main(kFetcher), {python("consume", "/srv/ring.py", 15)});
  scene.reads_until(kFetcher, reads_until);
  scene.had_child(HangScene::kTrainer, 103, 3 << 8);
  scene.info(103).role = Role::kWorker;
  return scene;
}

bool blames_the_producer(const HangScene& scene) {
  const auto finding = find(scene.examine(kLongWatch), FindingCode::kWorkerBusyNoProgress);
  return finding && finding->severity == Severity::kWarning &&
         finding->message.plain().contains("worker 103 exited with code 3 before");
}

TEST(Pace, ALoopThatComputesSinceAnotherWorkerFailed) {
  HangScene scene = consumer_in_a_loop();
  EXPECT_TRUE(blames_the_producer(scene));
  scene.run(scene.main(HangScene::kTrainer));
  EXPECT_FALSE(blames_the_producer(scene)) << "the trainer goes on";
}

// A trainer may compute for long, but not at one line in Python's own code.
TEST(Pace, ATrainerThatAsksMemorySinceAWorkerFailed) {
  HangScene scene = consumer_in_a_loop();
  scene.sleep(scene.main(kFetcher));
  ThreadSnapshot& trainer = scene.main(HangScene::kTrainer);
  scene.run(trainer);
  scene.reads_until(HangScene::kTrainer, 0);
  scene.stack(trainer, {native("_PyEval_EvalFrameDefault", "/usr/bin/python3.11"),
                        python("wait", "/srv/ring.py", 5)});
  EXPECT_TRUE(blames_the_producer(scene));
  scene.stack(trainer,
              {native("dgemm", "/usr/lib/libopenblas.so"), python("wait", "/srv/ring.py", 5)});
  EXPECT_FALSE(blames_the_producer(scene)) << "one long operation";
}

TEST(Pace, AWorkerThatReadsOrWritesAfterAnotherFailedIsAtWork) {
  EXPECT_FALSE(blames_the_producer(consumer_in_a_loop(kLongWatch)));
}

TEST(Pace, AProgramThatFailedBesideALoopIsNoProducer) {
  HangScene scene = consumer_in_a_loop();
  scene.info(103).role = Role::kOther;  // grep found nothing
  EXPECT_FALSE(blames_the_producer(scene));
}

}  // namespace
}  // namespace dlprobe
