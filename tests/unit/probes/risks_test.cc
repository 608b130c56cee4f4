#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "probes/facts/shared_handles.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

constexpr int32_t kRiskTrainer = HangScene::kTrainer;
constexpr int32_t kRiskWorker = 101;
constexpr int32_t kRiskOther = 102;
constexpr const char* kGomp = "/usr/lib/libgomp.so.1";
constexpr const char* kPolars = "/site-packages/polars/polars.abi3.so";
constexpr const char* kOpenCv = "/site-packages/cv2/cv2.abi3.so";

// A job that runs: the trainer and both workers compute.
HangScene running_scene() {
  HangScene scene;
  for (const int32_t pid : {kRiskTrainer, kRiskWorker, kRiskOther}) {
    scene.run(scene.main(pid));
    scene.stack(scene.main(pid), {native("main", "/usr/bin/python3")});
  }
  return scene;
}

void map_library(HangScene& scene, const std::string& file, std::optional<OpenMpPool> pool = {},
                 uint64_t inode = 5) {
  for (const int32_t pid : {kRiskTrainer, kRiskWorker, kRiskOther})
    scene.process(pid).libraries.push_back(
        {.file = file, .device = 8, .inode = inode, .pool = pool});
}

// A thread that the library keeps, older than the workers unless told.
void add_pool_thread(HangScene& scene, int32_t pid, int32_t tid, const std::string& file,
                     uint64_t start_ticks = 1) {
  ThreadSnapshot& thread = scene.add_thread(pid, tid);
  thread.start_ticks = start_ticks;
  scene.stack(thread, {native("futex_wait", "/lib/libc.so.6"), native("work", file),
                       native("start_thread", "/lib/libc.so.6")});
}

TEST(Risks, ATeamThatTheWorkersWouldWaitFor) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 4, .next_team = 4});
  const Verdict verdict = scene.examine();
  const Finding finding = must_find(verdict, FindingCode::kForkUnsafeLibraryLoaded);
  EXPECT_THAT(finding, Is(Severity::kWarning, Confidence::kCertain));
  EXPECT_EQ(finding.processes, (std::vector<ProcessKey>{key_of(kRiskWorker), key_of(kRiskOther)}));
  EXPECT_THAT(finding, Says("libgomp.so.1", "and 1 more"));
  EXPECT_EQ(verdict.findings.size(), 1U);
}

TEST(Risks, APlainLoaderWhoseWorkersUseOneThread) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 4, .next_team = 1});
  add_pool_thread(scene, kRiskTrainer, 150, kGomp);
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, AWorkerWithATeamOfItsOwn) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 2, .next_team = 2});
  add_pool_thread(scene, kRiskWorker, 151, kGomp);
  add_pool_thread(scene, kRiskOther, 152, kGomp);
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, APoolThatWasNeverStartedBeforeTheFork) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 0, .next_team = 4});
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, SpawnedWorkersHaveNoCopies) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 4, .next_team = 4});
  for (const int32_t pid : {kRiskWorker, kRiskOther})
    scene.info(pid).start_method = StartMethod::kSpawn;
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, WhatCouldNotBeReadIsAnInfo) {
  HangScene scene = running_scene();
  map_library(scene, kGomp);
  map_library(scene, kOpenCv, {}, 6);
  add_pool_thread(scene, kRiskTrainer, 150, kGomp);
  add_pool_thread(scene, kRiskTrainer, 151, kOpenCv);
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kForkUnsafeLibraryLoaded, Severity::kInfo));
  EXPECT_THAT(finding, Says("libgomp.so.1, cv2.abi3.so"));
}

TEST(Risks, APoolThatIsNeverStartedAgain) {
  HangScene scene = running_scene();
  map_library(scene, kPolars);
  add_pool_thread(scene, kRiskTrainer, 150, kPolars);
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kForkUnsafeLibraryLoaded),
              Is(Severity::kWarning, Confidence::kLikely));
}

TEST(Risks, ThreadsThatBeganAfterTheForkWereNotLost) {
  HangScene scene = running_scene();
  map_library(scene, kPolars);
  add_pool_thread(scene, kRiskTrainer, 150, kPolars, key_of(kRiskOther).start_ticks + 1);
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, WithoutAllStacksNothingIsSaid) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 4, .next_team = 4});
  for (const int32_t pid : {kRiskWorker, kRiskOther})
    scene.stack(scene.main(pid), {});
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, APoolThatHangsAlreadyIsNotARisk) {
  HangScene scene;
  scene.run(scene.main(kRiskTrainer));
  scene.run(scene.main(kRiskOther));
  scene.stack(scene.main(kRiskOther), {native("main", "/usr/bin/python3")});
  map_library(scene, kGomp, OpenMpPool{.threads = 4, .next_team = 4});
  FutexWait wait = futex(LockKind::kOpenMpBarrier, 0x1000);
  wait.team_size = 4;
  scene.wait_in_futex(scene.main(kRiskWorker), wait);
  scene.stack(scene.main(kRiskWorker),
              {native("GOMP_parallel", kGomp), native("sum", "/usr/lib/libtorch_cpu.so")});
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kForkLostThreadPool));
  EXPECT_FALSE(find(verdict, FindingCode::kForkUnsafeLibraryLoaded));
}

TEST(Risks, TwoRuntimesAreAnInfo) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 0, .next_team = 1});
  map_library(scene, "/site-packages/x.libs/libgomp-a34b3233.so.1.0.0", {}, 6);
  const Finding finding = only_finding(scene.examine());
  EXPECT_THAT(finding, Is(FindingCode::kTwoOpenMpRuntimes, Severity::kInfo));
  EXPECT_EQ(finding.processes.size(), 3U);
}

TEST(Risks, OneRuntimeIsNothing) {
  HangScene scene = running_scene();
  map_library(scene, kGomp, OpenMpPool{.threads = 0, .next_team = 1});
  map_library(scene, kOpenCv, {}, 6);
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Risks, TwoRuntimesThatCrowdEachOther) {
  HangScene scene = running_scene();
  constexpr const char* kIntel = "/opt/lib/libiomp5.so";
  map_library(scene, kGomp, OpenMpPool{.threads = 0, .next_team = 1});
  map_library(scene, kIntel, {}, 6);
  for (const auto& [tid, file] : {std::pair(150, kGomp), {151, kIntel}, {152, kIntel}}) {
    add_pool_thread(scene, kRiskTrainer, tid, file);
    scene.run(scene.thread(kRiskTrainer, tid));
  }
  scene.cpus = 2;
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kTwoOpenMpRuntimes).severity,
            Severity::kWarning);
  scene.cpus = 8;
  EXPECT_EQ(find(scene.examine(), FindingCode::kTwoOpenMpRuntimes)->severity, Severity::kInfo);
}

// The trainer and both workers have one open file description; what each did with its position.
struct Moves {
  uint32_t alone, maybe, of_others;
};
void share_file(HangScene& scene, Moves trainer, Moves worker, Moves other, int32_t description = 1,
                uint32_t moves_of_nobody = 0) {
  for (const auto& [pid, moves] :
       {std::pair(kRiskTrainer, trainer), {kRiskWorker, worker}, {kRiskOther, other}}) {
    scene.process(pid).shared_files.push_back({.fd = 7,
                                               .device = 8,
                                               .inode = 77,
                                               .path = "/data/train.tar",
                                               .position = 512,
                                               .description = description,
                                               .moves_alone = moves.alone,
                                               .moves_maybe = moves.maybe,
                                               .moves_of_others = moves.of_others,
                                               .moves_of_nobody = moves_of_nobody});
  }
}

// Looks beside snapshots: workers of one epoch, then those of the next.
SharedFileLook look_at_file(int32_t worker, Moves trainer, Moves of_worker) {
  SharedFileLook look{.at = kSecond, .processes = {}};
  for (const auto& [pid, moves] : {std::pair(kRiskTrainer, trainer), {worker, of_worker}}) {
    const SharedFile file{.fd = 7,
                          .device = 8,
                          .inode = 77,
                          .path = "/data/train.tar",
                          .description = 1,
                          .moves_alone = moves.alone,
                          .moves_maybe = moves.maybe,
                          .moves_of_others = moves.of_others};
    look.processes.push_back({.key = key_of(pid), .files = {file}});
  }
  return look;
}

TEST(SharedPosition, TwoWorkersMoveIt) {
  HangScene scene = running_scene();
  share_file(scene, {0, 2, 8}, {3, 2, 5}, {4, 1, 5});
  const Finding finding = must_find(scene.examine(), FindingCode::kHandleSharedOverFork);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, (std::vector<ProcessKey>{key_of(kRiskWorker), key_of(kRiskOther)}));
  EXPECT_THAT(finding, Says("train.tar"));
}

// All of it within milliseconds: nobody has looked.
TEST(SharedPosition, AWorkerFailsInReadingWhatItsParentHasOpen) {
  Scene scene;
  StartEvent failed{.kind = StartEventKind::kFailed,
                    .message = "zipfile.BadZipFile: Bad CRC-32",
                    .type = "BadZipFile",
                    .file = "/job/data.py",
                    .line = 8,
                    .ended = Ended::kWorker,
                    .raised_in = "/usr/lib/python3.11/zipfile.py:935 _update_crc",
                    .shared_file = "/data/train.zip"};
  failed.process = key_of(101);
  scene.run().start_events.push_back(failed);
  scene.exit_with(100, 1, 1);
  const auto found = find_shared_handles(scene.run(), "x86_64");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found.front(), Is(FindingCode::kHandleSharedOverFork, Confidence::kPossible));
  scene.run().start_events.back().raised_in = "/job/data.py:8 __getitem__";
  EXPECT_TRUE(find_shared_handles(scene.run(), "x86_64").empty()) << "it was no reading";
}

// Seen as well: what it raised is then of what it read.
TEST(SharedPosition, AWorkerThatFailsAtItComesWithTheReason) {
  Scene scene;
  scene.run().file_looks = {look_at_file(101, {2, 1, 2}, {2, 1, 2}),
                            look_at_file(101, {2, 1, 2}, {2, 1, 2})};
  StartEvent failed{.kind = StartEventKind::kFailed,
                    .message = "ValueError: checksum",
                    .type = "ValueError",
                    .file = "/job/data.py",
                    .line = 8,
                    .function = "__getitem__",
                    .ended = Ended::kWorker,
                    .raised_in = "/job/data.py:8 __getitem__",
                    .shared_file = "/data/train.tar"};
  failed.process = key_of(102);
  scene.run().start_events.push_back(failed);
  EXPECT_EQ(find_shared_handles(scene.run(), "x86_64").front().severity, Severity::kWarning);
  scene.exit_with(100, 1, 1);
  const auto found = find_shared_handles(scene.run(), "x86_64");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_THAT(found.front(), Is(Severity::kError, Confidence::kLikely));
  EXPECT_THAT(found.front(), Says("worker 102 failed with ValueError"));
  scene.run().start_events.back().shared_file = "/data/other.tar";
  EXPECT_EQ(find_shared_handles(scene.run(), "x86_64").front().severity, Severity::kWarning);
}

// What each saw between two of its reads; nobody has looked from outside.
TEST(SharedPosition, WorkersTellThatOthersMoveIt) {
  dlprobe::Run one;
  StartEvent moved{.kind = StartEventKind::kPositionMoved,
                   .count = 3,
                   .shared_file = "/data/train.tar",
                   .loader = 77};
  moved.process = key_of(kRiskWorker);
  one.start_events = {moved, moved};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty()) << "the other may be the trainer";
  moved.process = key_of(kRiskOther);
  one.start_events.push_back(moved);
  const auto findings = find_shared_handles(one, "x86_64");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_THAT(findings[0], Is(Severity::kWarning, Confidence::kLikely));
  EXPECT_EQ(findings[0].processes,
            (std::vector<ProcessKey>{key_of(kRiskWorker), key_of(kRiskOther)}));
  one.start_events.back().loader = 78;
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty()) << "one worker in each epoch";
}

TEST(SharedPosition, WorkersTellThatTheyReadUnderALock) {
  Scene scene;
  scene.run().file_looks = {look_at_file(101, {2, 1, 2}, {2, 1, 2}),
                            look_at_file(101, {2, 1, 2}, {2, 1, 2})};
  EXPECT_EQ(find_shared_handles(scene.run(), "x86_64").size(), 1U);
  StartEvent locked{.kind = StartEventKind::kPositionMoved,
                    .wanted = "lock",
                    .shared_file = "/data/train.tar",
                    .loader = 77};
  locked.process = key_of(kRiskWorker);
  scene.run().start_events = {locked, locked};
  EXPECT_TRUE(find_shared_handles(scene.run(), "x86_64").empty());
}

TEST(SharedPosition, TheTrainerMayHaveMovedItAlone) {
  HangScene scene = running_scene();
  share_file(scene, {6, 4, 0}, {0, 3, 7}, {0, 2, 8});
  EXPECT_TRUE(scene.examine().findings.empty());
}

// The worker read something else, now and then, between the trainer's seek and its read.
TEST(SharedPosition, TheTrainerMovesItBesideReaders) {
  for (const auto& [trainer, worker, other] :
       {std::tuple(Moves{38, 24, 5}, Moves{3, 20, 40}, Moves{2, 20, 41}),
        std::tuple(Moves{8, 25, 8}, Moves{1, 20, 20}, Moves{0, 20, 21})}) {
    HangScene scene = running_scene();
    share_file(scene, trainer, worker, other);
    EXPECT_FALSE(find(scene.examine(), FindingCode::kHandleSharedOverFork));
  }
}

TEST(SharedPosition, SomebodySeeksAndReadsNothing) {
  HangScene scene = running_scene();
  share_file(scene, {0, 2, 8}, {3, 2, 5}, {4, 1, 5}, 1, 3);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kHandleSharedOverFork));
}

// Each seeks, is off the CPU, and reads: many a move is nobody's, yet they never read together.
TEST(SharedPosition, TwoWorkersTakeTurnsBesideMovesOfNobody) {
  HangScene scene = running_scene();
  share_file(scene, {0, 0, 86}, {46, 0, 40}, {40, 0, 46}, 1, 26);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kHandleSharedOverFork));
}

TEST(SharedPosition, WorkersReadSomethingElseWhileAnotherProcessMovesIt) {
  HangScene scene = running_scene();
  share_file(scene, {0, 0, 86}, {26, 20, 40}, {20, 20, 46}, 1, 26);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kHandleSharedOverFork));
}

TEST(SharedPosition, NobodyMovesIt) {
  HangScene scene = running_scene();
  share_file(scene, {}, {}, {});
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(SharedPosition, HandlesOfTheirOwn) {
  HangScene scene = running_scene();
  share_file(scene, {0, 2, 8}, {3, 2, 5}, {4, 1, 5}, 0);
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(SharedPosition, TwoLooksTogetherProveIt) {
  dlprobe::Run one;
  one.file_looks = {look_at_file(kRiskWorker, {2, 1, 2}, {2, 1, 2})};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty());
  one.file_looks.push_back(one.file_looks.front());
  EXPECT_EQ(find_shared_handles(one, "x86_64").size(), 1U);
}

TEST(SharedPosition, OneWorkerInEachEpoch) {
  dlprobe::Run one;
  one.file_looks = {look_at_file(kRiskWorker, {0, 0, 20}, {20, 0, 0}),
                    look_at_file(kRiskOther, {0, 0, 20}, {20, 0, 0})};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty());
}

SharedFileLook look_at_connection(uint32_t worker, uint32_t other, bool at_once) {
  SharedFileLook look{.at = kSecond, .processes = {}};
  for (const auto& [pid, reads] : {std::pair(kRiskWorker, worker), {kRiskOther, other}}) {
    const SharedFile file{
        .fd = 9, .inode = 4711, .port = 5432, .reads = reads, .reads_at_once = at_once};
    look.processes.push_back({.key = key_of(pid), .files = {file}});
  }
  return look;
}

TEST(SharedConnection, TwoReadAtOnce) {
  dlprobe::Run one;
  one.file_looks = {look_at_connection(1, 1, true)};
  const auto findings = find_shared_handles(one, "x86_64");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::kError);
}

TEST(SharedConnection, TwoReadInTurn) {
  dlprobe::Run one;
  one.file_looks = {look_at_connection(2, 2, false)};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty());
  one.file_looks.push_back(one.file_looks.front());
  const auto findings = find_shared_handles(one, "x86_64");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
}

TEST(SharedConnection, OneReads) {
  dlprobe::Run one;
  one.file_looks = {look_at_connection(40, 2, false)};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty());
}

// Over before anybody looks from outside.
TEST(SharedConnection, WorkersTellThatTheyReadFromIt) {
  dlprobe::Run one;
  StartEvent read{.kind = StartEventKind::kConnectionRead,
                  .path = "socket:[4711]",
                  .file = "/job/train.py",
                  .line = 12,
                  .shared_file = "10.0.0.5:5432",
                  .loader = 77};
  read.process = key_of(kRiskWorker);
  one.start_events = {read, read};
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty()) << "the only one";
  read.process = key_of(kRiskOther);
  one.start_events.push_back(read);
  const auto findings = find_shared_handles(one, "x86_64");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, Severity::kWarning);
  EXPECT_NE(findings[0].message.plain().find("port 5432"), std::string::npos);
  EXPECT_NE(findings[0].message.plain().find("train.py:12"), std::string::npos);
  one.start_events.back().loader = 78;
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty()) << "one worker in each epoch";
  one.start_events.back().loader = 77;
  one.start_events.back().path = "socket:[4712]";
  EXPECT_TRUE(find_shared_handles(one, "x86_64").empty()) << "each has its own of a pool";
}

TEST(SharedPosition, TwoInsideReadAtOnce) {
  HangScene scene = running_scene();
  share_file(scene, {}, {}, {});
  for (const int32_t pid : {kRiskWorker, kRiskOther}) {
    ThreadSnapshot& main = scene.main(pid);
    main.state = 'D';
    main.wait = {.tid = pid, .syscall = 0, .args = {7, 0, 0, 0, 0, 0}};
  }
  const Finding finding = must_find(scene.examine(), FindingCode::kHandleSharedOverFork);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.processes, (std::vector<ProcessKey>{key_of(kRiskWorker), key_of(kRiskOther)}));
}

TEST(SharedPosition, TwoInsidePreadAtOnce) {
  HangScene scene = running_scene();
  share_file(scene, {}, {}, {});
  for (const int32_t pid : {kRiskWorker, kRiskOther}) {
    scene.main(pid).state = 'D';
    scene.main(pid).wait = {.tid = pid, .syscall = 17, .args = {7, 0, 0, 0, 0, 0}};
  }
  EXPECT_FALSE(find(scene.examine(), FindingCode::kHandleSharedOverFork));
}

}  // namespace
}  // namespace dlprobe
