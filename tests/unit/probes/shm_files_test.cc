// DLP0103, DLP0104, DLP0107: files that stay.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::IsEmpty;

ShmSegment old(ShmSegment segment, double age_s = 3600) {
  segment.modified_ns -= static_cast<int64_t>(age_s * 1e9);
  return segment;
}

TEST(ShmStaleFiles, OldFilesOfTheDeadAreAWarning) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {old(tensor(4711, 1, 20 * kMiB, CreatorState::kDead))});
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kShmStaleFiles, Severity::kWarning, Confidence::kCertain));
  EXPECT_EQ(number(finding, "stale_bytes"), int64_t{20 * kMiB});
  EXPECT_EQ(text(finding, "dead_creators"), "4711");
  EXPECT_EQ(finding.remedies.front().commands.front().plain(), "rm -f /dev/shm/torch_4711_*");
}

TEST(ShmStaleFiles, AFewKilobytesAreNoNews) {
  Scene scene;
  scene.sample(0.1, 8192);
  scene.ledger(0.1, {old(tensor(4711, 1, 8192, CreatorState::kDead))});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmStaleFiles, FilesOfADeathJustNowMayStillBeRemoved) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {tensor(4711, 1, 20 * kMiB, CreatorState::kDead)});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmStaleFiles, FilesWatchedForLongerThanACleanUpAreStale) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {old(tensor(4711, 1, 20 * kMiB, CreatorState::kDead), 2)});
  scene.ledger(3.5, {old(tensor(4711, 1, 20 * kMiB, CreatorState::kDead), 2)});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kShmStaleFiles));
}

TEST(ShmStaleFiles, MappedFilesOfADeadCreatorAreInUse) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  ShmSegment segment = old(tensor(4711, 1, 20 * kMiB, CreatorState::kDead));
  segment.holders.push_back(
      {.key = key_of(900), .comm = "x", .in_tree = false, .fds = 0, .maps = 1});
  scene.ledger(0.1, {segment});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmStaleFiles, AnUnknownCreatorIsNotADeadOne) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {old(tensor(4711, 1, 20 * kMiB, CreatorState::kUnknown))});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmStaleFiles, UnreadableProcessesTakeTheCertaintyAway) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {old(tensor(4711, 1, 20 * kMiB, CreatorState::kDead))});
  scene.run().ledgers.back().processes_unreadable = 3;
  EXPECT_EQ(scene.examine().findings.front().confidence, Confidence::kLikely);
}

TEST(ShmStaleFiles, AreTheCauseOfAFailureThatTheyMake) {
  Scene scene;
  const ShmSegment stale = old(tensor(4711, 9, 40 * kMiB, CreatorState::kDead));
  scene.sample(0.1, 62 * kMiB);
  scene.ledger(0.1, {unlinked_tensor(101, 1, 10 * kMiB, 101),
                     unlinked_tensor(102, 2, 10 * kMiB, 102), stale});
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_THAT(verdict.findings.at(0), Is(FindingCode::kShmStaleFiles, Severity::kError));
  EXPECT_EQ(verdict.findings.at(1).consequence_of, FindingCode::kShmStaleFiles);
}

TEST(ShmStaleFiles, AreNoBlocksOfWhoIsAtWork) {
  for (const bool at_work : {false, true}) {
    Scene scene;
    scene.sample(0.1, 90 * kMiB);
    ShmSegment block = old(foreign_block(77, 80 * kMiB, 900, ""), 0);
    block.holders.clear();
    scene.ledger(0.1, {block});
    ShmSegment more = block;
    ++more.inode;
    scene.ledger(0.9, at_work ? std::vector{block, more} : std::vector{block});
    EXPECT_EQ(find(scene.examine(), FindingCode::kShmStaleFiles).has_value(), !at_work);
  }
}

TEST(ShmStaleFiles, HostileNamesAreRemovedByInode) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  ShmSegment segment = old(foreign_block(77, 20 * kMiB, 900, "x"), 0);
  segment.holders.clear();
  segment.name = "psm_$(reboot)";
  scene.ledger(0.1, {segment});
  EXPECT_EQ(only_finding(scene.examine()).remedies.front().commands.front().plain(),
            "find /dev/shm -xdev -inum 77 -delete");
}

TEST(ShmStaleFiles, OwnFilesAfterTheEndAreStaleOnceNoManagerLives) {
  Scene scene;
  scene.process(200, Role::kShmManager);
  scene.sample(0.1, 20 * kMiB);
  for (const int pid : {100, 101, 102})
    scene.exit_by_signal(pid, 0.2, SIGKILL);
  scene.sample(0.3, 20 * kMiB);
  scene.ledger(0.3, {tensor(101, 1, 20 * kMiB, CreatorState::kDead)});
  EXPECT_THAT(scene.examine().findings, IsEmpty()) << "the manager may still unlink it";
  scene.exit_by_signal(200, 0.4, SIGKILL);
  scene.ledger(0.5, {tensor(101, 1, 20 * kMiB, CreatorState::kDead)});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kShmStaleFiles));
}

// A worker that ends in the middle of making a segment: PyTorch 2.13, file_descriptor.
TEST(ShmStaleFiles, OwnFilesAfterAFailureAreItsConsequence) {
  Scene scene;
  const ShmSegment half_made = tensor(101, 7, 20 * kMiB, CreatorState::kDead);
  scene.sample(0.1, 62 * kMiB);
  scene.ledger(0.1,
               {unlinked_tensor(101, 1, 20 * kMiB, 101), unlinked_tensor(102, 2, 20 * kMiB, 102),
                unlinked_tensor(102, 3, 20 * kMiB, 102)});
  scene.use(0.25, 64 * kMiB);
  scene.exit_by_signal(101, 0.26, SIGBUS);
  scene.exit_with(102, 0.3, 0);
  scene.exit_with(100, 0.4, 1);
  scene.ledger(0.5, {half_made});
  const Finding stale = must_find(scene.examine(), FindingCode::kShmStaleFiles);
  EXPECT_EQ(stale.consequence_of, FindingCode::kShmExhausted);
  EXPECT_EQ(stale.severity, Severity::kWarning);
  EXPECT_EQ(number(stale, "left_by_this_run"), int64_t{20 * kMiB});
}

// Worker 101 is killed; its two files stay while the trainer lives.
Scene killed_worker(double watched_s) {
  Scene scene;
  scene.sample(0.1, 20 * kMiB);
  scene.exit_by_signal(101, 0.5, SIGKILL);
  for (int tick = 0; tick / 2.0 + 0.1 <= watched_s; ++tick) {
    const double at = 0.6 + tick / 2.0;
    scene.sample(at, 20 * kMiB);
    scene.ledger(at, {tensor(101, 1, 10 * kMiB, CreatorState::kDead),
                      tensor(101, 2, 10 * kMiB, CreatorState::kDead)});
  }
  return scene;
}

TEST(ShmLeak, FilesOfAKilledWorkerWhileTheTrainerLives) {
  const Finding finding = only_finding(killed_worker(6).examine());
  EXPECT_THAT(finding, Is(FindingCode::kShmLeak, Severity::kError, Confidence::kCertain));
  EXPECT_EQ(number(finding, "leaked_bytes"), int64_t{20 * kMiB});
  EXPECT_EQ(text(finding, "dead_creators"), "101");
  EXPECT_THAT(what_remedies_set(finding), testing::ElementsAre("sharing strategy file_descriptor"));
}

TEST(ShmLeak, FilesOfWorkersThatNobodySawAreLikelyOfTheJobInWhoseTimeTheyWereFilled) {
  Scene scene;
  const ShmSegment left = tensor(4711, 1, 20 * kMiB, CreatorState::kDead);
  scene.sample(0.1, 20 * kMiB);
  scene.ledger(0.1, {left});
  scene.sample(3.5, 20 * kMiB);
  scene.ledger(3.5, {left});
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kShmLeak, Confidence::kLikely));
  EXPECT_EQ(finding.severity, Severity::kWarning) << "it may be another job's";
  EXPECT_THAT(finding.processes, IsEmpty());
}

TEST(ShmLeak, IsOneAlsoWhereTheTrainersEndRemovesIt) {
  Scene scene = killed_worker(6);
  scene.ledger(6.8, {});
  scene.exit_with(102, 6.7, 0);
  scene.exit_with(100, 7, 0);
  ASSERT_TRUE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmLeak, IsNoneWhereItIsGoneAndTheTrainerLives) {
  Scene scene = killed_worker(6);
  scene.ledger(6.8, {});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmLeak, ACommandThatWasInterruptedIsNotSaidToBeHealthy) {
  Scene scene;
  scene.sample(0.1, kMiB);
  scene.run().begin.subject = SubjectKind::kCommand;
  scene.run().end = RunEnd{.at = Scene::at(1), .reason = RunEndReason::kInterrupted};
  const Verdict verdict = scene.examine();
  ASSERT_FALSE(verdict.gaps.empty());
  EXPECT_EQ(verdict.gaps.back().why.plain(), "it was interrupted");
}

TEST(ShmLeak, JustAfterTheDeathItMayStillBeCleanedUp) {
  EXPECT_THAT(killed_worker(2).examine().findings, IsEmpty());
}

TEST(ShmLeak, BatchesThatTheTrainerHoldsAreNotLeaked) {
  Scene scene = killed_worker(6);
  for (ShmLedger& ledger : scene.run().ledgers) {
    for (ShmSegment& segment : ledger.segments) {
      segment.holders.push_back(
          {.key = key_of(100), .comm = "python3", .in_tree = true, .fds = 0, .maps = 1});
    }
  }
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmLeak, WhatTheTrainerLetGoJustNowIsNotLeaked) {
  // The trainer took 5 s to wait for workers that had ended, and ends itself now.
  Scene scene = killed_worker(6);
  for (ShmLedger& ledger : scene.run().ledgers) {
    if (&ledger == &scene.run().ledgers.back()) break;
    for (ShmSegment& segment : ledger.segments) {
      segment.holders.push_back(
          {.key = key_of(100), .comm = "python3", .in_tree = true, .fds = 0, .maps = 1});
    }
  }
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(ShmLeak, PrefetchedBatchesOfLiveWorkersAreNotLeaked) {
  Scene scene;
  for (int tick = 0; tick < 12; ++tick) {
    const double at = 0.1 + tick / 2.0;
    scene.sample(at, 20 * kMiB);
    scene.ledger(at, {tensor(101, 1, 20 * kMiB, CreatorState::kAlive)});
  }
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(LeakedSemaphores, OldOnesWithoutAProcessAreAWarning) {
  Scene scene;
  scene.sample(0.1, 8192);
  scene.ledger(0.1, {semaphore(1, 60), semaphore(2, 60)});
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kLeakedSemaphores, Severity::kWarning));
  EXPECT_EQ(number(finding, "leaked_semaphores"), 2);
}

TEST(LeakedSemaphores, OfALiveSpawnJobAreNone) {
  Scene scene;
  scene.sample(0.1, 8192);
  ShmSegment mapped = semaphore(1, 60);
  mapped.holders.push_back(
      {.key = key_of(900), .comm = "x", .in_tree = false, .fds = 0, .maps = 1});
  scene.ledger(0.1, {mapped});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(LeakedSemaphores, FreshOnesMayBelongToAJobThatIsStarting) {
  Scene scene;
  scene.sample(0.1, 8192);
  scene.ledger(0.1, {semaphore(1, 0.5)});
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(LeakedSemaphores, AreNotSaidWhileSomeProcessCannotBeRead) {
  Scene scene;
  scene.sample(0.1, 8192);
  scene.ledger(0.1, {semaphore(1, 60)});
  scene.run().ledgers.back().processes_unreadable = 1;
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

TEST(LeakedSemaphores, AreNotSaidWhereAnotherContainerMayUseThem) {
  Scene scene;
  scene.sample(0.1, 8192);
  scene.ledger(0.1, {semaphore(1, 60)});
  scene.run().ledgers.back().hides_pids = true;
  EXPECT_THAT(scene.examine().findings, IsEmpty());
}

// Blocks of multiprocessing.shared_memory that worker 101 makes and keeps, `rate` MiB in as many
// files a second, for `seconds`.
Scene blocks_that_stay(int rate, int seconds, uint64_t inodes) {
  Scene scene(72 * kMiB);
  for (int second = 0; second < seconds; ++second) {
    const auto files = static_cast<uint64_t>(rate * second);
    std::vector<ShmSegment> blocks;
    for (uint64_t number = 0; number < files; ++number) {
      ShmSegment block = unlinked_tensor(101, number + 1, kMiB, 101);
      block.kind = SegmentKind::kPythonShared;
      block.linked = true;
      blocks.push_back(std::move(block));
    }
    scene.use(second, files * kMiB);
    scene.run().shm_use.back().inodes = inodes;
    scene.run().shm_use.back().inodes_used = inodes == 0 ? 0 : files + 1;
    scene.ledger(second, std::move(blocks));
  }
  return scene;
}

TEST(ShmGrowingFiles, AreTheCauseOfAMountThatTheyFilled) {
  for (const uint64_t inodes : {0, 1000}) {
    Scene scene = blocks_that_stay(6, 13, inodes);
    scene.exit_by_signal(101, 12.1, SIGBUS);
    const Verdict verdict = scene.examine();
    EXPECT_EQ(must_find(verdict, FindingCode::kShmLeak).severity, Severity::kError);
    EXPECT_EQ(find(verdict, FindingCode::kShmExhausted)->consequence_of, FindingCode::kShmLeak);
  }
}

TEST(ShmGrowingFiles, AreToldWhereTheJobEnded) {
  Scene scene = blocks_that_stay(6, 13, 1000);
  scene.exit_with(Scene::kTrainerPid, 12.5, 0);
  scene.run().end = RunEnd{.at = Scene::at(12.6), .reason = RunEndReason::kSubjectEnded};
  const Finding leak = must_find(scene.examine(), FindingCode::kShmLeak);
  EXPECT_EQ(leak.severity, Severity::kWarning);
  EXPECT_THAT(leak, Says("would have been reached in "));
}

// A ledger lists only so many files of a crowded mount.
void list_at_most(Scene& scene, size_t most) {
  for (ShmLedger& ledger : scene.run().ledgers) {
    if (ledger.segments.size() <= most) continue;
    ledger.omitted_segments = ledger.segments.size() - most;
    ledger.omitted_bytes = ledger.omitted_segments * kMiB;
    ledger.segments.resize(most);
  }
}

TEST(ShmGrowingFiles, AreCountedBeyondThoseThatAreListed) {
  Scene scene = blocks_that_stay(6, 13, 1000);
  list_at_most(scene, 10);
  const Finding leak = must_find(scene.examine(), FindingCode::kShmLeak);
  EXPECT_EQ(number(leak, "named_files"), 72);
  EXPECT_EQ(number(leak, "named_bytes"), 72 * static_cast<int64_t>(kMiB));
}

TEST(ShmGrowingFiles, AreNotTheJobsWhereThoseThatAreListedAreAnothers) {
  Scene scene = blocks_that_stay(6, 13, 1000);
  for (ShmLedger& ledger : scene.run().ledgers) {
    for (ShmSegment& segment : ledger.segments) {
      segment.holders.front() = {.key = key_of(7000), .comm = "other"};
      segment.creator_pid.reset();
    }
  }
  list_at_most(scene, 10);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

// A block of multiprocessing.shared_memory that nobody has open.
ShmSegment unheld_block(uint64_t inode) {
  ShmSegment block = foreign_block(inode, kMiB, 900, "");
  block.holders.clear();
  block.modified_ns = tensor(900, inode, kMiB, CreatorState::kAlive).modified_ns;
  return block;
}

// Six more of them each second, beside one block that the job has open.
Scene blocks_that_nobody_holds(int seconds) {
  Scene scene(kGiB);
  for (int second = 0; second < seconds; ++second) {
    ShmSegment own = unheld_block(1);
    own.holders.push_back({.key = key_of(101), .comm = "python3", .in_tree = true, .fds = 1});
    std::vector<ShmSegment> blocks = {own};
    const auto files = 6 * static_cast<uint64_t>(second);
    for (uint64_t number = 0; number < files; ++number)
      blocks.push_back(unheld_block(number + 2));
    scene.use(second, blocks.size() * kMiB);
    scene.run().shm_use.back().inodes = 1000;
    scene.run().shm_use.back().inodes_used = blocks.size();
    scene.ledger(second, std::move(blocks));
  }
  return scene;
}

TEST(ShmGrowingFiles, OfNobodyAreTheJobsWhereItAloneMakesSuch) {
  EXPECT_TRUE(find(blocks_that_nobody_holds(13).examine(), FindingCode::kShmLeak));
}

TEST(ShmGrowingFiles, OfNobodyMayBeAnothersWhereTheJobWasSeenToMakeNoneSuch) {
  Scene scene = blocks_that_nobody_holds(13);
  for (ShmLedger& ledger : scene.run().ledgers)
    ledger.segments.front().kind = SegmentKind::kTorchTensor;
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kShmLeak).message.plain(),
              testing::StartsWith("the job leaks"));
  ShmSegment of_another = unlinked_tensor(7000, 5000, kMiB, 7000);
  of_another.holders = {{.key = key_of(7000), .comm = "python3", .fds = 1}};
  scene.run().ledgers.front().segments.push_back(of_another);
  const Finding leak = must_find(scene.examine(), FindingCode::kShmLeak);
  EXPECT_THAT(leak.message.plain(), testing::StartsWith("this job, or another one, leaks"));
  EXPECT_THAT(leak.processes, IsEmpty());
}

TEST(ShmGrowingFiles, AreNotTheJobsWhereAnothersTrackerKnowsThem) {
  Scene scene = blocks_that_nobody_holds(13);
  for (ShmSegment& segment : scene.run().ledgers.back().segments) {
    if (segment.holders.empty()) segment.holders = {{.key = key_of(7000), .comm = "python3"}};
  }
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmGrowingFiles, OfNobodyMayBeOfAnotherThatMakesSuch) {
  Scene scene = blocks_that_nobody_holds(13);
  scene.run().ledgers.front().segments.push_back(foreign_block(5000, kMiB, 7000, "python3"));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmGrowingFiles, OfNobodyAreNotTheJobsWhereTheyAreOlder) {
  Scene scene = blocks_that_nobody_holds(13);
  for (ShmLedger& ledger : scene.run().ledgers) {
    for (ShmSegment& segment : ledger.segments)
      segment = old(segment, 1e6);
  }
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmGrowingFiles, OfTheJobsTrackerAreFoundBesideAnotherThatMakesSuch) {
  Scene scene = blocks_that_nobody_holds(13);
  for (ShmLedger& ledger : scene.run().ledgers) {
    for (ShmSegment& segment : ledger.segments) {
      if (segment.holders.empty())
        segment.holders = {{.key = key_of(101), .comm = "python3", .in_tree = true}};
    }
    ledger.segments.push_back(foreign_block(5000, kMiB, 7000, "python3"));
  }
  EXPECT_TRUE(find(scene.examine(), FindingCode::kShmLeak));
}

// np.memmap, torch.UntypedStorage.from_file: names of the user's own.
TEST(ShmGrowingFiles, WithNamesOfAUserMayBeTheJobsWhereTheyBeginWithIt) {
  const auto named = [](const std::string& prefix) {
    Scene scene = blocks_that_nobody_holds(13);
    for (ShmLedger& ledger : scene.run().ledgers) {
      std::erase_if(ledger.segments, [](const ShmSegment& each) { return !each.holders.empty(); });
      for (ShmSegment& segment : ledger.segments) {
        segment.kind = SegmentKind::kOther;
        segment.name = prefix + std::to_string(segment.inode);
      }
    }
    return find(scene.examine(), FindingCode::kShmLeak);
  };
  const auto leak = named("features-");
  ASSERT_TRUE(leak);
  EXPECT_THAT(leak->message.plain(), testing::StartsWith("this job, or another one, leaks"));
  EXPECT_THAT(leak->processes, IsEmpty());
  EXPECT_FALSE(named("imagenet/train-")) << "data that is copied there";
}

// One look at a job of 30 s: blocks that nobody holds, five of each second since `from`.
Scene blocks_since(int from) {
  Scene scene(kGiB);
  const RecordingHeader& header = scene.recording.header;
  std::vector<ShmSegment> blocks;
  for (int number = 5 * from; number < 5 * 30; ++number) {
    ShmSegment block = unheld_block(static_cast<uint64_t>(number) + 2);
    block.modified_ns = header.realtime_ns - header.boottime_ns + Scene::at(number / 5.0);
    blocks.push_back(std::move(block));
  }
  scene.use(30, blocks.size() * kMiB);
  scene.ledger(30, std::move(blocks));
  return scene;
}

TEST(ShmGrowingFiles, AreToldByTheirAgeInOneLook) {
  const Finding leak = must_find(blocks_since(4).examine(), FindingCode::kShmLeak);
  EXPECT_THAT(leak.message.plain(), testing::StartsWith("the job leaks named shared memory"));
  EXPECT_THAT(leak, Says("5.0 per second more", "since its start"));
  EXPECT_FALSE(find(blocks_since(14).examine(), FindingCode::kShmLeak))
      << "what comes and goes is young";
}

TEST(ShmGrowingFiles, OfNobodyMayBeAnothersWhereThereWereSuchBefore) {
  Scene scene = blocks_since(4);
  scene.process(200, Role::kResourceTracker);
  auto& blocks = scene.run().ledgers.front().segments;
  blocks.push_back(old(unheld_block(5000), 300));
  EXPECT_THAT(find(scene.examine(), FindingCode::kShmLeak)->message.plain(),
              testing::StartsWith("the job leaks"))
      << "one that a dead job left";
  for (uint64_t number = 0; number < 20; ++number)
    blocks.push_back(old(unheld_block(5001 + number), 2));
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kShmLeak).message.plain(),
              testing::StartsWith("this job, or another one, leaks"));
}

// With no change there is no look at the files, but the mount is asked how full it is.
TEST(ShmGrowingFiles, ThatCameToAnEndLongAgoAreNone) {
  Scene scene = blocks_that_stay(6, 10, 1000);
  const ShmUse last = scene.run().shm_use.back();
  for (int second = 10; second < 20; ++second) {
    scene.use(second, last.used_bytes);
    scene.run().shm_use.back().inodes = last.inodes;
    scene.run().shm_use.back().inodes_used = last.inodes_used;
  }
  scene.ledger(20, scene.run().ledgers.back().segments);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmGrowingFiles, AreFoundWhereTheFilesOfOthersComeAndGo) {
  Scene scene = blocks_that_stay(6, 13, 1000);
  uint64_t number = 0;
  for (ShmUse& use : scene.run().shm_use)
    use.inodes_used += 100 * (number++ % 3);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kShmLeak));
}

// Two blocks that the job has at the first of two looks; then it ends.
Scene blocks_left_at_end(const std::vector<ShmSegment>& before = {}) {
  Scene scene;
  scene.ledger(0, before);
  std::vector<ShmSegment> blocks;
  for (uint64_t number = 0; number < 2; ++number) {
    ShmSegment block = unheld_block(number + 2);
    block.modified_ns =
        scene.recording.header.realtime_ns - scene.recording.header.boottime_ns + Scene::at(0.5);
    blocks.push_back(block);
  }
  std::vector<ShmSegment> held = blocks;
  for (ShmSegment& block : held)
    block.holders.push_back({.key = key_of(101), .in_tree = true, .fds = 1, .maps = 1});
  scene.sample(1, 2 * kMiB);
  scene.ledger(1, held);
  for (const int pid : {101, 102, 100})
    scene.exit_with(pid, 2, 0);
  scene.sample(2.5, 2 * kMiB);
  scene.ledger(2.5, blocks);
  scene.run().end = RunEnd{.at = Scene::at(2.5), .reason = RunEndReason::kSubjectEnded};
  return scene;
}

TEST(ShmLeftAtEnd, BlocksThatTheJobHadStay) {
  const Verdict verdict = blocks_left_at_end().examine();
  const Finding leak = must_find(verdict, FindingCode::kShmLeak);
  EXPECT_EQ(leak.message.plain(),
            "the job ended and left 2 blocks with 2.0 MiB in /dev/shm, which nothing removes");
  EXPECT_EQ(leak.severity, Severity::kWarning);
  EXPECT_FALSE(find(verdict, FindingCode::kShmStaleFiles)) << "told once";
}

TEST(ShmLeftAtEnd, AreAllOfItsTimeThatAreAsLarge) {
  Scene scene = blocks_left_at_end();
  ShmLedger& last = scene.run().ledgers.back();
  for (uint64_t number = 10; number < 20; ++number) {
    ShmSegment block = unheld_block(number);
    block.modified_ns = last.segments.front().modified_ns;
    if (number == 19) block.size_bytes /= 2;
    last.segments.push_back(block);
  }
  const Finding leak = must_find(scene.examine(), FindingCode::kShmLeak);
  EXPECT_EQ(
      leak.message.plain(),
      "the job ended and left 11 blocks with 11.0 MiB in /dev/shm, which nothing removes: its "
      "processes were seen to have 2 of them, the others came while it ran and are as large; 1 "
      "more of that time belong to no process, either");
}

TEST(ShmLeftAtEnd, AreNotThoseThatWereThereBefore) {
  const Scene scene = blocks_left_at_end({unheld_block(2), unheld_block(3)});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmLeftAtEnd, AreNotThoseThatAnotherJobHadToo) {
  Scene scene = blocks_left_at_end();
  for (ShmSegment& block : scene.run().ledgers[1].segments)
    block.holders.push_back({.key = key_of(900), .in_tree = false, .fds = 1, .maps = 1});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmLeftAtEnd, MayStillBeRemovedByATracker) {
  Scene scene = blocks_left_at_end();
  scene.process(200, Role::kResourceTracker);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

TEST(ShmLeftAtEnd, BlocksOfAKilledJobAreNoLeak) {
  Scene scene = blocks_left_at_end();
  for (ProcessExit& end : scene.run().exits)
    end.wait_status = SIGKILL;
  EXPECT_FALSE(find(scene.examine(), FindingCode::kShmLeak));
}

}  // namespace
}  // namespace dlprobe
