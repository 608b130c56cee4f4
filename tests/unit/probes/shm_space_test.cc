// DLP0101, DLP0102, DLP0105, DLP0108, and what cannot be said.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/model/shm_forecast.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kBatch = 20 * kMiB;

// Two 20 MiB batches sit in 64 MiB, and worker 101 fills a third that does not fit.
Scene full_mount() {
  Scene scene;
  scene.sample(0.1, 0);
  scene.sample(0.2, 40 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, kBatch, 101), unlinked_tensor(102, 2, kBatch, 102)});
  scene.use(0.25, 64 * kMiB);
  return scene;
}

LoaderPlan plan_of(int workers, int batch_size) {
  LoaderPlan plan;
  plan.workers = workers;
  plan.batch_size = batch_size;
  return plan;
}

TEST(ShmExhausted, SigbusOnAFullMountIsCertain) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.exit_with(100, 0.3, 1);
  scene.sample(0.4, 0);
  const Verdict verdict = scene.examine();
  ASSERT_THAT(verdict.findings, Not(IsEmpty()));
  const Finding& finding = verdict.findings.front();
  EXPECT_THAT(finding, Is(FindingCode::kShmExhausted, Severity::kError, Confidence::kCertain));
  EXPECT_EQ(number(finding, "shm_size"), int64_t{64 * kMiB});
  EXPECT_EQ(number(finding, "shm_free"), 0);
  EXPECT_EQ(number(finding, "segment_size"), int64_t{kBatch});
  EXPECT_THAT(finding, Says("worker 101 was killed by SIGBUS"));
  EXPECT_THAT(finding.processes, testing::ElementsAre(key_of(101)));
  EXPECT_GE(finding.alternatives.size(), 3U) << "other SIGBUS, other sender, OOM";
  EXPECT_FALSE(finding.remedies.empty());
  EXPECT_THAT(verdict.gaps, IsEmpty());
}

TEST(ShmExhausted, BlocksThatNobodyHasWantToBeUnlinked) {
  for (const bool is_open : {false, true}) {
    Scene scene;
    scene.ledger(0.05, {});
    scene.sample(0.1, 0);
    scene.sample(0.2, 40 * kMiB);
    std::vector<ShmSegment> blocks;
    for (uint64_t number = 1; number <= 3; ++number) {
      blocks.push_back(foreign_block(number, 10 * kMiB, 101, "python3"));
      if (!is_open) blocks.back().holders.clear();
    }
    scene.ledger(0.2, blocks);
    scene.use(0.25, 64 * kMiB);
    scene.exit_by_signal(101, 0.26, SIGBUS);
    const Finding finding = must_find(scene.examine(), FindingCode::kShmExhausted);
    const auto said =
        HasSubstr("3 blocks of multiprocessing.shared_memory with 30.0 MiB were open in no");
    if (is_open) {
      EXPECT_THAT(finding.message.plain(), Not(said));
    } else {
      EXPECT_THAT(finding.message.plain(), said);
      EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("Unlink each block"));
    }
  }
}

TEST(ShmExhausted, AnExceptionThatSaysSoIsEnough) {
  Scene scene;
  scene.sample(0.1, 0);
  StartEvent refused{.at = Scene::at(0.2),
                     .kind = StartEventKind::kFailed,
                     .process = key_of(100),
                     .message = "OSError: [Errno 28] No space left on device",
                     .path = "/dev/shm/cache",
                     .file = "/job/data.py",
                     .line = 7,
                     .function = "save",
                     .ended = Ended::kProcess,
                     .error_number = 28,
                     .free_bytes = 0,
                     .free_inodes = 5};
  scene.run().start_events = {refused};
  scene.exit_with(100, 0.3, 1);
  const Finding finding = must_find(scene.examine(), FindingCode::kShmExhausted);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_EQ(number(finding, "shm_free"), 0);
  EXPECT_THAT(finding, Says("at data.py:7 in save"));

  scene.run().start_events.front().path = "/scratch/cache";
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, SaysTheSizeThatWouldDo) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGBUS);
  const Verdict verdict = scene.examine();
  // (2 workers x 2 + 1, and one for a moment) x 20 MiB and a quarter more, in steps of 64 MiB.
  EXPECT_EQ(number(verdict.findings.front(), "size_that_would_do"), int64_t{192 * kMiB});
}

// A larger /dev/shm holds no more than the machine's memory, and fewer batches come first.
TEST(ShmExhausted, NoMountIsLargerThanTheMemory) {
  const auto is_code_first = [](uint64_t memory_bytes) {
    Scene scene = full_mount();
    scene.run().samples.back().host = HostMemory{.total_bytes = memory_bytes};
    scene.exit_by_signal(101, 0.26, SIGBUS);
    const Remedy first = scene.examine().findings.front().remedies.front();
    return first.applies_to == std::vector<std::string>{"code"};
  };
  EXPECT_FALSE(is_code_first(kGiB));
  EXPECT_TRUE(is_code_first(100 * kMiB));
}

TEST(ShmExhausted, ACoreDumpIsTheSameDeath) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGBUS | 0x80);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, OutOfMemoryIsNotRuledOutWhenItsCounterMoved) {
  Scene scene = full_mount();
  scene.oom_kills = 1;
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.sample(0.4, 0);
  const Verdict verdict = scene.examine();
  for (const Alternative& each : verdict.findings.front().alternatives) {
    EXPECT_THAT(each.cause, Not(HasSubstr("OOM")));
  }
}

TEST(ShmExhausted, AHalfFilledSegmentOfTheDeadWorkerProvesItToo) {
  Scene scene;
  scene.sample(0.1, 0);
  scene.sample(0.2, 60 * kMiB);
  ShmSegment begun = unlinked_tensor(101, 3, kBatch, 101);
  begun.allocated_bytes = 10 * kMiB;
  scene.ledger(0.2, {begun});
  scene.exit_by_signal(101, 0.3, SIGBUS);
  const Finding finding = must_find(scene.examine(), FindingCode::kShmExhausted);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_EQ(number(finding, "segment_filled"), int64_t{10 * kMiB});
}

TEST(ShmExhausted, SigbusOnAMountThatFilledBetweenTwoLooksIsLikely) {
  // As measured on a busy machine: 0.3 MiB/ms, 3.4 MiB left, and 24 ms until the next look.
  Scene scene;
  scene.use(5.240, 50 * kMiB);
  scene.use(5.258, 56 * kMiB);
  scene.use(5.272, 60 * kMiB + 600 * 1024);
  scene.use(5.296, 44 * kMiB);
  scene.exit_by_signal(101, 5.418, SIGBUS);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kShmExhausted).confidence, Confidence::kLikely);
}

TEST(ShmExhausted, SigbusWhileTheMountFilledSlowlyIsAnotherBusError) {
  Scene scene;
  scene.use(5.240, 59 * kMiB);
  scene.use(5.272, 60 * kMiB);
  scene.use(5.296, 44 * kMiB);
  scene.exit_by_signal(101, 5.418, SIGBUS);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, SigbusOfALoaderThatIsTooLargeIsLikelyWhereNobodyLookedInTime) {
  Scene scene;
  scene.sample(0.1, 0);
  scene.sample(0.2, 53 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, 12 * kMiB, 101)});
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.use(0.27, 41 * kMiB);
  const Finding finding = must_find(scene.examine(), FindingCode::kShmExhausted);
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_THAT(finding, Says("shortly before"));
}

TEST(ShmExhausted, SigbusOfAJobThatTookMoreJustBeforeThanIsLeftIsLikely) {
  for (const auto& [before, is_full] : {std::pair(48 * kMiB, true), {54 * kMiB, false}}) {
    Scene scene;
    scene.use(1.090, before);
    scene.use(1.190, 58 * kMiB);
    scene.use(1.300, 48 * kMiB);
    scene.exit_by_signal(101, 1.280, SIGBUS);
    const std::optional<Finding> finding = find(scene.examine(), FindingCode::kShmExhausted);
    EXPECT_EQ(finding.has_value(), is_full) << before;
    EXPECT_EQ(finding ? finding->confidence : Confidence::kLikely, Confidence::kLikely);
  }
}

TEST(ShmExhausted, SigbusWhileNothingFilledTheMountIsAnotherBusError) {
  Scene scene;
  scene.sample(0.1, 53 * kMiB);
  scene.ledger(0.1, {unlinked_tensor(101, 1, 12 * kMiB, 101)});
  scene.sample(0.2, 53 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.sample(0.3, 53 * kMiB);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, SigbusWithRoomLeftIsAnotherBusError) {
  Scene scene;
  scene.sample(0.1, 0);
  scene.sample(0.2, 40 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, kBatch / 2, 101)});
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.sample(0.4, 0);
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmExhausted, SigbusLongAfterTheMountWasFullIsAnotherBusError) {
  Scene scene = full_mount();
  for (int tick = 3; tick < 50; ++tick)
    scene.sample(tick * 0.1, 20 * kMiB);
  scene.exit_by_signal(101, 4.9, SIGBUS);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, AnotherSignalOnAFullMountIsNotIt) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGKILL);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, ARefusedReservationOfALiveWorkerIsCertain) {
  Scene scene = full_mount();
  ShmSegment empty = tensor(101, 7, kBatch, CreatorState::kAlive);
  empty.allocated_bytes = 0;
  scene.ledger(0.3, {empty});
  scene.sample(0.4, 60 * kMiB);
  scene.ledger(0.5, {empty});
  scene.exit_with(100, 0.6, 1);
  const Verdict verdict = scene.examine();
  const Finding finding = must_find(verdict, FindingCode::kShmExhausted);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_EQ(finding.discriminator, "reservation-refused");
  EXPECT_EQ(number(finding, "failed_reservations"), 1);
  EXPECT_THAT(finding, Says("worker 101 could not allocate a segment of 20.0 MiB"));
}

TEST(ShmExhausted, OneEmptyFileSeenAfterTheDeathIsOnlyLikely) {
  Scene scene = full_mount();
  scene.exit_with(101, 0.3, 1);
  ShmSegment empty = tensor(101, 7, kBatch, CreatorState::kDead);
  empty.allocated_bytes = 0;
  scene.ledger(0.5, {empty});
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kShmExhausted).confidence, Confidence::kLikely);
  ShmSegment second = empty;
  second.inode = 8;
  scene.ledger(0.6, {empty, second});
  EXPECT_EQ(find(scene.examine(), FindingCode::kShmExhausted)->confidence, Confidence::kCertain);
}

TEST(ShmExhausted, OneEmptyFileAfterALongLackOfRoomIsCertain) {
  Scene scene = full_mount();
  scene.use(0.45, 62 * kMiB);
  scene.exit_with(101, 0.5, 1);
  ShmSegment empty = tensor(101, 7, kBatch, CreatorState::kDead);
  empty.allocated_bytes = 0;
  scene.ledger(0.5, {empty});
  EXPECT_EQ(find(scene.examine(), FindingCode::kShmExhausted)->confidence, Confidence::kCertain);
}

// A worker dies of the full mount at 0.26 s, and its file stays for 5 s.
void die_and_leave_a_file(Scene& scene) {
  scene.exit_by_signal(101, 0.26, SIGBUS);
  for (int tick = 1; tick < 12; ++tick) {
    scene.sample(tick / 2.0, 20 * kMiB);
    scene.ledger(tick / 2.0, {tensor(101, 1, kBatch, CreatorState::kDead)});
  }
}

void expect_the_file_to_be_a_consequence(const Scene& scene) {
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings.at(0).code, FindingCode::kShmExhausted);
  EXPECT_EQ(verdict.findings.at(1).consequence_of, FindingCode::kShmExhausted);
}

TEST(ShmExhausted, WhatTheDeadWorkerLeavesIsAConsequence) {
  Scene scene = full_mount();
  die_and_leave_a_file(scene);
  expect_the_file_to_be_a_consequence(scene);
}

TEST(ShmExhausted, FilesSeenJustBeforeTheDeathWasNoticedAreAConsequenceToo) {
  Scene scene = full_mount();
  scene.ledger(0.25, {tensor(101, 1, kBatch, CreatorState::kDead)});
  die_and_leave_a_file(scene);
  expect_the_file_to_be_a_consequence(scene);
}

TEST(ShmExhausted, FilesOfAWorkerThatDiedBeforeAreTheCause) {
  Scene scene;
  scene.exit_by_signal(102, 0.2, SIGKILL);
  for (int tick = 1; tick < 12; ++tick) {
    scene.sample(tick / 2.0, 40 * kMiB);
    scene.ledger(tick / 2.0, {tensor(102, 1, 10 * kMiB, CreatorState::kDead),
                              tensor(102, 2, 10 * kMiB, CreatorState::kDead),
                              tensor(102, 3, 10 * kMiB, CreatorState::kDead),
                              unlinked_tensor(101, 4, 10 * kMiB, 101)});
  }
  scene.use(5.52, 64 * kMiB);
  scene.exit_by_signal(101, 5.53, SIGBUS);
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(verdict.findings.at(0).code, FindingCode::kShmLeak);
  EXPECT_EQ(verdict.findings.at(1).consequence_of, FindingCode::kShmLeak);
}

TEST(ShmExhausted, CountsWorkersThatLivedBetweenTwoSamples) {
  Scene scene;
  scene.run().samples.clear();
  scene.use(0.25, 64 * kMiB);
  scene.ledger(0.25, {unlinked_tensor(101, 1, kBatch, 101)});
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.exit_by_signal(102, 0.27, SIGTERM);
  EXPECT_EQ(number(scene.examine().findings.front(), "size_that_would_do"), int64_t{192 * kMiB});
}

TEST(ShmExhausted, AnEmptyFileWithRoomForItIsAReservationUnderWay) {
  Scene scene;
  scene.sample(0.1, 0);
  ShmSegment empty = tensor(101, 7, kBatch, CreatorState::kAlive);
  empty.allocated_bytes = 0;
  scene.ledger(0.2, {empty});
  scene.sample(0.3, 20 * kMiB);
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmExhausted, TheCollectorsEventCountsAsProof) {
  Scene scene = full_mount();
  scene.run().events.push_back({.at = Scene::at(0.26),
                                .kind = "segment-reservation-failed",
                                .text = "",
                                .process = key_of(102)});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kShmExhausted).processes,
              testing::ElementsAre(key_of(102)));
}

TEST(ShmExhausted, AJobThatFailsByItselfWhileShmIsWellUsedIsNotIt) {
  Scene scene;
  scene.sample(0.1, 0);
  scene.sample(0.2, 55 * kMiB);
  scene.ledger(0.2,
               {unlinked_tensor(101, 1, 10 * kMiB, 101), unlinked_tensor(102, 2, 10 * kMiB, 102)});
  scene.exit_with(100, 0.5, 1);
  scene.sample(0.6, 0);
  EXPECT_FALSE(has_error(scene.examine()));
}

// As measured: workers that were born and died between two samples.
TEST(ShmExhausted, AJobThatFailsRightAfterAFullMountIsLikely) {
  Scene scene(64 * kMiB, 0);
  scene.sample(0.7, 40 * kMiB);
  scene.use(0.82, 43 * kMiB);
  scene.use(0.84, 64 * kMiB);
  scene.use(0.85, 40 * kMiB);
  scene.exit_with(100, 1.03, 1);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kShmExhausted).confidence, Confidence::kLikely);
  scene.run().shm_use.at(2).used_bytes = 60 * kMiB;
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted)) << "there was room";
}

TEST(ShmExhausted, AJobThatEndsWellAfterAFullMountIsNotIt) {
  Scene scene(64 * kMiB, 0);
  scene.sample(0.7, 64 * kMiB);
  scene.exit_with(100, 1.03, 0);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmExhausted));
}

TEST(ShmExhausted, EqualFindingsOfTwoRunsAreOneThatNamesBoth) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.next_run();
  scene.sample(0.2, 40 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, kBatch, 101)});
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  EXPECT_THAT(only_finding(scene.examine()).runs, testing::ElementsAre(0, 1));
}

TEST(ShmHeldByAnotherJob, IsTheCauseWhenTheLoaderAloneWouldFit) {
  Scene scene;
  const ShmSegment theirs = foreign_block(9, 40 * kMiB, 900, "other-job");
  scene.sample(0.1, 40 * kMiB);
  scene.sample(0.2, 62 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, 10 * kMiB, 101),
                     unlinked_tensor(102, 2, 10 * kMiB, 102), theirs});
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_THAT(verdict.findings.at(0), Is(FindingCode::kShmHeldByAnotherJob, Severity::kError));
  EXPECT_THAT(verdict.findings.at(0), Says("pid 900 (other-job) holds 40.0 MiB"));
  EXPECT_EQ(verdict.findings.at(1).code, FindingCode::kShmExhausted);
  EXPECT_EQ(verdict.findings.at(1).consequence_of, FindingCode::kShmHeldByAnotherJob);
}

TEST(ShmHeldByAnotherJob, IsNotTheJobsOwnWorkerThatTheLookDidNotKnowYet) {
  Scene scene;
  scene.sample(0.1, 40 * kMiB);
  scene.ledger(0.1, {foreign_block(9, 40 * kMiB, 102, "python3")});
  scene.sample(0.2, 62 * kMiB);
  scene.ledger(
      0.2, {foreign_block(9, 40 * kMiB, 102, "python3"), unlinked_tensor(101, 1, 10 * kMiB, 101)});
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmHeldByAnotherJob));
}

TEST(ShmHeldByAnotherJob, IsTakenFromALookAtAllProcesses) {
  Scene scene;
  scene.sample(0.1, 40 * kMiB);
  scene.ledger(0.1, {foreign_block(9, 40 * kMiB, 900, "other-job")});
  scene.sample(0.2, 62 * kMiB);
  scene.ledger(0.2, {unlinked_tensor(101, 1, 10 * kMiB, 101)});
  scene.run().ledgers.back().whole_machine = false;
  scene.run().ledgers.back().unexplained_bytes = 40 * kMiB;
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  EXPECT_EQ(scene.examine().findings.front().code, FindingCode::kShmHeldByAnotherJob);
}

TEST(ShmHeldByAnotherJob, IsNotTheCauseWhenTheLoaderIsTooLargeAnyway) {
  Scene scene = full_mount();
  scene.run().ledgers.front().segments.push_back(foreign_block(9, 24 * kMiB, 900, "other-job"));
  scene.exit_by_signal(101, 0.26, SIGBUS);
  const Verdict verdict = scene.examine();
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kShmExhausted);
  EXPECT_FALSE(find(verdict, FindingCode::kShmHeldByAnotherJob));
}

TEST(ShmHeldByAnotherJob, IsNoFindingWhileNothingFails) {
  Scene scene;
  scene.sample(0.1, 40 * kMiB);
  scene.ledger(0.1, {foreign_block(9, 40 * kMiB, 900, "other-job")});
  scene.sample(0.2, 45 * kMiB);
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmHeldByAnotherJob, IsTheCauseOfAForecastThatDoesNotFit) {
  Scene scene(256 * kMiB);
  scene.plan(plan_of(2, 64), true);  // 5 x 36.8 MiB
  scene.use(0.1, 200 * kMiB);
  scene.ledger(0.1, {foreign_block(9, 200 * kMiB, 900, "other-job")});
  EXPECT_THAT(only_finding(scene.examine()),
              Is(FindingCode::kShmHeldByAnotherJob, Severity::kError));
}

TEST(ShmTooSmall, APlanThatCannotFitIsCertainBeforeItStarts) {
  Scene scene;
  scene.plan(plan_of(8, 32), true);
  scene.use(0.1, 0);
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kShmTooSmall, Confidence::kCertain));
  const ShmForecast forecast = forecast_shm(plan_of(8, 32), 4096);
  EXPECT_EQ(number(finding, "forecast"), static_cast<int64_t>(forecast.bytes));
  EXPECT_GE(number(finding, "size_that_would_do"), static_cast<int64_t>(forecast.bytes));
  EXPECT_THAT(finding.remedies.back().applies_to, testing::ElementsAre("code"));
}

TEST(ShmTooSmall, APlanThatFillsMoreThanFourFifthsIsAWarning) {
  Scene scene(208 * kMiB);
  scene.plan(plan_of(2, 64), true);  // 183.8 MiB
  scene.use(0.1, 0);
  EXPECT_EQ(only_finding(scene.examine()).severity, Severity::kWarning);
}

TEST(ShmTooSmall, WhereOnlyTheBatchOfAMomentDoesNotFitItIsAWarning) {
  Scene scene(140 * kMiB);
  scene.plan(plan_of(1, 64), true);  // 110.3 MiB, and 36.8 more
  scene.use(0.1, 0);
  const Finding finding = only_finding(scene.examine());
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("one batch more"));
}

TEST(ShmTooSmall, APlanThatFitsIsHealthy) {
  Scene scene(256 * kMiB);
  scene.plan(plan_of(2, 64), true);
  scene.use(0.1, 0);
  const Verdict verdict = scene.examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_THAT(verdict.gaps, IsEmpty());
}

TEST(ShmTooSmall, SizeZeroIsNoLimit) {
  Scene scene(0);
  scene.plan(plan_of(8, 320), true);
  scene.use(0.1, 10 * kMiB);
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmTooSmall, WithoutAPlanALoaderAtTheEdgeIsOnlyAWarning) {
  Scene scene;
  scene.sample(0.1, 50 * kMiB);
  scene.ledger(0.1,
               {unlinked_tensor(101, 1, 25 * kMiB, 101), unlinked_tensor(102, 2, 25 * kMiB, 102)});
  scene.sample(0.2, 50 * kMiB);
  EXPECT_THAT(only_finding(scene.examine()),
              Is(FindingCode::kShmTooSmall, Severity::kWarning, Confidence::kLikely));
}

TEST(ShmRemedies, TheOneForTheContainerComesFirst) {
  const auto first_remedy = [](const std::string& container) {
    Scene scene = full_mount();
    scene.recording.header.host.container = container;
    scene.exit_by_signal(101, 0.26, SIGBUS);
    return scene.examine().findings.front().remedies.front();
  };
  EXPECT_THAT(first_remedy("docker").commands.front().plain(), HasSubstr("--shm-size=192m"));
  EXPECT_THAT(first_remedy("kubernetes").commands.front().plain(), HasSubstr("medium: Memory"));
  EXPECT_THAT(first_remedy("slurm").applies_to, testing::ElementsAre("slurm"));
}

TEST(ShmInodes, NoneLeftIsAnError) {
  Scene scene;
  scene.use(0.1, kMiB);
  scene.run().shm_use.back().inodes_used = 1000;
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kShmInodesExhausted).severity,
            Severity::kError);
}

TEST(ShmInodes, ManyButEnoughIsSilentAndNoLimitToo) {
  Scene scene;
  scene.use(0.1, kMiB);
  scene.run().shm_use.back().inodes_used = 800;
  EXPECT_THAT(scene.examine().findings, IsEmpty());
  scene.run().shm_use.back().inodes = 0;
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmGaps, NoMountIsNotHealthy) {
  Scene scene;
  scene.no_mount();
  const Verdict verdict = scene.examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_THAT(verdict.gaps.front().what.plain(), HasSubstr("/dev/shm"));
}

TEST(ShmGaps, AMountThatIsNoTmpfsIsNotHealthy) {
  Scene scene;
  scene.run().mounts.front().fs_type = "ext4";
  scene.use(0.1, 0);
  EXPECT_EQ(scene.examine().gaps.size(), 1U);
}

TEST(ShmGaps, AFailedStatvfsIsNotHealthyAndSaysWhy) {
  Scene scene;
  scene.run().samples.emplace_back();
  scene.run().samples.back().shm.emplace_back(
      failure(ErrorCode::kForbidden, "statvfs /proc/100/root/dev/shm"));
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_THAT(verdict.gaps.front().why.plain(), HasSubstr("/proc/100/root"));
}

TEST(ShmGaps, AnotherMountNamespaceThanTheSubjectsIsNotHealthy) {
  Scene scene;
  scene.run().mounts.front().seen_through = {};
  scene.run().mounts.front().mount_namespace = 2;
  scene.use(0.1, 0);
  EXPECT_EQ(scene.examine().gaps.size(), 1U);
}

TEST(ShmGaps, AnUnreadableEndOfAWorkerOnATightMountIsOne) {
  Scene scene = full_mount();
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.run().exits.back().wait_status = failure(ErrorCode::kVanished, "reaped by another process");
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(has_error(verdict));
  EXPECT_EQ(verdict.gaps.size(), 1U);
}

TEST(ShmGaps, AnEmptyRecordingIsNotHealthy) {
  const Verdict verdict = probes::shm::kProbe.examine(Recording{});
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_EQ(verdict.gaps.size(), 1U);
}

}  // namespace
}  // namespace dlprobe
