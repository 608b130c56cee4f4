// Threads of process groups beside the program's own, and launchers that find one another.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr int32_t kTrainer = HangScene::kTrainer;
constexpr int32_t kWorker = 101;
constexpr auto kOfC10d = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py";
constexpr const char* kTorch = "/usr/lib/torch/lib/libtorch_cpu.so";

// Reads from a connection to a process outside of the tree: it may go on at any time.
ThreadSnapshot& add_server(HangScene& scene, int32_t tid, const char* function,
                           const char* library = kTorch) {
  ThreadSnapshot& server = scene.add_thread(kTrainer, tid);
  scene.wait_in_read(server, 4242);
  scene.has_end(7777, 4242, false, true);
  scene.stack(server, {native("epoll_wait", "/lib/libc.so.6"), native(function, library)});
  return server;
}

// Two threads of the trainer wait for Python's locks.
void take_locks_crosswise(HangScene& scene) {
  FutexWait lock = futex(LockKind::kSemaphore, 0x2000);
  lock.python_type = "_thread.lock";
  scene.wait_in_futex(scene.main(kTrainer), lock);
  scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 16)});
  lock.address = 0x3000;
  ThreadSnapshot& saver = scene.add_thread(kTrainer, 150);
  scene.wait_in_futex(saver, lock);
  scene.stack(saver, {python("save", "/srv/train.py", 7)});
}

TEST(ProcessGroup, ItsThreadsReleaseNoLockOfPython) {
  HangScene scene;
  take_locks_crosswise(scene);
  add_server(scene, 151, "_ZN4gloo9transport3tcp4Loop3runEv");
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("thread 150 of trainer 100 waits for a lock"));
}

TEST(ProcessGroup, ThreadsOfOtherLibrariesMay) {
  HangScene scene;
  take_locks_crosswise(scene);
  add_server(scene, 151, "_ZN4grpc6Server3runEv", "/usr/lib/libgrpc.so.29");
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(ProcessGroup, ItsThreadsWriteIntoNoPipeOfTheProgram) {
  constexpr uint64_t kOwnPipe = 6000;
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), kOwnPipe);
  scene.stack(scene.main(kWorker),
              {python("__getitem__", "/srv/train.py", 7),
               python("_worker_loop", "/usr/lib/python3/dist-packages/torch/worker.py", 302),
               python("run", "/usr/lib/python3.11/multiprocessing/process.py", 108)});
  scene.has_end(kTrainer, kOwnPipe, false, true);
  add_server(scene, 151, "_ZN4c10d6detail20TCPStoreMasterDaemon3runEv");
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kPipeWithoutPeer).severity, Severity::kError);
}

// Two ranks: the trainer, and the one worker as another.
HangScene scene_of_ranks(int others = 0) {
  HangScene scene(1 + others);
  for (const int32_t pid : {kTrainer, kWorker}) {
    scene.info(pid).role = Role::kTrainer;
    scene.info(pid).rank = JobRank{
        .job = "127.0.0.1:29500", .rank = pid - kTrainer, .world_size = 2, .source = "LOCAL_RANK"};
  }
  return scene;
}

void meet(HangScene& scene, int32_t pid, const char* operation, int32_t line) {
  scene.wait_in_futex(scene.main(pid), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(pid),
              {native("_ZN4c10d4Work4waitEv", kTorch), python(operation, kOfC10d, 5),
               python("main", "/srv/train.py", line)});
}

// Lightning's rank 0 starts the others, and was told of no job itself.
TEST(ProcessGroup, ARankThatStartedTheOthersIsOfTheirJob) {
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "barrier", 11);
  meet(scene, kWorker, "all_reduce", 18);
  scene.info(kTrainer).rank->job.clear();
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kCollectiveMismatch).processes.size(), 2U);
}

TEST(ProcessGroup, TheOperationIsNamedByWhatTheProgramCalls) {
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "barrier", 11);
  meet(scene, kWorker, "barrier", 11);
  const std::string torch = "/usr/lib/python3/dist-packages/torch/";
  scene.stack(scene.main(kWorker),
              {native("_ZN4c10d4Work4waitEv", kTorch),
               python("DistributedDataParallel.forward", torch + "nn/parallel/distributed.py", 9),
               python("Module._wrapped_call_impl", torch + "nn/modules/module.py", 9),
               python("evaluate", "/srv/train.py", 18)});
  EXPECT_THAT(must_find(scene.examine(12), FindingCode::kCollectiveMismatch),
              Says("waits in DistributedDataParallel.forward (eval"));
}

TEST(ProcessGroup, WhoHasALockAndWaitsForTheRankThatWantsItClosesACircle) {
  constexpr uint64_t kFile = 77;
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "barrier", 11);
  add_server(scene, 151, "_ZN4gloo9transport3tcp4Loop3runEv");
  scene.wait_in_flock(scene.main(kWorker), kFile);
  scene.stack(scene.main(kWorker), {python("prepare", "/srv/train.py", 3)});
  scene.has_flock(kTrainer, kFile);
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kRankBehind).severity, Severity::kError);
  scene.run(scene.main(kTrainer));
  scene.stack(scene.main(kTrainer), {python("evaluate", "/srv/train.py", 20)});
  EXPECT_FALSE(has_error(scene.examine(12))) << "it goes on";
}

TEST(ProcessGroup, TheProgramThatARankWaitsForIsNamed) {
  constexpr int32_t kProgram = 102;
  constexpr int kWait4 = 61;
  HangScene scene = scene_of_ranks(1);
  meet(scene, kTrainer, "barrier", 11);
  scene.info(kProgram).role = Role::kOther;
  scene.info(kProgram).comm = "aws";
  scene.main(kWorker).wait = {.tid = kWorker, .syscall = kWait4, .args = {kProgram, 0, 0, 0, 0, 0}};
  scene.stack(scene.main(kWorker), {python("upload", "/srv/train.py", 3)});
  EXPECT_THAT(must_find(scene.examine(12), FindingCode::kRankBehind),
              Says("process 102 (aws) to end"));
}

TEST(ProcessGroup, AnExceptionOfTheRankAtItsEndIsWhy) {
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "barrier", 11);
  scene.run(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {native("ompi_mpi_finalize", "/usr/lib/libmpi.so.40")});
  auto finding = find(scene.examine(12), FindingCode::kUnevenData);
  ASSERT_TRUE(finding);
  EXPECT_FALSE(finding->consequence_of);
  EXPECT_THAT(finding->remedies.front().commands.front().plain(), HasSubstr("-m mpi4py"));
  scene.raised(kWorker, Ended::kProcess);
  finding = find(scene.examine(12), FindingCode::kUnevenData);
  EXPECT_EQ(finding->consequence_of, FindingCode::kUncaughtException);
}

TEST(ProcessGroup, AnExceptionThatEndedTheThreadARankWaitsForIsWhy) {
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "barrier", 11);
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kWorker), {python("Prefetcher.__iter__", "/srv/train.py", 9)});
  scene.raised(kWorker, Ended::kThread);
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kRankBehind).consequence_of,
            FindingCode::kUncaughtException);
}

TEST(ProcessGroup, WhatHeldTheRankThatOthersGaveUpWaitingForIsAnError) {
  HangScene scene = scene_of_ranks(1);
  meet(scene, kTrainer, "barrier", 11);
  constexpr int32_t kLoader = 102;
  scene.info(kLoader).ppid = kWorker;
  scene.sleep(scene.main(kLoader));
  scene.stack(scene.main(kLoader), {python("Remote.get", "/srv/train.py", 3)});
  scene.wait_in_read(scene.main(kWorker), HangScene::kResults);
  scene.has_end(kWorker, HangScene::kResults, true, false);
  scene.stack(scene.main(kWorker),
              {python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103),
               python("main", "/srv/train.py", 30)});
  EXPECT_FALSE(has_error(scene.examine(12)));
  scene.gives_up(kTrainer);
  scene.ends_with(1);
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kSlowSample).severity, Severity::kError);
}

// Two ranks, of which one sleeps until the other has waited for as long as it may.
HangScene scene_of_late_rank() {
  HangScene scene = scene_of_ranks();
  meet(scene, kTrainer, "all_reduce", 11);
  scene.sleep(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("save", "/srv/train.py", 30)});
  scene.gives_up(kTrainer);
  scene.ends_with(1);
  return scene;
}

TEST(ProcessGroup, ARankThatOthersGaveUpWaitingForIsWhyTheyFailed) {
  const Finding finding = must_find(scene_of_late_rank().examine(), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), StartsWith("rank 1 (101) sleeps (save, /srv/train.py:30)"));
  EXPECT_THAT(finding.message.plain(), EndsWith("; rank 0 (100) then gave up (RuntimeError)"));
}

TEST(ProcessGroup, WhatARankFailedOfWhileOthersWaitedIsNotThatItWasLate) {
  HangScene scene = scene_of_late_rank();
  scene.raised(kWorker, Ended::kProcess);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(ProcessGroup, AWorkerThatCallsACollectiveIsToldToLeaveItToTheTrainer) {
  HangScene scene;
  FutexWait lock = futex(LockKind::kMutex, 0x1000);
  lock.owner_tid = kTrainer;
  lock.owner_gone = true;
  scene.wait_in_futex(scene.main(kWorker), lock);
  scene.stack(scene.main(kWorker),
              {native("_ZN4c10d4Work4waitEv", kTorch), python("broadcast", kOfC10d, 5),
               python("Shared.__getitem__", "/srv/train.py", 10)});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kForkInheritedLock),
              AdvisesFirst("call broadcast in the trainer"));
}

TEST(ProcessGroup, ALauncherWaitsForThoseOfOtherNodes) {
  HangScene scene(0);
  ThreadSnapshot& launcher = scene.main(kTrainer);
  scene.wait_in_futex(launcher, futex(LockKind::kCondition, 0x7000));
  scene.stack(launcher,
              {native("_ZN4c10d8TCPStore14waitForWorkersEv", kTorch),
               python("StaticTCPRendezvous.next_rendezvous",
                      "/usr/lib/python3/dist-packages/torch/distributed/elastic/rendezvous/"
                      "static_tcp_rendezvous.py",
                      63),
               python("<module>", "/usr/bin/torchrun", 8)});
  const Finding finding = must_find(scene.examine(12), FindingCode::kRankBehind);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("not all that belong to the job have come to it"));
}

}  // namespace
}  // namespace dlprobe
