#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <string>

#include "lib/base/units.h"
#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

constexpr int32_t kTrainer = HangScene::kTrainer;
constexpr int32_t kWorker = 101;
constexpr int32_t kOther = 102;

FutexWait mutex_of(int32_t owner, uint64_t address = 0x1000) {
  FutexWait wait = futex(LockKind::kMutex, address);
  wait.owner_tid = owner;
  return wait;
}

FutexWait python_lock(uint64_t address = 0x2000) {
  FutexWait wait = futex(LockKind::kSemaphore, address);
  wait.python_type = "_thread.lock";
  return wait;
}

FutexWait shared_semaphore(uint64_t inode) {
  FutexWait wait = futex(LockKind::kSharedSemaphore, 0x3000);
  wait.shared = true;
  wait.file = "/dev/shm/sem.mp-x";
  wait.inode = inode;
  return wait;
}

SemLockState sem_lock(uint64_t inode, int count, int32_t holder) {
  return {.inode = inode, .file = "/dev/shm/sem.mp-x", .count = count, .last_tid = holder};
}

// A tree in which the trainer and one worker have something to do.
HangScene busy_scene() {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  scene.run(scene.main(kOther));
  return scene;
}

TEST(Deadlock, MutexOfAThreadOfTheParent) {
  HangScene scene = busy_scene();
  scene.add_thread(kTrainer, 150);
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  const Finding finding = must_find(scene.examine(), FindingCode::kForkInheritedLock);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_THAT(finding, Says("thread 150", "trainer 100"));
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kWorker)});
  EXPECT_FALSE(finding.remedies.empty());
}

// As in a handler of SIGALRM that takes the lock of the code it interrupts, while the timer goes
// on.
TEST(Deadlock, ALockThatItsOwnThreadHasIsACircleThoughSignalsWakeIt) {
  HangScene scene;
  FutexWait lock = python_lock();
  lock.owner_tid = kWorker;
  scene.wait_in_futex(scene.main(kWorker), lock);
  scene.info(kWorker).signals_caught = uint64_t{1} << (SIGALRM - 1);
  scene.wakes(scene.main(kWorker));
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kCertain));
  EXPECT_THAT(finding, AdvisesFirst("handler of a signal"));
  scene.main(kWorker).futex->timed = true;
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, ALockThatItsOwnThreadHasMayBeAHandlers) {
  HangScene scene;
  FutexWait lock = python_lock();
  lock.owner_tid = kWorker;
  scene.wait_in_futex(scene.main(kWorker), lock);
  scene.info(kWorker).signals_caught = 0;
  const auto advice = [&] {
    const auto finding = find(scene.examine(), FindingCode::kLockCycle);
    return finding ? finding->remedies.front().title.plain() : "";
  };
  EXPECT_THAT(advice(), HasSubstr("take it twice"));
  scene.info(kWorker).signals_caught = uint64_t{1} << (SIGALRM - 1);
  EXPECT_THAT(advice(), HasSubstr("handler of a signal"));
}

TEST(Deadlock, MutexOfAThreadThatWorksIsContention) {
  HangScene scene = busy_scene();
  scene.run(scene.add_thread(kWorker, 150));
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, MutexOfAThreadThatSleepsForATimeIsContention) {
  HangScene scene = busy_scene();
  scene.sleep(scene.add_thread(kWorker, 150));
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, MutexWithATimeoutIsNotForEver) {
  HangScene scene = busy_scene();
  FutexWait wait = mutex_of(150);
  wait.timed = true;
  scene.wait_in_futex(scene.main(kWorker), wait);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, MutexWhoseOwnerEndedInASpawnedWorker) {
  HangScene scene = busy_scene();
  scene.info(kWorker).start_method = StartMethod::kSpawn;
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kWaitsForMissingThread));
}

TEST(Deadlock, AWaitThatMovedIsNone) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  EXPECT_TRUE(scene.examine(1).findings.empty());
  EXPECT_FALSE(scene.examine(1).gaps.empty());
}

TEST(Deadlock, OneLookIsEnoughWhereTheKernelSaysSinceWhen) {
  HangScene scene = busy_scene();
  ThreadSnapshot& worker = scene.main(kWorker);
  scene.wait_in_futex(worker, mutex_of(150));
  worker.blocked_since = Scene::at(0) - 3600 * kSecond;
  EXPECT_EQ(must_find(scene.examine(1), FindingCode::kForkInheritedLock).first_seen,
            worker.blocked_since);
}

TEST(Deadlock, WhatTheKernelSaysOfTheLastSecondIsNoProof) {
  HangScene scene = busy_scene();
  ThreadSnapshot& worker = scene.main(kWorker);
  scene.wait_in_futex(worker, mutex_of(150));
  worker.blocked_since = Scene::at(0) - kSecond / 2;
  EXPECT_TRUE(scene.examine(1).findings.empty());
}

TEST(Deadlock, AJobThatCameToItsEndDidNotHang) {
  HangScene scene;
  scene.ends_by_itself();
  EXPECT_TRUE(scene.examine(0).gaps.empty());
}

TEST(Deadlock, AReferenceLoaderThatFailedIsNoneInWhichNothingWasStuck) {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  scene.is_reference_loader();
  EXPECT_TRUE(scene.examine().gaps.empty());
  scene.ends_by_itself();
  EXPECT_EQ(scene.examine().gaps.size(), 1);
}

TEST(Deadlock, SameHangInAllWorkersIsOneFinding) {
  HangScene scene(3);
  scene.run(scene.main(kTrainer));
  for (const int32_t worker : {101, 102, 103})
    scene.wait_in_futex(scene.main(worker), mutex_of(150));
  const Finding finding = only_finding(scene.examine());
  EXPECT_EQ(finding.processes.size(), 3U);
  EXPECT_THAT(finding, Says("the same in 2 other processes or threads"));
}

HangScene team_scene(int pool_threads) {
  HangScene scene = busy_scene();
  const StackFrame in_pool = native("", "/usr/lib/libgomp.so.1");
  FutexWait wait = futex(LockKind::kOpenMpBarrier, 0x4000);
  wait.team_size = 2;
  scene.wait_in_futex(scene.main(kWorker), wait);
  scene.stack(scene.main(kWorker), {in_pool, native("sum", "/usr/lib/libtorch_cpu.so"),
                                    python("load", "/srv/train.py", 12)});
  for (int i = 0; i < pool_threads; ++i) {
    ThreadSnapshot& thread = scene.add_thread(kWorker, 160 + i);
    scene.wait_in_futex(thread, wait);
    scene.stack(thread, {in_pool, in_pool, native("start_thread", "/usr/lib/libc.so.6")});
  }
  return scene;
}

TEST(Deadlock, TeamWithoutItsThreads) {
  const Finding finding = must_find(team_scene(0).examine(), FindingCode::kForkLostThreadPool);
  EXPECT_EQ(number(finding, "team_size"), 2);
  EXPECT_EQ(number(finding, "threads_of_the_team"), 1);
  EXPECT_THAT(text(finding, "your_code"), HasSubstr("/srv/train.py:12"));
}

// The stack of a copy goes on with that of who forked it.
Remedy first_remedy(const std::vector<StackFrame>& starter) {
  const std::string library = "/usr/lib/python3.11/multiprocessing/";
  HangScene scene = team_scene(0);
  std::vector<StackFrame> stack = scene.main(kWorker).stack;
  if (!starter.empty() && starter.front().file.contains("multiprocessing")) {
    stack.push_back(python("run", (library + "process.py").c_str(), 108));
    stack.push_back(python("_launch", (library + "popen_fork.py").c_str(), 71));
    stack.push_back(python("start", (library + "process.py").c_str(), 121));
  }
  std::ranges::copy(starter, std::back_inserter(stack));
  stack.push_back(python("<module>", "/srv/train.py", 30));
  scene.stack(scene.main(kWorker), stack);
  const auto finding = find(scene.examine(), FindingCode::kForkLostThreadPool);
  return finding ? finding->remedies.front() : Remedy{};
}

TEST(Deadlock, TheRemedyIsForWhatForkedTheWorker) {
  const StackFrame pool = python("__init__", "/usr/lib/python3.11/multiprocessing/pool.py", 215);
  const StackFrame mpire = python("_start", "/v/lib/python3.11/site-packages/mpire/pool.py", 2);
  const StackFrame other = python("go", "/v/lib/python3.11/site-packages/other/x.py", 3);
  const StackFrame server =
      python("spawn", "/v/lib/python3.11/site-packages/gunicorn/arbiter.py", 4);
  EXPECT_EQ(first_remedy({pool}).commands.front().plain(),
            "multiprocessing.get_context('forkserver').Pool(...)");
  EXPECT_EQ(first_remedy({pool, mpire}).commands.front().plain(),
            "WorkerPool(..., start_method='forkserver')");
  EXPECT_TRUE(first_remedy({pool, other}).commands.empty()) << "only that library can choose";
  EXPECT_THAT(first_remedy({pool, other}).title.plain(),
              testing::HasSubstr("by forkserver or spawn"));
  EXPECT_TRUE(first_remedy({server}).commands.empty());
  EXPECT_THAT(first_remedy({server}).title.plain(), testing::HasSubstr("--preload"));
  EXPECT_THAT(first_remedy({}).commands.front().plain(), testing::HasSubstr("DataLoader("))
      << "not known";
}

TEST(Deadlock, TeamWhoseThreadsAreThereIsNotLost) {
  EXPECT_FALSE(find(team_scene(1).examine(), FindingCode::kForkLostThreadPool));
}

// A forked worker that waits inside a library whose threads the trainer has.
HangScene library_scene(int threads_in_worker) {
  HangScene scene = busy_scene();
  const StackFrame wait = native("wait", "/venv/polars.abi3.so");
  const StackFrame start = native("thread_start", "/venv/polars.abi3.so");
  const StackFrame cpp_start = native("execute_native_thread_routine", "/usr/lib/libstdc++.so.6");
  const auto pool = [&](int32_t pid, int32_t tid) {
    ThreadSnapshot& thread = scene.add_thread(pid, tid);
    scene.wait_in_futex(thread, futex(LockKind::kUnknown, 0x9100));
    scene.stack(thread, {native("syscall", "/usr/lib/libc.so.6"), wait, start, cpp_start,
                         native("start_thread", "/usr/lib/libc.so.6")});
  };
  pool(kTrainer, 150);
  pool(kTrainer, 151);
  for (int i = 0; i < threads_in_worker; ++i)
    pool(kWorker, 160 + i);
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kUnknown, 0x9000));
  scene.stack(scene.main(kWorker),
              {native("syscall", "/usr/lib/libc.so.6"),
               native("std::condition_variable::wait", "/usr/lib/libstdc++.so.6"), wait,
               python("load", "/srv/train.py", 12)});
  return scene;
}

TEST(Deadlock, LibraryWhoseThreadsForkDidNotCopy) {
  const Finding finding = must_find(library_scene(0).examine(), FindingCode::kForkLostThreadPool);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.discriminator, "polars.abi3.so");
  EXPECT_EQ(number(finding, "threads_of_the_library_in_parent"), 2);
  EXPECT_THAT(finding, Says("trainer 100 has 2"));
  const auto names_polars = [](const Remedy& remedy) {
    return remedy.title.plain().contains("polars");
  };
  EXPECT_TRUE(std::ranges::any_of(finding.remedies, names_polars));
}

TEST(Deadlock, LibraryThatTheForkServerPreloads) {
  HangScene scene = library_scene(0);
  scene.info(kWorker).start_method = StartMethod::kForkserver;
  const Finding finding = must_find(scene.examine(), FindingCode::kForkLostThreadPool);
  EXPECT_THAT(finding, AdvisesFirst("fork server preloads"));
  for (const Remedy& remedy : finding.remedies)
    for (const Message& command : remedy.commands)
      EXPECT_THAT(command.plain(), testing::Not(HasSubstr("'forkserver'")));
}

TEST(Deadlock, LibraryThatStartedItsThreadsAnew) {
  EXPECT_FALSE(find(library_scene(2).examine(), FindingCode::kForkLostThreadPool));
}

// polars keeps what fork lost for lost, and has a thread for something else.
TEST(Deadlock, LibraryThatStartedOneOfItsThreadsAnew) {
  HangScene scene = library_scene(1);
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kForkLostThreadPool),
              Says("not all exist here"));
  scene.run(scene.process(kWorker).threads.back());
  EXPECT_FALSE(find(scene.examine(), FindingCode::kForkLostThreadPool)) << "it may yet wake it";
}

TEST(Deadlock, LibraryThatASpawnedWorkerUses) {
  HangScene scene = library_scene(0);
  scene.info(kWorker).start_method = StartMethod::kSpawn;
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, LibraryThatAsksForItsLostThreadsAgainAndAgain) {
  HangScene scene = library_scene(0);
  ThreadSnapshot& waiter = scene.main(kWorker);
  waiter.futex->timed = true;
  scene.wakes(waiter);
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kForkLostThreadPool));
  const auto& nodes = verdict.wait_graphs.at(0).nodes;
  const auto node = std::ranges::find(nodes, "thread 101/101", &WaitNode::id);
  ASSERT_NE(node, nodes.end());
  EXPECT_EQ(node->activity, Activity::kStuck);
}

TEST(Deadlock, LibraryThatWaitsForItsEventDescriptor) {
  HangScene scene = library_scene(0);
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.main(kWorker).wait.files.front().kind = FileKind::kEventfd;
  EXPECT_TRUE(find(scene.examine(), FindingCode::kForkLostThreadPool));
  scene.main(kWorker).wait.files.front().kind = FileKind::kSocket;
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, LibraryWhoseWaiterAnotherThreadMayWake) {
  HangScene scene = library_scene(0);
  scene.run(scene.add_thread(kWorker, 170));
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kForkLostThreadPool).severity,
            Severity::kWarning);
}

TEST(Deadlock, ThreadsOfPythonAreNoPoolOfItsLibrary) {
  HangScene scene = busy_scene();
  const StackFrame wait = native("PyThread_acquire_lock_timed", "/usr/lib/libpython3.11.so.1.0");
  scene.stack(scene.add_thread(kTrainer, 150),
              {wait, python("run", "/srv/train.py", 3),
               native("pythread_wrapper", "/usr/lib/libpython3.11.so.1.0")});
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kCondition, 0x9000));
  scene.stack(scene.main(kWorker), {wait, python("load", "/srv/train.py", 12)});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kForkLostThreadPool));
}

HangScene spinning_scene(const StackFrame& innermost) {
  HangScene scene = busy_scene();
  ThreadSnapshot& spinner = scene.main(kWorker);
  scene.run(spinner);
  scene.stack(spinner,
              {innermost, native("", "/usr/lib/libgomp.so.1"),
               native("gemm", "/usr/lib/libtorch_cpu.so"), python("load", "/srv/train.py", 12)});
  return scene;
}

TEST(Deadlock, SpinningForALostTeam) {
  const HangScene scene = spinning_scene(native("sched_yield", "/usr/lib/libc.so.6"));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kForkLostThreadPool));
}

TEST(Deadlock, SpinningThatBeganDuringTheWatch) {
  HangScene scene = spinning_scene(native("sched_yield", "/usr/lib/libc.so.6"));
  scene.works_until(scene.main(kWorker), 3);
  const Finding finding = must_find(scene.examine(8), FindingCode::kForkLostThreadPool);
  const auto share = std::ranges::find(finding.evidence, "busy_share", &Evidence::name);
  ASSERT_NE(share, finding.evidence.end());
  EXPECT_GT(std::get<double>(share->value), 0.99) << "since it spins";
  EXPECT_FALSE(has_error(scene.examine(5))) << "the last two looks may have met by chance";
}

TEST(Deadlock, ComputingInAParallelRegionIsNotSpinning) {
  const HangScene scene = spinning_scene(native("kernel", "/usr/lib/libtorch_cpu.so"));
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, ComputingInPythonIsNoCopiedLockBesideAThreadOfItsParent) {
  const StackFrame loop = native("_PyEval_EvalFrameDefault", "/usr/bin/python3.11");
  HangScene scene;
  scene.wait_in_read(scene.main(kTrainer), HangScene::kResults);
  scene.run(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {loop, python("fetch", "/srv/train.py", 116), loop});
  ThreadSnapshot& beside = scene.add_thread(kTrainer, 150);
  scene.sleep(beside);
  scene.stack(beside, {loop, native("thread_run", "/usr/bin/python3.11")});
  const auto finding = find(scene.examine(12), FindingCode::kWorkerBusyNoProgress);
  ASSERT_TRUE(finding);
  EXPECT_THAT(*finding, testing::Not(Says("copied a lock")));
}

TEST(Deadlock, LockWhoseHolderIsDead) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, 0, pid)};
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockHolderDead));
}

// The trainer waits for the end of a worker.
void join_worker(HangScene& scene, int32_t pid) {
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.wait_in_read(trainer, 0);
  trainer.wait = {
      .tid = kTrainer, .syscall = 61, .args = {static_cast<uint64_t>(pid), 0, 0, 0, 0, 0}};
}

// By sem_open, in a library of the program's own.
TEST(Deadlock, SemaphoreOfALibraryThatNobodyIsLeftToPost) {
  for (const bool is_posted : {false, true}) {
    HangScene scene;
    join_worker(scene, kWorker);
    for (const int32_t pid : {kWorker, kOther}) {
      scene.wait_in_futex(scene.main(pid), shared_semaphore(7));
      scene.stack(scene.main(pid),
                  {native("ring_take", "/srv/libring.so"), python("grab", "/srv/camera.py", 6)});
      scene.shares_semaphore(pid, 7);
    }
    if (is_posted) scene.sleep(scene.main(kOther));
    const auto finding = find(scene.examine(), FindingCode::kLockCycle);
    ASSERT_EQ(finding.has_value(), !is_posted);
    if (is_posted) continue;
    EXPECT_THAT(*finding,
                Says("the semaphore /dev/shm/sem.mp-x in libring.so, and nobody is left"));
    EXPECT_THAT(*finding, AdvisesFirst("Give it back also where an error"));
  }
}

// One thread of the server waits for a lock on behalf of its client; the trainer waits for that
// one.
TEST(Deadlock, LockOfAManagerThatNoClientIsLeftToRelease) {
  const std::string folder = "/usr/lib/python3.11/multiprocessing/";
  HangScene scene;
  join_worker(scene, kOther);
  FutexWait once_a_second = python_lock();
  once_a_second.timed = true;
  scene.wait_in_futex(scene.main(kWorker), once_a_second);
  scene.stack(scene.main(kWorker), {python("Server.serve_forever", folder + "managers.py", 177)});
  ThreadSnapshot& server = scene.add_thread(kWorker, 150);
  scene.wait_in_futex(server, python_lock(0x4000));
  scene.stack(server, {python("Server.serve_client", folder + "managers.py", 260)});
  scene.has_socket(kWorker, 7002);
  scene.wait_in_recv(scene.main(kOther), 7001, 7002);
  scene.stack(scene.main(kOther), {python("Connection._recv", folder + "connection.py", 395),
                                   python("claim", "/srv/registry.py", 5)});
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Says("worker 102 (claim, /srv/registry.py:5) waits in "
                            "multiprocessing.Manager (worker 101) for a lock that is taken",
                            "nobody can end that wait"));
  ThreadSnapshot& client = scene.add_thread(kTrainer, 151);
  scene.run(client);
  scene.has_socket(kTrainer, 7003);
  ThreadSnapshot& reader = scene.add_thread(kWorker, 152);
  scene.wait_in_recv(reader, 7004, 7003);
  scene.stack(reader, {python("Server.serve_client", folder + "managers.py", 260)});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle)) << "that client may release it";
}

TEST(Deadlock, EventfdsOfTwoThatWaitForOneAnother) {
  HangScene scene(1);
  for (const auto& [pid, eventfd] : {std::pair(kTrainer, uint64_t{5}), {kWorker, uint64_t{6}}}) {
    scene.wait_in_read(scene.main(pid), eventfd);
    scene.main(pid).wait.files.front().kind = FileKind::kEventfd;
    scene.stack(scene.main(pid), {python("Doorbell.wait", "/srv/evt.py", 5)});
    scene.has_end(pid, eventfd, true, true);
  }
  EXPECT_FALSE(find(scene.examine(12), FindingCode::kConsumerStuck)) << "others may ring";
  scene.has_end(kTrainer, 6, true, true);
  scene.has_end(kWorker, 5, true, true);
  EXPECT_THAT(must_find(scene.examine(12), FindingCode::kConsumerStuck),
              Says("data from an eventfd (descriptor 5), written by worker 101"));
}

// As Queue.get(timeout=0.5) does, in a loop.
HangScene scene_of_a_lock_asked_for_again() {
  HangScene scene = busy_scene();
  FutexWait wait = shared_semaphore(7);
  wait.timed = true;
  scene.wait_in_futex(scene.main(kWorker), wait);
  scene.wakes(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("work", "/srv/train.py", 10)});
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, 0, pid)};
  return scene;
}

TEST(Deadlock, LockWhoseHolderIsDeadIsAskedForAgainAndAgain) {
  HangScene scene = scene_of_a_lock_asked_for_again();
  const Finding finding = must_find(scene.examine(8), FindingCode::kLockHolderDead);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("its holder is dead; it waits with a timeout"));
  EXPECT_FALSE(find(scene.examine(3), FindingCode::kLockHolderDead)) << "too few looks";
}

TEST(Deadlock, LockThatIsFreeOrHasAHolderIsAskedForAgainAndAgain) {
  HangScene scene = scene_of_a_lock_asked_for_again();
  scene.process(kOther).sem_locks = {sem_lock(7, 1, kOther)};
  EXPECT_FALSE(find(scene.examine(8), FindingCode::kLockHolderDead));
  scene.process(kOther).sem_locks = {sem_lock(7, 0, kOther)};
  scene.process(kOther).sem_locks.front().value = 1;
  EXPECT_FALSE(find(scene.examine(8), FindingCode::kLockHolderDead));
  scene = scene_of_a_lock_asked_for_again();
  scene.shares_semaphore(7777, 7);
  EXPECT_FALSE(find(scene.examine(8), FindingCode::kLockHolderDead));
}

TEST(Deadlock, LockThatAProcessOutsideOfTheTreeMayHold) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, 0, pid)};
  scene.shares_semaphore(7777, 7);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, LockWhoseHolderWorks) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 0, kWorker)};
  scene.process(kOther).sem_locks = {sem_lock(7, 1, kOther)};
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, SemaphoreThatOthersReleaseHasNoHolder) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, pid == kTrainer ? -1 : 0, pid)};
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, SemaphoreWhoseStateIsNotKnownIsNoVerdict) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  EXPECT_TRUE(scene.examine().findings.empty());
}

FutexWait shared_mutex_of(int32_t owner, bool gone) {
  FutexWait wait = mutex_of(owner);
  wait.shared = true;
  wait.file = "/dev/shm/queue";
  wait.inode = 77;
  wait.owner_gone = gone;
  return wait;
}

TEST(Deadlock, SharedMutexWhoseOwnerIsDead) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_mutex_of(4242, true));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockHolderDead));
}

TEST(Deadlock, SharedMutexOfAProcessOutsideOfTheTree) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_mutex_of(4242, false));
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, TwoLocksOfTwoProcesses) {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.wait_in_futex(scene.main(kOther), shared_semaphore(8));
  scene.process(kWorker).sem_locks = {sem_lock(7, 0, kOther), sem_lock(8, 1, kWorker)};
  scene.process(kOther).sem_locks = {sem_lock(7, 1, kOther), sem_lock(8, 0, kWorker)};
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_EQ(finding.processes.size(), 2U);
}

TEST(Deadlock, TwoMutexesOfTwoThreads) {
  HangScene scene = busy_scene();
  scene.add_thread(kWorker, 150);
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150, 0x1000));
  scene.wait_in_futex(scene.thread(kWorker, 150), mutex_of(kWorker, 0x1100));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, IdlePoolThatHoldsTheLockOfItsQueueIsNoCircle) {
  // One worker of a pool reads the queue of tasks under its lock, the next waits for that lock.
  HangScene scene;
  scene.sleep(scene.main(kTrainer));
  scene.wait_in_futex(scene.main(kOther), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 1, kWorker)};
  scene.process(kOther).sem_locks = {sem_lock(7, 0, kWorker)};
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, PythonLockOfAForkedWorkerWithoutOtherThreads) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock());
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kPythonLockInherited).confidence,
            Confidence::kLikely);
}

TEST(Deadlock, PythonLockThatWasFreeAtTheForkIsTakenTwice) {
  constexpr auto kAtFork = FindingCode::kPythonLockInherited;
  const auto code_for = [](LockOfParent in_parent, bool has_thread) {
    HangScene scene = busy_scene();
    FutexWait wait = python_lock();
    wait.in_parent = in_parent;
    scene.wait_in_futex(scene.main(kWorker), wait);
    scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 9)});
    ThreadSnapshot& thread = scene.add_thread(kTrainer, 150);
    if (has_thread) scene.stack(thread, {python("flush", "/srv/telemetry.py", 9)});
    const Verdict verdict = scene.examine();
    return must_find(verdict, find(verdict, kAtFork) ? kAtFork : FindingCode::kLockCycle).code;
  };
  EXPECT_EQ(code_for(LockOfParent::kNone, true), FindingCode::kLockCycle);
  EXPECT_EQ(code_for(LockOfParent::kFree, false), FindingCode::kLockCycle);
  EXPECT_EQ(code_for(LockOfParent::kFree, true), kAtFork) << "it may have been released since";
  EXPECT_EQ(code_for(LockOfParent::kTaken, false), kAtFork);
  EXPECT_EQ(code_for(LockOfParent::kUnknown, false), kAtFork);
}

TEST(Deadlock, PythonLockWhoseOwnerWasLeftBehind) {
  HangScene scene = busy_scene();
  FutexWait wait = python_lock();
  wait.python_type = "_thread.RLock";
  wait.owner_gone = true;
  scene.wait_in_futex(scene.main(kWorker), wait);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kPythonLockInherited).confidence,
            Confidence::kCertain);
}

TEST(Deadlock, BufferOfAFileThatAnotherThreadUsedAtTheFork) {
  HangScene scene = busy_scene();
  FutexWait wait = python_lock();
  wait.python_type = "_io.BufferedWriter";
  wait.owner_gone = true;
  scene.wait_in_futex(scene.main(kWorker), wait);
  const Finding finding = must_find(scene.examine(), FindingCode::kPythonLockInherited);
  EXPECT_THAT(finding, Says("waits for a lock of a buffered file that has an owner"));
}

TEST(Deadlock, PythonLockThatAnotherThreadMayRelease) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock());
  scene.wait_in_read(scene.add_thread(kWorker, 150), 4242);  // of a process outside of the tree
  scene.has_end(7777, 4242, false, true);
  EXPECT_FALSE(has_error(scene.examine()));
}

// The thread that multiprocessing.resource_sharer starts with the first tensor that is sent.
void share_descriptors(HangScene& scene, int32_t pid, const std::string& library) {
  ThreadSnapshot& server = scene.add_thread(pid, 160);
  scene.wait_in_read(server, 7000);
  server.wait.syscall = 288;  // accept4
  server.wait.files.front().kind = FileKind::kListeningSocket;
  scene.stack(server,
              {python("socket.accept", "/usr/lib/python3.11/socket.py", 294),
               python("Listener.accept", "/usr/lib/python3.11/multiprocessing/connection.py", 462),
               python("serve", library, 138),
               python("Thread.run", "/usr/lib/python3.11/threading.py", 975)});
}

TEST(Deadlock, PythonLockThatNoServerOfDescriptorsReleases) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock());
  share_descriptors(scene, kWorker, "/usr/lib/python3.11/multiprocessing/resource_sharer.py");
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPythonLockInherited));
}

TEST(Deadlock, PythonLockThatAServerOfTheUsersMayRelease) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock());
  share_descriptors(scene, kWorker, "/srv/resource_sharer.py");
  EXPECT_TRUE(scene.examine().findings.empty());
  HangScene manager = busy_scene();
  manager.wait_in_futex(manager.main(kWorker), python_lock());
  share_descriptors(manager, kWorker, "/usr/lib/python3.11/multiprocessing/managers.py");
  EXPECT_TRUE(manager.examine().findings.empty());
}

TEST(Deadlock, LowLevelLockOfAForkedWorker) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kLowLevelLock, 0x6000));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kForkInheritedLock));
}

TEST(Deadlock, AForkServerHasNoLocksOfTheTrainer) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock(0x2000));
  scene.info(kWorker).start_method = StartMethod::kForkserver;
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
  // What it preloaded started a thread; the trainer stands for the server here.
  scene.stack(scene.main(kTrainer), {python("main", "/usr/lib/python3.11/forkserver.py", 9)});
  scene.stack(scene.add_thread(kTrainer, 150), {python("flush", "/srv/telemetry.py", 9)});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kPythonLockInherited),
              AdvisesFirst("preloads"));
}

TEST(Deadlock, TwoPythonLocksInOneProcess) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), python_lock(0x2000));
  scene.wait_in_futex(scene.add_thread(kWorker, 150), python_lock(0x2100));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, NotifierThatForkDidNotCopy) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kCondition, 0x7000));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle))
      << "the trainer has no thread to lose";
  scene.stack(scene.main(kTrainer),
              {python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103),
               python("main", "/srv/train.py", 12)});
  scene.stack(scene.add_thread(kTrainer, 150), {python("serve", "/srv/train.py", 20)});
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kWaitsForMissingThread).severity,
            Severity::kError);
  scene.thread(kTrainer, 150).start_ticks = 1000;  // later than the worker
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
}

HangScene gil_scene(bool holder_stands) {
  HangScene scene = busy_scene();
  ThreadSnapshot& holder = scene.add_thread(kWorker, 150);
  if (holder_stands) {
    scene.wait_in_read(holder, 4242);
  } else {
    scene.run(holder);
  }
  scene.process(kWorker).gil_holder = 150;
  FutexWait wait = futex(LockKind::kGil, 0x8000);
  wait.timed = true;
  scene.wait_in_futex(scene.main(kWorker), wait);
  return scene;
}

TEST(Deadlock, GilHeldByAThreadThatWaits) {
  EXPECT_TRUE(find(gil_scene(true).examine(), FindingCode::kGilHeldWhileBlocked));
}

TEST(Deadlock, GilHeldByAThreadThatRuns) {
  EXPECT_FALSE(find(gil_scene(false).examine(), FindingCode::kGilHeldWhileBlocked));
}

TEST(Deadlock, PipeThatNobodyElseWrites) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
}

// Seen of a tree that came to its end while it was looked at: no such wait lasts.
TEST(Deadlock, PipeWhoseLastPeerEndedDuringTheLook) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, PipeWhoseReaderWentOnDuringTheLook) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.main(kWorker).consistent = false;
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, PipeOfAProcessOutsideOfTheTree) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(7777, 4242, false, true);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, PipeWhoseEndMayBeInAProcessThatIsHidden) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.hides_processes();
  EXPECT_FALSE(has_error(scene.examine()));
  scene.has_end(kWorker, 4242, true, true);  // made within the tree
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
}

// As a worker under file_descriptor has: multiprocessing's resource_sharer.
HangScene scene_with_sharer() {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  ThreadSnapshot& sharer = scene.add_thread(kWorker, 160);
  scene.wait_in_read(sharer, 7000);
  sharer.wait.files.front().kind = FileKind::kSocket;
  return scene;
}

TEST(Deadlock, PipeThatOnlyThreadsWhoStandStillCouldWrite) {
  const Finding finding = must_find(scene_with_sharer().examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_FALSE(finding.alternatives.empty());
}

TEST(Deadlock, PipeThatAThreadOfTheSameProcessMayWrite) {
  HangScene works = scene_with_sharer();
  works.run(works.thread(kWorker, 160));
  EXPECT_FALSE(has_error(works.examine()));
  HangScene sleeps = scene_with_sharer();
  sleeps.sleep(sleeps.thread(kWorker, 160));
  EXPECT_FALSE(has_error(sleeps.examine()));
  HangScene not_needed = scene_with_sharer();
  not_needed.run(not_needed.main(kTrainer));
  EXPECT_FALSE(has_error(not_needed.examine()));
}

TEST(Deadlock, ATrainerThatPollsForResultsAgainAndAgainSinceSomeTime) {
  HangScene scene = scene_with_sharer();
  scene.polls(scene.main(kTrainer), HangScene::kResults);
  scene.works_until(scene.main(kTrainer), 2);
  EXPECT_TRUE(find(scene.examine(8), FindingCode::kPipeWithoutPeer));
  EXPECT_FALSE(has_error(scene.examine(4))) << "it may have come there by chance";
}

TEST(Deadlock, ATrainerThatPollsInCodeThatIsSpecializedMeanwhile) {
  HangScene scene = scene_with_sharer();
  scene.polls(scene.main(kTrainer), HangScene::kResults);
  scene.stack(scene.main(kTrainer),
              {native("poll", "/lib/libc.so.6"), native("_PyEval_EvalFrame", "/usr/bin/python3.11"),
               python("_try_get_data", "/usr/lib/python3/dist-packages/torch/dataloader.py", 9),
               python("main", "/srv/train.py", 27)});
  EXPECT_TRUE(find(scene.examine(8), FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, ATrainerThatALookMetAwakeBetweenTwoWaits) {
  HangScene scene = scene_with_sharer();
  scene.polls(scene.main(kTrainer), HangScene::kResults);
  scene.is_awake_at(scene.main(kTrainer), 2);
  EXPECT_TRUE(find(scene.examine(5), FindingCode::kPipeWithoutPeer));
  scene.is_awake_at(scene.main(kTrainer), 4);
  EXPECT_FALSE(has_error(scene.examine(5))) << "it may be at work now";
}

TEST(Deadlock, OrphanThatWaitsForWork) {
  HangScene scene = busy_scene();
  scene.info(kWorker).ppid = 1;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kOrphanedWorker));
}

TEST(Deadlock, OrphanAtALockThatOtherOrphansShare) {
  HangScene scene = busy_scene();
  scene.info(kWorker).orphaned = true;
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 0, 4242)};
  scene.shares_semaphore(7777, 7, true);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kOrphanedWorker).severity, Severity::kWarning);
  scene.info(kWorker).orphaned = false;
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, StoppedWorker) {
  HangScene scene;
  scene.main(kWorker).state = 'T';
  EXPECT_TRUE(find(scene.examine(), FindingCode::kWorkerStopped));
}

TEST(Deadlock, AReaderThatIsStoppedIsWhyItsPipeIsFull) {
  constexpr uint64_t kLog = 4242;
  HangScene scene(1);
  scene.wait_in_write(scene.main(kTrainer), kLog);
  scene.has_end(kTrainer, kLog, false, true);
  scene.wait_in_read(scene.main(kWorker), kLog);
  scene.has_end(kWorker, kLog, true, false);
  scene.main(kWorker).state = 'T';
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kWorkerStopped));
  EXPECT_FALSE(find(verdict, FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, JoinOfAProcessThatCannotWriteItsResults) {
  HangScene scene(1);
  ThreadSnapshot& trainer = scene.main(kTrainer);
  trainer.wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  scene.wait_in_write(scene.add_thread(kWorker, 150), HangScene::kResults);
  scene.wait_in_futex(scene.main(kWorker), futex(LockKind::kCondition, 0x7000));
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, EverybodyWaitsForWork) {
  EXPECT_EQ(
      number(must_find(HangScene().examine(), FindingCode::kBatchLostInWorker), "idle_processes"),
      2);
}

// PyTorch's worker, as its stack is from where it waits outwards.
std::vector<StackFrame> stack_of_worker(std::vector<StackFrame> inner) {
  inner.push_back(python("_worker_loop", "/usr/lib/python3/dist-packages/torch/worker.py", 302));
  inner.push_back(python("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108));
  inner.push_back(python("main", "/srv/train.py", 29));
  return inner;
}

const StackFrame kQueueGet =
    python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 113);

TEST(Deadlock, WhereAllWaitThatIsSaidInsteadOfThatNothingIsStuck) {
  HangScene scene;
  scene.sleep(scene.main(kTrainer));
  EXPECT_THAT(scene.examine().all_well.plain(),
              ::testing::StartsWith("nothing moved while dlprobe watched: trainer 100 and both "
                                    "workers wait, the first for the end of a sleep"));
  scene.run(scene.main(kWorker));
  EXPECT_THAT(scene.examine().all_well.plain(), ::testing::StartsWith("nothing is stuck"));
}

TEST(Deadlock, WorkersThatEndedWellBeforeAllItemsCameAreNamed) {
  HangScene scene(0);
  scene.wait_in_read(scene.main(kTrainer), 4242);
  scene.has_end(kTrainer, 4242, true, true);
  scene.stack(scene.main(kTrainer), {kQueueGet, python("take", "/srv/train.py", 4)});
  for (const int32_t worker : {kWorker, kOther}) {
    scene.had_child(worker == kOther ? 50 : kTrainer, worker, 0);  // as after its own end
    scene.info(worker).role = Role::kWorker;
  }
  const Finding finding = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(finding, Says("both its workers have ended with exit code 0"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), "finally: queue.put(None)");
  scene.leaves_at_once(kOther);
  const Finding left = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(left, Says("worker 102 called os._exit at train.py:7"));
  EXPECT_THAT(left.remedies.front().commands.front().plain(), HasSubstr("join_thread()"));
  scene.had_child(kTrainer, 103, SIGKILL);
  scene.info(103).role = Role::kWorker;
  EXPECT_THAT(find(scene.examine(), FindingCode::kPipeWithoutPeer)->message.plain(),
              HasSubstr("all its 3 workers have ended"));
}

TEST(Deadlock, AQueueWhoseReaderIsJoinedLacksItsLastItem) {
  HangScene scene(1);
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.stack(scene.main(kWorker), {kQueueGet, python("write", "/srv/loggers.py", 16)});
  scene.main(kTrainer).wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  const Finding finding = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(finding, Says("; trainer 100 waits for its end"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(),
              "finally: queue.put(None); process.join()");
}

TEST(Deadlock, WhichReaderHoldsTheLockOfAQueueThatNobodyFillsIsChance) {
  constexpr uint64_t kQueue = 4242;
  for (const int32_t holder : {kTrainer, kWorker}) {
    HangScene scene;
    for (const int32_t pid : {kTrainer, kWorker, kOther}) {
      scene.has_end(pid, kQueue, true, true);
      scene.process(pid).sem_locks = {sem_lock(7, pid == holder ? 1 : 0, pid)};
      ThreadSnapshot& reader = scene.main(pid);
      pid == holder ? scene.wait_in_read(reader, kQueue)
                    : scene.wait_in_futex(reader, shared_semaphore(7));
      scene.stack(reader, {kQueueGet, python("take", "/srv/train.py", 4)});
    }
    EXPECT_TRUE(find(scene.examine(), FindingCode::kBatchLostInWorker)) << holder;
  }
}

// A process has started a program, and each waits for what the other writes.
HangScene scene_of_a_filter(int32_t starter = kWorker) {
  HangScene scene;
  scene.info(kOther).ppid = starter;
  scene.info(kOther).role = Role::kOther;
  scene.info(kOther).start_method.reset();
  for (const auto& [reader, writer, pipe] :
       {std::tuple{starter, kOther, 4242}, std::tuple{kOther, starter, 4243}}) {
    scene.wait_in_read(scene.main(reader), pipe);
    scene.has_end(reader, pipe, true, false);
    scene.has_end(writer, pipe, false, true);
  }
  scene.stack(scene.main(kWorker),
              stack_of_worker({python("Data.__getitem__", "/srv/train.py", 10)}));
  return scene;
}

TEST(Deadlock, AWorkerAndItsFilterThatWaitForOneAnother) {
  const Verdict verdict = scene_of_a_filter().examine();
  const Finding finding = must_find(verdict, FindingCode::kLockCycle);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kLikely));
  EXPECT_TRUE(finding.remedies.front().title.plain().starts_with("Flush"));
  EXPECT_FALSE(find(verdict, FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, ATrainerAndItsFilterThatWaitForOneAnother) {
  HangScene scene = scene_of_a_filter(HangScene::kTrainer);
  scene.stack(scene.main(HangScene::kTrainer), {python("main", "/srv/train.py", 10)});
  scene.stack(scene.main(kOther), {native("main", "/usr/bin/sort")});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kLockCycle),
              Is(Severity::kError, Confidence::kLikely));
}

TEST(Deadlock, AFilterThatWorksKeepsNobodyForEver) {
  HangScene scene = scene_of_a_filter();
  scene.run(scene.main(kOther));
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, EndsThatForkCopiedAreNoTalk) {
  HangScene scene = scene_of_a_filter();
  scene.info(kOther).ppid = HangScene::kTrainer;
  scene.info(kOther).role = Role::kWorker;
  scene.info(kOther).start_method = StartMethod::kFork;
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
}

// Worker 102 waits in a sample for an answer, and a server, 101, for a request on the same
// connection.
HangScene scene_of_a_connection() {
  HangScene scene;
  for (const auto& [reader, socket, peer] :
       {std::tuple{kOther, 7001, 7002}, std::tuple{kWorker, 7002, 7001}}) {
    scene.wait_in_recv(scene.main(reader), static_cast<uint64_t>(socket),
                       static_cast<uint64_t>(peer));
    scene.has_socket(reader, static_cast<uint64_t>(socket));
  }
  scene.stack(scene.main(kOther),
              stack_of_worker({python("Data.__getitem__", "/srv/train.py", 10)}));
  scene.stack(scene.main(kWorker), {python("serve", "/srv/rows.py", 20)});
  // It is no producer of the trainer's.
  scene.has_no_end(kWorker, HangScene::kResults);
  return scene;
}

TEST(Deadlock, BothSidesOfAConnectionThatWaitForOneAnother) {
  const Verdict verdict = scene_of_a_connection().examine();
  const Finding finding = must_find(verdict, FindingCode::kLockCycle);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kLikely));
  const std::string message = finding.message.plain();
  EXPECT_TRUE(message.starts_with("worker 102 waits for data from a socket")) << message;
  EXPECT_THAT(message, HasSubstr("(Data.__getitem__, /srv/train.py:10); worker 101"));
  EXPECT_THAT(message, HasSubstr("(serve, /srv/rows.py:20): each side"));
  EXPECT_FALSE(find(verdict, FindingCode::kPipeWithoutPeer));
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

// The trainer's main thread is a client of a server in its process, which asks itself.
TEST(Deadlock, AServerThatAsksItself) {
  HangScene scene;
  scene.wait_in_recv(scene.main(kTrainer), 7001, 7002);
  scene.has_socket(kTrainer, 7002);
  ThreadSnapshot& server = scene.add_thread(kTrainer, 150);
  scene.wait_in_recv(server, 7003, 7004);
  scene.has_socket(kTrainer, 7004);
  for (ThreadSnapshot* each : {&scene.main(kTrainer), &server})
    each->wait.files.front().path = "127.0.0.1:8080";
  scene.stack(server, {python("do_GET", "/srv/features.py", 6)});
  const Finding finding = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(finding, Says("do_GET, /srv/features.py:6"));
  EXPECT_THAT(finding, AdvisesFirst("one request at a time"));
}

TEST(Deadlock, AWorkerThatAsksANameServer) {
  HangScene scene;
  scene.wait_in_recv(scene.main(kWorker), 7001, 0);
  scene.stack(scene.main(kWorker),
              stack_of_worker({native("poll", "/usr/lib/libc.so.6"),
                               native("__res_context_send", "/usr/lib/libc.so.6"),
                               python("Data.__getitem__", "/srv/train.py", 10)}));
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kSlowSample),
              Says("an answer of the name server"));
}

TEST(Deadlock, TwoThatWaitOnDifferentConnectionsAreNoTalk) {
  HangScene scene = scene_of_a_connection();
  scene.wait_in_recv(scene.main(kWorker), 7004, 7003);
  scene.has_socket(kOther, 7003);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, AServerThatWorksAnswersYet) {
  HangScene scene = scene_of_a_connection();
  scene.run(scene.main(kWorker));
  EXPECT_FALSE(has_error(scene.examine()));
}

// One worker has a task, and waits in it for a pipe that all have inherited.
HangScene scene_of_a_pipe_in_a_task() {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.has_end(pid, 4242, true, true);
  scene.stack(scene.main(kWorker),
              stack_of_worker({python("Data.__getitem__", "/srv/train.py", 10)}));
  scene.stack(scene.main(kOther), stack_of_worker({kQueueGet}));
  return scene;
}

TEST(Deadlock, AWorkerThatWaitsForAPipeInATaskHasNotLostIt) {
  const Verdict verdict = scene_of_a_pipe_in_a_task().examine();
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
  const Finding finding = must_find(verdict, FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kLikely));
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kWorker)});
  EXPECT_THAT(finding, Says("pipe 4242, written by trainer 100"));
}

TEST(Deadlock, AQueueOfTheUsersInATaskIsNoQueueOfTasks) {
  HangScene scene = scene_of_a_pipe_in_a_task();
  scene.stack(scene.main(kWorker),
              stack_of_worker({kQueueGet, python("Data.__getitem__", "/srv/train.py", 10)}));
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
  EXPECT_TRUE(find(verdict, FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, APipeInATaskThatSomebodyMayYetWrite) {
  HangScene by_a_thread = scene_of_a_pipe_in_a_task();
  by_a_thread.sleep(by_a_thread.add_thread(kTrainer, 150));
  EXPECT_FALSE(has_error(by_a_thread.examine()));
  HangScene from_outside = scene_of_a_pipe_in_a_task();
  from_outside.has_end(7777, 4242, false, true);
  EXPECT_FALSE(has_error(from_outside.examine()));
  HangScene by_a_signal = scene_of_a_pipe_in_a_task();
  by_a_signal.info(kTrainer).signals_caught = uint64_t{1} << (SIGUSR1 - 1);
  EXPECT_FALSE(has_error(by_a_signal.examine()));
}

TEST(Deadlock, WorkersOfALibraryOrOfTheUsersThatWaitForTasks) {
  HangScene scene;
  scene.stack(scene.main(kWorker), stack_of_worker({kQueueGet}));
  scene.stack(scene.main(kOther),
              {kQueueGet, python("loop", "/srv/train.py", 4),
               python("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108)});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kBatchLostInWorker));
}

TEST(Deadlock, ATrainerThatWaitsForItsOwnEventHasLostNoWork) {
  // A signal handler sets it; the pool is idle meanwhile.
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kTrainer), {python("Event.wait", "/usr/lib/python3.11/threading.py", 622),
                                     python("serve", "/srv/train.py", 12)});
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, AThreadThatWaitsToBeWokenIsIdleWhereNothingIsWrong) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kTrainer), {python("Event.wait", "/usr/lib/python3.11/threading.py", 622),
                                     python("serve", "/srv/train.py", 12)});
  EXPECT_EQ(scene.examine().wait_graphs.at(0).nodes.at(0).activity, Activity::kIdle);
}

TEST(Deadlock, APoolWhoseTaskIsLost) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kTrainer),
              {python("Condition.wait", "/usr/lib/python3.11/threading.py", 320),
               python("MapResult.get", "/usr/lib/python3.11/multiprocessing/pool.py", 765),
               python("main", "/srv/train.py", 12)});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kBatchLostInWorker));
}

TEST(Deadlock, APipeOfItsOwnOfAHelperIsAWordWhileTheTrainerGoesOn) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kPipeWithoutPeer).severity, Severity::kInfo);
}

TEST(Deadlock, APipeOfItsOwnThatAHandlerOfASignalMayWriteIsAWord) {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_TRUE(has_error(scene.examine()));
  scene.info(kWorker).signals_caught = uint64_t{1} << (SIGUSR1 - 1);
  EXPECT_FALSE(has_error(scene.examine()));
  scene.info(kWorker).signals_caught = uint64_t{1} << (SIGINT - 1);
  EXPECT_TRUE(has_error(scene.examine())) << "Python catches it always";
}

TEST(Deadlock, ATaskThatComesByASignalIsNotLost) {
  HangScene scene;
  EXPECT_TRUE(has_error(scene.examine()));
  scene.info(kOther).signals_caught = uint64_t{1} << (SIGUSR1 - 1);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, AStoppedProcessThatNobodyWaitsForIsAWord) {
  HangScene scene = busy_scene();
  scene.main(kWorker).state = 'T';
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kWorkerStopped).severity, Severity::kInfo);
  HangScene needed;
  needed.main(kWorker).state = 'T';
  EXPECT_TRUE(has_error(needed.examine()));
}

TEST(Deadlock, AProcessThatIsStoppedNowAndThenIsNotStopped) {
  HangScene scene;
  scene.main(kWorker).state = 'T';
  scene.wakes(scene.main(kWorker));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kWorkerStopped));
}

TEST(Deadlock, ALockThatAnotherProcessMayReleaseIsNoCircle) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 1, kWorker)};
  scene.process(kOther).sem_locks = {sem_lock(7, 0, kWorker)};
  EXPECT_FALSE(has_error(scene.examine())) << "used as a gate: the other one opens it";
}

TEST(Deadlock, ALockOfADeadHolderThatALivingOneMayReleaseIsAWarning) {
  HangScene scene = busy_scene();
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  for (const int32_t pid : {kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, 0, 4242)};
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kLockHolderDead).severity, Severity::kWarning);
}

TEST(Deadlock, AWorkerAtALockOfTheUsersHasNoTaskThatIsLost) {
  HangScene scene;
  scene.has_end(kTrainer, HangScene::kResults, true, true);
  scene.wait_in_futex(scene.add_thread(kTrainer, 170), futex(LockKind::kCondition, 0x8000));
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, pid == kTrainer ? 1 : 0, kTrainer)};
  for (const int32_t pid : {kWorker, kOther}) {
    scene.wait_in_futex(scene.main(pid), shared_semaphore(7));
    scene.stack(scene.main(pid),
                {python("Lock.__enter__", "/usr/lib/python3.11/multiprocessing/synchronize.py", 95),
                 python("Data.__getitem__", "/srv/train.py", 8)});
  }
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
  EXPECT_TRUE(find(verdict, FindingCode::kLockCycle));
}

// The trainer waits in epoll_wait (232) on a socket pair of its own: asyncio's loop.
HangScene scene_of_event_loop(uint64_t timeout) {
  HangScene scene(1);
  scene.wait_in_recv(scene.main(kTrainer), 7001, 7002);
  scene.main(kTrainer).wait.syscall = 232;
  scene.main(kTrainer).wait.args[3] = timeout;
  scene.has_socket(kTrainer, 7001);
  scene.has_socket(kTrainer, 7002);
  return scene;
}

TEST(Deadlock, AnEventLoopWakesByItsTimeoutByASignalOrByAThread) {
  constexpr uint64_t kNever = 0xFFFFFFFF;
  EXPECT_FALSE(has_error(scene_of_event_loop(20'000).examine()));
  EXPECT_FALSE(has_error(scene_of_event_loop(kNever).examine())) << "a signal may be to come";
  HangScene threads = scene_of_event_loop(kNever);
  threads.sleep(threads.add_thread(kTrainer, 150));
  EXPECT_FALSE(has_error(threads.examine()));
  HangScene select = scene_of_event_loop(0);
  select.main(kTrainer).wait.syscall = 23;
  select.main(kTrainer).wait.args = {8, 1, 0, 0, 1};
  EXPECT_FALSE(has_error(select.examine()));
}

TEST(Deadlock, AnEventLoopWaitsForItsThreadThatWaitsForALostLock) {
  HangScene scene = scene_of_event_loop(0xFFFFFFFF);
  scene.wait_in_read(scene.add_thread(kTrainer, 150), HangScene::kResults);
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 0, 4242)};
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kLockHolderDead));
  EXPECT_FALSE(find(verdict, FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, AWorkerThatWasKilledTookItsTaskWithIt) {
  HangScene scene;
  scene.had_child(kTrainer, 105, SIGKILL);
  const auto message = [&] {
    return must_find(scene.examine(), FindingCode::kBatchLostInWorker).message.plain();
  };
  EXPECT_THAT(message(), testing::Not(testing::HasSubstr("105"))) << "it was no worker";
  scene.info(105).role = Role::kWorker;
  EXPECT_THAT(message(), testing::HasSubstr("was lost: worker 105 was killed by SIGKILL"));
}

// A pool's thread waits for the fork server to say that a worker has ended, and that one for its
// children, or for somebody who asks for a new one.
TEST(Deadlock, AForkServerSavesNobodyByItself) {
  constexpr int32_t kServer = 103;
  constexpr uint64_t kSentinel = 5000;
  HangScene scene(3);
  scene.info(kServer).role = Role::kForkserver;
  scene.wait_in_recv(scene.main(kServer), 7001, 7002);
  scene.main(kServer).wait.syscall = 232;  // epoll_wait
  scene.main(kServer).wait.args[3] = 0xFFFFFFFF;
  scene.has_socket(kServer, 7001);
  scene.has_socket(kServer, 7002);
  scene.has_end(kServer, kSentinel, false, true);
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x5000));
  scene.stack(scene.main(kTrainer),
              {python("MapResult.get", "/usr/lib/python3.11/multiprocessing/pool.py", 768),
               python("main", "/srv/train.py", 8)});
  scene.wait_in_read(scene.add_thread(kTrainer, 150), kSentinel);
  EXPECT_EQ(number(must_find(scene.examine(), FindingCode::kBatchLostInWorker), "idle_processes"),
            2);
  scene.run(scene.main(kWorker));
  EXPECT_FALSE(has_error(scene.examine())) << "it may yet end";
}

// A worker in the middle of a batch, whose coroutines wait for one another.
HangScene worker_in_event_loop(uint64_t timeout) {
  HangScene scene(2);
  ThreadSnapshot& worker = scene.main(kWorker);
  scene.wait_in_recv(worker, 7001, 7002);
  worker.wait.syscall = 232;  // epoll_wait
  worker.wait.args[3] = timeout;
  scene.has_socket(kWorker, 7001);
  scene.has_socket(kWorker, 7002);
  scene.stack(worker,
              {python("EpollSelector.select", "/usr/lib/python3.11/selectors.py", 9),
               python("run", "/usr/lib/python3.11/asyncio/runners.py", 9),
               python("Remote.__getitem__", "/srv/data.py", 13),
               python("_MapDatasetFetcher.fetch",
                      "/usr/lib/python3/dist-packages/torch/utils/data/_utils/fetch.py", 52),
               python("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 9)});
  return scene;
}

TEST(Deadlock, AnEventLoopOfAWorkerThatNothingCanWake) {
  constexpr uint64_t kNever = 0xFFFFFFFF;
  const Finding finding =
      must_find(worker_in_event_loop(kNever).examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("no thread is left in its process"));
  EXPECT_FALSE(has_error(worker_in_event_loop(20'000).examine())) << "a timer";
  HangScene thread = worker_in_event_loop(kNever);
  thread.sleep(thread.add_thread(kWorker, 150));
  EXPECT_FALSE(has_error(thread.examine())) << "another thread";
  HangScene child = worker_in_event_loop(kNever);
  child.info(kOther).ppid = kWorker;
  EXPECT_FALSE(has_error(child.examine())) << "a child";
}

TEST(Deadlock, AnEventLoopIsWhereItsTasksWait) {
  HangScene scene = worker_in_event_loop(0xFFFFFFFF);
  const StackFrame get = python("Queue.get", "/usr/lib/python3.11/asyncio/queues.py", 158);
  const StackFrame join = python("Queue.join", "/usr/lib/python3.11/asyncio/queues.py", 215);
  scene.main(kWorker).tasks = {
      {.stack = {join, python("fetch_all", "/srv/data.py", 28)}, .count = 1, .is_main = true},
      {.stack = {get, python("consume", "/srv/data.py", 17)}, .count = 4}};
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Says("where 4 more tasks wait (consume, /srv/data.py:17), and no thread"));
  EXPECT_EQ(text(finding, "your_code"), "fetch_all (/srv/data.py:28)");
  EXPECT_THAT(finding.remedies.front().commands,
              testing::ElementsAre("try: ... finally: queue.task_done()"));
}

// The loop has a timer, so it never stands; but its main task waits for what the failed one was to
// put.
TEST(Deadlock, AnEventLoopWhoseMainTaskWaitsAtAQueueSinceAnotherFailed) {
  const auto examine = [](bool has_failed, bool is_main) {
    HangScene scene(0);
    ThreadSnapshot& trainer = scene.main(kTrainer);
    scene.wait_in_recv(trainer, 7001, 7002);
    trainer.wait.syscall = 232;
    trainer.wait.args[3] = 1'000;
    scene.wakes(trainer);
    scene.has_socket(kTrainer, 7001);
    scene.has_socket(kTrainer, 7002);
    trainer.tasks = {{.stack = {python("Queue.get", "/usr/lib/python3.11/asyncio/queues.py", 158),
                                python("main", "/srv/data.py", 22)},
                      .is_main = is_main}};
    if (has_failed)
      scene.process(kTrainer).failed_tasks = {
          {.exception = "KeyError", .stack = {python("fetch", "/srv/data.py", 6)}}};
    return find(scene.examine(20), FindingCode::kWaitsForMissingThread);
  };
  const auto found = examine(true, true);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->severity, Severity::kWarning);
  EXPECT_THAT(*found, Says("ended with KeyError (fetch, /srv/data.py:6), which nobody has asked"));
  EXPECT_FALSE(examine(false, true)) << "no task has failed";
  EXPECT_FALSE(examine(true, false))
      << "what the loop runs waits elsewhere: for all of them, maybe";
}

TEST(Deadlock, AnEventLoopThatNobodyWokeThoughItsTaskIsAnswered) {
  for (const uint64_t timeout : {uint64_t{20'000}, uint64_t{0xFFFFFFFF}}) {
    HangScene scene = worker_in_event_loop(timeout);
    scene.main(kWorker).tasks = {{.stack = {python("fetch_all", "/srv/data.py", 28)},
                                  .count = 1,
                                  .is_main = true,
                                  .is_answered = true}};
    const Finding finding = must_find(scene.examine(), FindingCode::kConsumerStuck);
    EXPECT_THAT(finding, Says("is done (fetch_all, /srv/data.py:28): another thread has set it"));
    EXPECT_THAT(finding, AdvisesFirst("thread of its loop"));
    EXPECT_EQ(finding.severity, timeout == 20'000 ? Severity::kWarning : Severity::kError);
    scene.works_until(scene.main(kWorker), 2);
    EXPECT_FALSE(find(scene.examine(), FindingCode::kConsumerStuck)) << "only since the last look";
  }
}

TEST(Deadlock, ATrainersEventLoopWithATimerSleeps) {
  for (const uint64_t timeout : {uint64_t{5'000}, uint64_t{0xFFFFFFFF}}) {
    HangScene scene(0);
    scene.wait_in_recv(scene.main(kTrainer), 7001, 7002);
    scene.main(kTrainer).wait.syscall = 232;
    scene.main(kTrainer).wait.args[3] = timeout;
    scene.has_socket(kTrainer, 7001);
    scene.has_socket(kTrainer, 7002);
    EXPECT_EQ(must_find(scene.examine(32), FindingCode::kConsumerStuck).severity,
              timeout == 5'000 ? Severity::kInfo : Severity::kWarning);
  }
}

TEST(Deadlock, AnEventLoopNamesItsConnection) {
  HangScene scene = worker_in_event_loop(20'000);
  EXPECT_THAT(find(scene.examine(), FindingCode::kSlowSample)->message.plain(),
              testing::Not(HasSubstr("connected to")));
  scene.main(kWorker).wait.files.push_back(
      {.fd = 9, .kind = FileKind::kSocket, .inode = 7010, .path = "10.0.0.5:443"});
  const Finding finding = must_find(scene.examine(), FindingCode::kSlowSample);
  EXPECT_THAT(finding, Says("connected to 10.0.0.5:443"));
  EXPECT_THAT(finding.remedies.front().commands,
              testing::ElementsAre("async with asyncio.timeout(60): await ..."));
}

TEST(Deadlock, WhoReadsTheOutputOfTheTrainerIsNamed) {
  HangScene scene;
  scene.wait_in_write(scene.main(kTrainer), 4242);
  scene.has_end(7777, 4242, true, false);
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kConsumerStuck),
              Says("read by process 7777 (python3), which is none of this job"));
}

// Worker 101 asks a server that is none of its job's processes.
HangScene worker_at_a_server() {
  HangScene scene(1);
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.has_socket(7777, 7002);
  return scene;
}

// As in gRPC: one thread polls the connection, and wakes the one that asked by an eventfd.
TEST(Deadlock, WhoIsWokenByAThreadAtAConnectionIsToldWhich) {
  HangScene scene(1);
  scene.wait_in_recv(scene.main(kWorker), 7000, 0);
  scene.main(kWorker).wait.files.front().kind = FileKind::kEventfd;
  scene.wait_in_recv(scene.add_thread(kWorker, 150), 7001, 7002);
  scene.thread(kWorker, 150).wait.files.front().path = "127.0.0.1:8080";
  scene.has_socket(7777, 7002);
  const Finding finding = must_find(scene.examine(), FindingCode::kSlowSample);
  EXPECT_THAT(finding, testing::AllOf(Says("data from an eventfd"),
                                      Says("connected to 127.0.0.1:8080, written by process "
                                           "7777 (python3), which is none of this job")));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("stub."));
  scene.is_stopped_outside();
  EXPECT_THAT(find(scene.examine(), FindingCode::kSlowSample)->message.plain(),
              HasSubstr("and is stopped"));
}

// Worker 101 asks a program that the job has started.
TEST(Deadlock, AServerOfTheJobIsNamedWithWhatItDoes) {
  HangScene scene;
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.has_socket(kOther, 7002);
  scene.info(kOther).role = Role::kOther;
  scene.info(kOther).comm = "kv";
  scene.sleep(scene.main(kOther));
  scene.stack(scene.main(kOther), {python("reindex", "/srv/kv.py", 5)});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kSlowSample),
              Says("; process 102 (kv) sleeps (reindex, /srv/kv.py:5)"));
}

TEST(Deadlock, AStoppedServerOutsideIsTheCause) {
  HangScene scene = worker_at_a_server();
  EXPECT_FALSE(has_error(scene.examine()));
  scene.is_stopped_outside();
  const Finding finding = must_find(scene.examine(), FindingCode::kWorkerStopped);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kCertain));
  EXPECT_THAT(finding.message.plain(),
              testing::AllOf(testing::StartsWith("process 7777 (python3) is stopped"),
                             HasSubstr("worker 101 waits for data from a socket")));
  EXPECT_EQ(finding.remedies.front().commands.front().plain(), "kill -CONT 7777");
}

TEST(Deadlock, AServerOutsideThatIsLetGoNowAndThenIsSlow) {
  HangScene scene = worker_at_a_server();
  scene.is_let_go_outside();
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, OfTwoServersOutsideTheOneThatRunsMayAnswer) {
  HangScene scene = worker_at_a_server();
  scene.has_socket(7778, 7002);
  scene.is_stopped_outside();
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, AStoppedReaderOfTheTrainersOutputIsTheCause) {
  HangScene scene;
  scene.wait_in_write(scene.main(kTrainer), 4242);
  scene.has_end(7777, 4242, true, false);
  scene.is_stopped_outside();
  EXPECT_TRUE(has_error(scene.examine()));
}

TEST(Deadlock, AStoppedOneOutsideForWhomNoTrainerWaitsDoesNoHarm) {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  scene.wait_in_write(scene.add_thread(kTrainer, 150), 4242);
  scene.has_end(7777, 4242, true, false);
  scene.is_stopped_outside();
  EXPECT_FALSE(find(scene.examine(), FindingCode::kWorkerStopped));
}

// Worker 101 is the process of a Manager; worker 102 waits for its answer in the middle of a task.
TEST(Deadlock, TheServerOfAManagerIsNoSlowWorker) {
  const std::string folder = "/usr/lib/python3.11/multiprocessing/";
  HangScene scene;
  FutexWait once_a_second = python_lock();
  once_a_second.timed = true;
  scene.wait_in_futex(scene.main(kWorker), once_a_second);
  scene.stack(scene.main(kWorker), {python("Event.wait", "/usr/lib/python3.11/threading.py", 629),
                                    python("Server.serve_forever", folder + "managers.py", 177),
                                    python("BaseProcess.run", folder + "process.py", 108),
                                    python("<module>", "/srv/train.py", 21)});
  scene.has_socket(kWorker, 7002);
  scene.wait_in_recv(scene.main(kOther), 7001, 7002);
  scene.stack(scene.main(kOther),
              {python("Connection._recv", folder + "connection.py", 395),
               python("BaseProxy._callmethod", folder + "managers.py", 821),
               python("parse", "/srv/train.py", 7), python("worker", folder + "pool.py", 125),
               python("BaseProcess.run", folder + "process.py", 108)});
  const Verdict verdict = scene.examine();
  const Finding finding = must_find(verdict, FindingCode::kSlowSample);
  EXPECT_THAT(finding.message.plain(),
              testing::AllOf(testing::StartsWith("worker 102 is in the middle"),
                             HasSubstr("the server of multiprocessing.Manager"),
                             testing::Not(HasSubstr("the same in"))));
  EXPECT_THAT(finding.remedies.front().commands, testing::Contains("queue.put(item, timeout=60)"));
}

// The trainer reads the output of a program that has ended, in Lib/subprocess.py.
HangScene scene_of_output() {
  HangScene scene(0);
  scene.wait_in_read(scene.main(kTrainer), 4242);
  scene.has_end(7777, 4242, false, true);
  scene.stack(scene.main(kTrainer),
              {python("Popen._communicate", "/usr/lib/python3.11/subprocess.py", 2021),
               python("setup", "/srv/train.py", 5)});
  return scene;
}

TEST(Deadlock, OutputThatAProgramLeftBehindKeepsOpen) {
  const HangScene scene = scene_of_output();
  const Finding finding = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_EQ(finding.severity, Severity::kInfo) << "it may be at work";
  EXPECT_THAT(finding, Says("process 7777 (python3)"));
  EXPECT_EQ(find(scene.examine(62), FindingCode::kPipeWithoutPeer)->severity, Severity::kWarning);
  HangScene child(1);
  child.wait_in_read(child.main(kTrainer), 4242);
  child.has_end(kWorker, 4242, false, true);
  child.stack(child.main(kTrainer), scene_of_output().main(kTrainer).stack);
  child.run(child.main(kWorker));
  EXPECT_FALSE(find(child.examine(), FindingCode::kPipeWithoutPeer)) << "a child that is at work";
  HangScene other = scene_of_output();
  other.stack(other.main(kTrainer), {python("read", "/srv/train.py", 5)});
  EXPECT_FALSE(find(other.examine(), FindingCode::kPipeWithoutPeer)) << "`PRODUCER | train.py`";
}

TEST(Deadlock, AParentOfVforkWaitsForNoDisk) {
  HangScene scene = busy_scene();
  scene.main(kWorker).state = 'D';
  scene.main(kWorker).wait = {.tid = kWorker, .syscall = 58};
  EXPECT_FALSE(find(scene.examine(), FindingCode::kIoStall));
}

TEST(Deadlock, AWorkerThatWaitsForAStorage) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.main(kWorker).wait.files.front() = {.fd = 5,
                                            .kind = FileKind::kFile,
                                            .inode = 9,
                                            .path = "/data/a.bin",
                                            .storage = "nfs4 server:/data"};
  for (const char state : {'S', 'D'}) {
    scene.main(kWorker).state = state;
    const Finding finding = must_find(scene.examine(), FindingCode::kIoStall);
    EXPECT_THAT(finding.message.plain(), HasSubstr("/data/a.bin (nfs4 server:/data)"));
    EXPECT_EQ(finding.severity, Severity::kWarning);
    EXPECT_EQ(find(scene.examine(12), FindingCode::kIoStall)->severity, Severity::kError);
  }
  scene.wakes(scene.main(kWorker));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kIoStall));
}

TEST(Deadlock, WorkersThatWaitForOneAnotherHaveLostNoWork) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kOther), shared_semaphore(7));
  for (const int32_t pid : {kWorker, kOther})
    scene.process(pid).sem_locks = {sem_lock(7, pid == kWorker ? -1 : 0, pid)};
  EXPECT_FALSE(find(scene.examine(), FindingCode::kBatchLostInWorker));
}

TEST(Deadlock, AFifoWithANameMayBeOpenedByAnybody) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.main(kWorker).wait.files.front().kind = FileKind::kFifo;
  EXPECT_FALSE(has_error(scene.examine()));
}

// Worker 101 waits for an answer of worker 102 on a socket.
HangScene socket_scene() {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.has_socket(kOther, 7002);
  return scene;
}

TEST(Deadlock, ASocketLeadsToWhoHasItsOtherEnd) {
  HangScene scene = socket_scene();
  scene.wait_in_read(scene.main(kTrainer), HangScene::kResults);
  scene.main(kOther).state = 'T';
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kWorkerStopped));
  const auto& edges = verdict.wait_graphs.at(0).edges;
  const auto is_there = [&](const std::string& from, const std::string& to) {
    return std::ranges::any_of(
        edges, [&](const WaitEdge& edge) { return edge.from == from && edge.to == to; });
  };
  EXPECT_TRUE(is_there("thread 101/101", "socket 7001"));
  EXPECT_TRUE(is_there("socket 7001", "thread 102/102"));
}

TEST(Deadlock, ASocketWhosePeerWorksIsNoHang) {
  HangScene scene = socket_scene();
  scene.run(scene.main(kOther));
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, ASocketThatLeadsOutOfTheTreeIsNoHang) {
  HangScene scene = busy_scene();
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.has_socket(7777, 7002);
  EXPECT_FALSE(has_error(scene.examine()));
  scene.wait_in_recv(scene.main(kWorker), 7001, 0);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, ASocketWhoseOtherEndOnlyTheWaiterHas) {
  HangScene scene = busy_scene();
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.has_socket(kWorker, 7002);
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kPipeWithoutPeer), Says("socket 7001"));
}

// A server with a thread that lets clients in, and one that answers.
HangScene server_scene() {
  HangScene scene = socket_scene();
  ThreadSnapshot& accepts = scene.add_thread(kOther, 180);
  accepts.futex.reset();
  accepts.wait = {.tid = 180,
                  .syscall = 288,
                  .args = {3, 0, 0, 0, 0, 0},
                  .files = {{.fd = 3, .kind = FileKind::kListeningSocket, .inode = 7003}}};
  scene.wait_in_futex(scene.add_thread(kOther, 181), mutex_of(190));
  scene.wait_in_futex(scene.main(kOther), futex(LockKind::kCondition, 0x9500));
  return scene;
}

TEST(Deadlock, WhoLetsClientsInDoesNotAnswerThoseThatItHas) {
  const Verdict verdict = server_scene().examine();
  ASSERT_TRUE(find(verdict, FindingCode::kForkInheritedLock));
  const auto& nodes = verdict.wait_graphs.at(0).nodes;
  const auto client = std::ranges::find(nodes, "thread 101/101", &WaitNode::id);
  ASSERT_NE(client, nodes.end());
  EXPECT_EQ(client->activity, Activity::kStuck);
}

TEST(Deadlock, AWaitOnSeveralFilesEndsByAnyOfThem) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.main(kWorker).wait.syscall = 7;
  scene.main(kWorker).wait.files.push_back({.fd = 6, .kind = FileKind::kPipe, .inode = 4243});
  scene.has_end(kOther, 4243, false, true);  // which runs
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, AWaitOnSeveralFilesThatNobodyElseWrites) {
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.main(kWorker).wait.syscall = 7;
  scene.main(kWorker).wait.args = {0x1000, 2, 0xFFFFFFFF, 0, 0, 0};
  scene.main(kWorker).wait.files.push_back({.fd = 6, .kind = FileKind::kPipe, .inode = 4243});
  scene.has_end(kWorker, 4243, true, true);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, SelectWithoutFilesIsASleep) {
  HangScene scene = busy_scene();
  scene.sleep(scene.main(kWorker));
  scene.main(kWorker).wait = {.tid = kWorker, .syscall = 270, .args = {0, 0, 0, 0, 0x7000, 0}};
  const auto activity = [](const HangScene& of) {
    const auto graph = of.examine().wait_graphs.at(0);
    return std::ranges::find(graph.nodes, "thread 101/101", &WaitNode::id)->activity;
  };
  EXPECT_EQ(activity(scene), Activity::kSleeping);
  scene.main(kWorker).wait.args = {0, 0, 0, 0, 0, 0};  // for a signal
  EXPECT_EQ(activity(scene), Activity::kWaiting);
}

TEST(Deadlock, AFifoThatNobodyOpensIsNamed) {
  HangScene scene;
  scene.main(kWorker).wait = {
      .tid = kWorker, .syscall = 257, .files = {{.kind = FileKind::kFifo, .path = "/data/feed"}}};
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(has_error(verdict));
  EXPECT_THAT(must_find(verdict, FindingCode::kPipeWithoutPeer), Says("FIFO /data/feed"));
}

// Each has the other's end to write to, and waits for data.
TEST(Deadlock, ReadersWhoHaveInheritedOneAnothersEndsHaveNoPeer) {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  for (const auto& [pid, pipe] : {std::pair(kWorker, 4242), std::pair(kOther, 4243)}) {
    scene.wait_in_read(scene.main(pid), static_cast<uint64_t>(pipe));
    for (const int32_t each : {kWorker, kOther})
      scene.has_end(each, static_cast<uint64_t>(pipe), each == pid, each != pid);
  }
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kPipeWithoutPeer).confidence,
            Confidence::kLikely);
  scene.has_end(kTrainer, 4242, false, true);
  EXPECT_FALSE(has_error(scene.examine()));
}

TEST(Deadlock, ALockOfAFileHeldByWhoWaitsForItsWaiter) {
  // 101 has the file's lock and waits for data of 102, who wants the lock.
  HangScene scene = busy_scene();
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kOther, 4242, false, true);
  scene.has_flock(kWorker, 600);
  EXPECT_TRUE(scene.examine().findings.empty());  // 102 runs
  HangScene circle;
  circle.run(circle.main(kTrainer));
  circle.wait_in_read(circle.main(kWorker), 4242);
  circle.has_end(kOther, 4242, false, true);
  circle.has_flock(kWorker, 600);
  circle.wait_in_flock(circle.main(kOther), 600);
  EXPECT_TRUE(find(circle.examine(), FindingCode::kLockCycle));
}

// SQLite sleeps between its tries, and for nothing else; other sleeps end by themselves.
TEST(Deadlock, ADatabaseLockedByWhoWaitsForItsWriter) {
  for (const bool is_sqlite : {true, false}) {
    HangScene scene;
    scene.has_end(kWorker, 4242, false, true);
    scene.wait_in_read(scene.main(kTrainer), 4242);
    scene.has_flock(kTrainer, 600);
    ThreadSnapshot& writer = scene.main(kWorker);
    scene.sleep(writer);
    scene.stack(writer, {native("unixSleep", is_sqlite ? "/usr/lib/libsqlite3.so.0.8.6"
                                                       : "/usr/lib/libother.so.1"),
                         python("add", "/srv/train.py", 5)});
    writer.wait.files = {{.fd = 5, .kind = FileKind::kFile, .inode = 600, .path = "/srv/a.db"}};
    const auto finding = find(scene.examine(), FindingCode::kLockCycle);
    ASSERT_EQ(finding.has_value(), is_sqlite);
    if (finding) {
      EXPECT_THAT(*finding, AdvisesFirst("of a database: commit"));
    }
  }
}

TEST(Deadlock, ALockOfAFileOfWhichForkMadeCopies) {
  HangScene scene;
  scene.has_end(kWorker, 4242, false, true);
  scene.wait_in_read(scene.main(kTrainer), 4242);
  scene.has_flock(kTrainer, 600, true);
  scene.has_flock(kWorker, 600);
  scene.wait_in_flock(scene.main(kWorker), 600);
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(number(finding, "threads_in_the_circle"), 2);
  EXPECT_THAT(finding, AdvisesFirst("fcntl.LOCK_UN"));
}

// The trainer waits for worker 101 to end, which waits for a semaphore that all of them share.
HangScene scene_at_semaphore(int workers) {
  HangScene scene(workers);
  scene.main(kTrainer).wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  for (const int32_t pid : {kTrainer, kWorker, kOther})
    if (pid != kOther || workers > 1) {
      scene.process(pid).sem_locks = {sem_lock(7, pid == kTrainer ? 0 : 1, pid)};
      scene.process(pid).sem_locks.front().max_value = 1000;
    }
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.stack(scene.main(kWorker), {python("work", "/srv/train.py", 5)});
  return scene;
}

// The trainer waits for task_done(), worker 101 for the next item.
TEST(Deadlock, ItemsOfAJoinableQueueThatNobodyTellsAreDone) {
  HangScene scene = scene_at_semaphore(1);
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kTrainer, 4242, false, true);
  scene.wait_in_futex(scene.main(kTrainer), shared_semaphore(7));
  scene.stack(scene.main(kTrainer),
              {python("Condition.wait", "/usr/lib/python3.11/multiprocessing/synchronize.py", 261),
               python("JoinableQueue.join", "/usr/lib/python3.11/multiprocessing/queues.py", 330),
               python("main", "/srv/train.py", 13)});
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Says("items of a JoinableQueue"));
  EXPECT_THAT(finding, AdvisesFirst("task_done()"));
}

// The trainer reads its own pipe to the end, which a worker keeps open that waits for an event.
TEST(Deadlock, APipeThatAForkedSiblingKeepsOpen) {
  const std::string file = "/usr/lib/python3.11/multiprocessing/synchronize.py";
  HangScene scene = scene_at_semaphore(1);
  scene.wait_in_read(scene.main(kTrainer), HangScene::kResults);
  for (const int32_t pid : {kTrainer, kWorker}) {
    scene.process(pid).sem_locks = {sem_lock(7, 0, pid)};
    scene.process(pid).sem_locks.front().max_value = 1000;
  }
  scene.stack(scene.main(kWorker),
              {python("Condition.wait", file, 268), python("Event.wait", file, 356),
               python("serve", "/srv/train.py", 11)});
  const auto advice = [&] {
    return must_find(scene.examine(), FindingCode::kLockCycle).remedies.front().commands.front();
  };
  scene.stack(scene.main(kTrainer), {kQueueGet, python("main", "/srv/train.py", 20)});
  EXPECT_THAT(advice().plain(), testing::Not(HasSubstr("os.close"))) << "a queue has no end";
  scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 20)});
  EXPECT_THAT(advice().plain(), HasSubstr("os.close(write_end)"));
}

// Worker 101 is in Event.wait(), worker 102, who would set it, in Condition.wait().
TEST(Deadlock, AnEventWhoseSetterWaitsForANotificationIsNoPark) {
  const std::string file = "/usr/lib/python3.11/multiprocessing/synchronize.py";
  HangScene scene = scene_at_semaphore(2);
  for (const int32_t pid : {kTrainer, kWorker, kOther}) {
    scene.process(pid).sem_locks = {sem_lock(7, 0, pid), sem_lock(8, 0, pid)};
    for (SemLockState& each : scene.process(pid).sem_locks)
      each.max_value = 1000;
  }
  const auto waits_for_event = [&](int32_t pid) {
    scene.stack(scene.main(pid),
                {python("Condition.wait", file, 268), python("Event.wait", file, 356),
                 python("produce", "/srv/train.py", 16)});
  };
  waits_for_event(kWorker);
  scene.wait_in_futex(scene.main(kOther), shared_semaphore(8));
  scene.stack(scene.main(kOther),
              {python("Condition.wait", file, 268), python("consume", "/srv/train.py", 24)});
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), testing::StartsWith("worker 102 waits"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("wait_for"));
  waits_for_event(kOther);
  EXPECT_EQ(find(scene.examine(), FindingCode::kLockCycle)->severity, Severity::kInfo) << "parked";
}

TEST(Deadlock, ASemaphoreThatNobodyIsLeftToRelease) {
  HangScene scene = scene_at_semaphore(2);
  scene.wait_in_futex(scene.main(kOther), shared_semaphore(7));
  scene.stack(scene.main(kOther), {python("work", "/srv/train.py", 5)});
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kLikely));
  EXPECT_THAT(finding, Says("worker 101, worker 102 acquired it"));
  scene.info(kTrainer).signals_caught = uint64_t{1} << 14U;  // SIGTERM
  EXPECT_EQ(find(scene.examine(), FindingCode::kLockCycle)->severity, Severity::kWarning);
  scene.shares_semaphore(7777, 7);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle));
}

// Every worker that has sent a tensor has such a thread.
TEST(Deadlock, ASemaphoreThatNoServerOfDescriptorsReleases) {
  HangScene scene = scene_at_semaphore(1);
  share_descriptors(scene, kWorker, "/usr/lib/python3.11/multiprocessing/resource_sharer.py");
  EXPECT_TRUE(find(scene.examine(), FindingCode::kLockCycle));
  HangScene of_user = scene_at_semaphore(1);
  share_descriptors(of_user, kWorker, "/srv/resource_sharer.py");
  EXPECT_FALSE(find(of_user.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, ASemaphoreThatSomebodyMayYetRelease) {
  HangScene works = scene_at_semaphore(2);
  works.run(works.main(kOther));
  EXPECT_FALSE(find(works.examine(), FindingCode::kLockCycle));
  HangScene sleeps = scene_at_semaphore(2);
  sleeps.sleep(sleeps.main(kOther));
  EXPECT_FALSE(find(sleeps.examine(), FindingCode::kLockCycle));
  HangScene timed = scene_at_semaphore(1);
  timed.main(kWorker).futex->timed = true;
  EXPECT_FALSE(find(timed.examine(), FindingCode::kLockCycle));
  HangScene not_needed = scene_at_semaphore(1);
  not_needed.sleep(not_needed.main(kTrainer));
  EXPECT_FALSE(find(not_needed.examine(), FindingCode::kLockCycle));
}

TEST(Deadlock, AnEventThatNobodyIsLeftToSetMayWaitForCtrlC) {
  HangScene scene = scene_at_semaphore(1);
  const std::string file = "/usr/lib/python3.11/multiprocessing/synchronize.py";
  scene.stack(scene.main(kWorker),
              {python("Condition.wait", file, 268), python("Event.wait", file, 349),
               python("work", "/srv/train.py", 5)});
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kLockCycle).severity, Severity::kInfo);
}

TEST(Deadlock, AFullQueueThatNobodyReads) {
  HangScene scene = scene_at_semaphore(1);
  scene.stack(scene.main(kWorker),
              {python("Queue.put", "/usr/lib/python3.11/multiprocessing/queues.py", 89),
               python("produce", "/srv/train.py", 5)});
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kLockCycle), Says("room in a full"));
}

TEST(Deadlock, AModuleOfTheUsersWithTheNameOfMultiprocessingsIsNoFullQueue) {
  for (const char* file : {"/srv/queues.py", "/srv/multiprocessing/queues.py"}) {
    HangScene scene = scene_at_semaphore(1);
    scene.stack(scene.main(kWorker),
                {python("Queue.put", file, 89), python("produce", "/srv/train.py", 5)});
    for (const Finding& finding : scene.examine().findings)
      EXPECT_THAT(finding, testing::Not(Says("room in a full")));
  }
}

// The trainer waits for the end of worker 101, which waits for data that the trainer would send.
HangScene scene_of_join() {
  HangScene scene(1);
  scene.main(kTrainer).wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kTrainer, 4242, false, true);
  return scene;
}

TEST(Deadlock, AChildThatIsWaitedForBeforeItIsToldToEnd) {
  HangScene scene = scene_of_join();
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.remedies.front().commands.front().plain(), "process.communicate()");
  scene.info(kTrainer).signals_caught = uint64_t{1} << 14U;  // SIGTERM
  EXPECT_EQ(find(scene.examine(), FindingCode::kLockCycle)->severity, Severity::kWarning);
}

// The trainer has closed its end of the child's input; a worker that it forked has a copy.
TEST(Deadlock, AChildWhoseInputForkedWorkersKeepOpen) {
  HangScene scene;
  scene.main(kTrainer).wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.info(kWorker).role = Role::kOther;
  scene.info(kWorker).start_method.reset();
  scene.has_end(kOther, 4242, false, true);
  const Finding finding = must_find(scene.examine(), FindingCode::kPipeWithoutPeer);
  EXPECT_THAT(finding.message.plain(), testing::HasSubstr("a copy of the pipe"));
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.remedies.front().commands.front().plain(),
              testing::HasSubstr("process.stdin.close()"));
  scene.has_end(kTrainer, 4242, false, true);
  EXPECT_EQ(
      find(scene.examine(), FindingCode::kLockCycle)->remedies.front().commands.front().plain(),
      "process.communicate()");
}

// The same, and the trainer waits for what the child writes, which is a forked copy itself.
TEST(Deadlock, AReaderWhoseInputForkedWorkersKeepOpen) {
  HangScene scene;
  scene.wait_in_read(scene.main(kTrainer), 4243);
  scene.has_end(kWorker, 4243, false, true);
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kOther, 4242, false, true);
  EXPECT_FALSE(find(scene.examine(), FindingCode::kPipeWithoutPeer)) << "it may be the writer";
  scene.stack(scene.main(kOther),
              {python("_worker_loop", "/usr/lib/python3/dist-packages/torch/worker.py", 200),
               python("BaseProcess.run", "/usr/lib/python3.11/multiprocessing/process.py", 108),
               python("main", "/srv/train.py", 9)});
  const Verdict verdict = scene.examine();
  EXPECT_THAT(must_find(verdict, FindingCode::kPipeWithoutPeer).message.plain(),
              testing::HasSubstr("its input never ends"));
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kPipeWithoutPeer);
  scene.run(scene.main(kOther));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kPipeWithoutPeer)) << "it may yet write";
}

TEST(Deadlock, AChildThatIsWaitedForAndThatAThreadMayTellToEnd) {
  HangScene scene = scene_of_join();
  scene.sleep(scene.add_thread(kTrainer, 150));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle));
}

// The child that is waited for wants the lock of the queue that its sibling reads.
HangScene scene_of_join_of_the_second() {
  HangScene scene;
  scene.main(kTrainer).wait = {.tid = kTrainer, .syscall = 61, .args = {kWorker, 0, 0, 0, 0, 0}};
  scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
  scene.process(kWorker).sem_locks = {sem_lock(7, 0, kOther)};
  scene.process(kOther).sem_locks = {sem_lock(7, 1, kOther)};
  for (const int32_t pid : {kWorker, kOther}) {
    scene.stack(scene.main(pid),
                {python("Queue.get", "/usr/lib/python3.11/multiprocessing/queues.py", 103),
                 python("loop", "/srv/train.py", 4)});
  }
  return scene;
}

TEST(Deadlock, AChildThatIsWaitedForAndWaitsForTheReaderOfItsQueue) {
  const Finding finding =
      must_find(scene_of_join_of_the_second().examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.processes.size(), 3U);
  EXPECT_THAT(finding, Says("held by worker 102, which waits for data"));
}

TEST(Deadlock, AChildThatIsWaitedForAndWhoseSiblingMayYetGetItsTask) {
  HangScene by_a_thread = scene_of_join_of_the_second();
  by_a_thread.sleep(by_a_thread.add_thread(kTrainer, 150));
  EXPECT_FALSE(find(by_a_thread.examine(), FindingCode::kLockCycle));
  HangScene from_outside = scene_of_join_of_the_second();
  from_outside.has_end(7777, HangScene::kResults + kOther, false, true);
  EXPECT_FALSE(find(from_outside.examine(), FindingCode::kLockCycle));
}

// PyTorch's worker, whose trainer is not there.
HangScene orphan_scene() {
  HangScene scene(1);
  scene.info(kWorker).ppid = 1;
  scene.info(kWorker).orphaned = true;
  scene.info(kTrainer).role = Role::kOther;
  scene.stack(scene.main(kWorker), {python("Data.__getitem__", "/srv/train.py", 7)});
  return scene;
}

TEST(Deadlock, AnOrphanInTheMiddleOfABatch) {
  HangScene scene = orphan_scene();
  scene.wait_in_recv(scene.main(kWorker), 7001, 0);
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kOrphanedWorker).severity, Severity::kWarning);
  scene.run(scene.main(kWorker));
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kOrphanedWorker).severity, Severity::kInfo);
  scene.info(kWorker).role = Role::kOther;  // a daemon, for all that is known
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, AnOrphanUnderAnotherReaper) {
  HangScene scene = busy_scene();
  scene.info(kWorker).ppid = 40;
  scene.info(kWorker).orphaned = true;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kOrphanedWorker));
}

TEST(Deadlock, AWorkerThatWorksIsAtMostSlow) {
  HangScene scene;
  scene.run(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("load", "/srv/train.py", 12)});
  const Verdict verdict = scene.examine();
  EXPECT_FALSE(has_error(verdict));
  EXPECT_TRUE(find(verdict, FindingCode::kWorkerBusyNoProgress));
}

// The trainer waits for a batch of a worker that is asleep at each look.
HangScene scene_of_sleepers() {
  HangScene scene;
  scene.wait_in_read(scene.main(kTrainer), HangScene::kResults);
  scene.sleep(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("load", "/srv/train.py", 12)});
  return scene;
}

// Worker 101 sleeps between two tries for the lock that 102 has.
TEST(Deadlock, WhoSleepsWithALockComesBeforeWhoAsksForItBetweenSleeps) {
  HangScene scene = scene_of_sleepers();
  scene.has_flock(kOther, 600);
  ThreadWait& wait = scene.main(kWorker).wait;
  wait.files = {{.fd = 5, .kind = FileKind::kFile, .inode = 600, .path = "/srv/features.db"}};
  EXPECT_THAT(find(scene.examine(12), FindingCode::kSlowSample)->message.plain(),
              HasSubstr("worker 101 is in the middle of a batch and waits for the end of "
                        "a sleep, maybe for a lock of the file /srv/features.db held by "
                        "worker 102"));
  scene.sleep(scene.main(kOther));
  scene.main(kOther).wait.files = wait.files;
  scene.stack(scene.main(kOther), {python("load", "/srv/train.py", 14)});
  EXPECT_THAT(find(scene.examine(12), FindingCode::kSlowSample)->message.plain(),
              testing::StartsWith("worker 102 is in the middle of a batch and waits for the end of "
                                  "a sleep (load"));
}

TEST(Deadlock, AWorkerAtAServerIsToldWhich) {
  HangScene scene;
  ThreadSnapshot& worker = scene.main(kWorker);
  scene.wait_in_recv(worker, 7001, 0);
  worker.wait.files.front().path = "10.0.0.5:443";
  scene.stack(worker, {python("fetch", "/srv/data.py", 14)});
  const Finding answered = must_find(scene.examine(12), FindingCode::kSlowSample);
  EXPECT_THAT(answered, Says(", connected to 10.0.0.5:443)"));
  EXPECT_THAT(answered, AdvisesFirst("whether 10.0.0.5:443 answers"));
  worker.wait.files.front().kind = FileKind::kConnectingSocket;
  const Finding unanswered = must_find(scene.examine(12), FindingCode::kSlowSample);
  EXPECT_THAT(unanswered, Says("waits for an answer of 10.0.0.5:443"));
  EXPECT_THAT(unanswered, AdvisesFirst("whether 10.0.0.5:443 answers"));
}

TEST(Deadlock, AWorkerThatHandsOnBatchesIsSlowAndDoesNotStand) {
  HangScene scene = scene_of_sleepers();
  scene.wakes(scene.main(kWorker));
  scene.reads_until(kWorker, 12);
  scene.reads_until(kTrainer, 12);
  const Verdict verdict = scene.examine(12);
  const Finding finding = must_find(verdict, FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("is slow, not stuck"));
  EXPECT_EQ(text(finding, "stood_still_for"), "");
  EXPECT_THAT(verdict.all_well.plain(), testing::Not(HasSubstr("moved")));
}

TEST(Deadlock, AWorkerThatHandedOnNoBatchForLongStands) {
  for (const bool wakes : {true, false}) {
    HangScene scene = scene_of_sleepers();
    if (wakes) scene.wakes(scene.main(kWorker));
    scene.reads_until(kWorker, 5);
    scene.reads_until(kTrainer, 5);
    const Finding finding = must_find(scene.examine(40), FindingCode::kSlowSample);
    EXPECT_EQ(finding.severity, Severity::kWarning);
    EXPECT_THAT(finding, testing::Not(Says("not stuck")));
  }
}

TEST(Deadlock, AWorkerThatReadsForNobodyHandsOnNothing) {
  HangScene scene = scene_of_sleepers();
  scene.wakes(scene.main(kWorker));
  scene.reads_until(kWorker, 12);
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kSlowSample).severity, Severity::kWarning);
}

TEST(Deadlock, ATrainersOwnSleepEndsByItself) {
  HangScene scene;
  scene.sleep(scene.main(kTrainer));
  scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 7)});
  EXPECT_EQ(must_find(scene.examine(40), FindingCode::kConsumerStuck).severity, Severity::kInfo);
}

TEST(Deadlock, ATrainerThatSleepsAgainAndAgainIsAWarningAfterAMinute) {
  for (const auto& [looks, severity] : {std::pair(40, Severity::kInfo), {62, Severity::kWarning}}) {
    HangScene scene;
    scene.sleep(scene.main(kTrainer));
    scene.wakes(scene.main(kTrainer));
    EXPECT_EQ(must_find(scene.examine(looks), FindingCode::kConsumerStuck).severity, severity);
  }
}

// It sleeps in each step, and takes a batch now and then.
TEST(Deadlock, ATrainerThatSleepsBetweenBatchesGoesOn) {
  HangScene scene;
  scene.sleep(scene.main(kTrainer));
  scene.wakes(scene.main(kTrainer));
  scene.reads_until(kTrainer, 30);
  EXPECT_FALSE(find(scene.examine(40), FindingCode::kConsumerStuck));
}

TEST(Deadlock, ALockTakenTwiceIsAWarningOnceNothingHasGoneOnForAMinute) {
  for (const bool other_works : {false, true}) {
    HangScene scene;
    scene.sleep(scene.main(kTrainer));
    scene.wakes(scene.main(kTrainer));
    scene.wait_in_futex(scene.main(kWorker), shared_semaphore(7));
    scene.process(kWorker).sem_locks = {sem_lock(7, 1, kWorker)};
    scene.process(kOther).sem_locks = {sem_lock(7, 0, kWorker)};
    if (other_works) scene.run(scene.main(kOther));
    EXPECT_EQ(find(scene.examine(40), FindingCode::kLockCycle)->severity, Severity::kInfo);
    EXPECT_EQ(find(scene.examine(62), FindingCode::kLockCycle)->severity,
              other_works ? Severity::kInfo : Severity::kWarning);
  }
}

TEST(Deadlock, AStandstillThatIsOverProvesNothing) {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.is_looked_at_when_quiet();
  EXPECT_TRUE(has_error(scene.examine()));
  scene.moves_again();
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_TRUE(verdict.gaps.empty());
}

TEST(Deadlock, AStandstillThatEndsBecauseSomebodyKilledTheJobLastedUntilThen) {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.is_looked_at_when_quiet();
  scene.moves_again();
  scene.aborts(kWorker);
  EXPECT_TRUE(has_error(scene.examine()));
}

TEST(Deadlock, AStandstillThatEndsBecauseARankGaveUpIsWhy) {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.is_looked_at_when_quiet();
  scene.moves_again();
  scene.gives_up(kTrainer);
  EXPECT_FALSE(has_error(scene.examine())) << "the command did not fail";
  scene.ends_with(1);
  EXPECT_TRUE(has_error(scene.examine()));
}

// The trainer's patience ran out, and the command ended with that.
HangScene scene_of_timeout(std::string_view raised_in) {
  HangScene scene;
  scene.sleep(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("Clips.read", "/srv/clips.py", 12)});
  scene.moves_again();
  scene.gives_up(kTrainer, raised_in);
  scene.ends_with(1);
  return scene;
}

TEST(Deadlock, ATrainerThatGaveUpWasOwedABatchByAWorker) {
  const HangScene scene = scene_of_timeout(
      "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py:1449 _get_data");
  const Finding finding = must_find(scene.examine(), FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.processes, (std::vector<ProcessKey>{key_of(kWorker), key_of(kTrainer)}));
  EXPECT_TRUE(finding.message.plain().ends_with(
      "; then trainer 100 gave up: RuntimeError: no more patience"))
      << finding.message.plain();
}

TEST(Deadlock, ATrainerThatFailedOtherwiseSaysNothingOfItsWaits) {
  const HangScene scene = scene_of_timeout("/srv/train.py:30 check");
  EXPECT_FALSE(find(scene.examine(), FindingCode::kSlowSample)) << "it moved again";
}

TEST(Deadlock, ALoaderThatMovedTillTheEndNeedsNoLook) {
  HangScene scene = busy_scene();
  EXPECT_FALSE(scene.examine(0).gaps.empty());
  scene.is_looked_at_when_quiet();
  EXPECT_TRUE(scene.examine(0).gaps.empty());
}

TEST(Deadlock, ARecursionMovesThoughItIsOftenOnOneLine) {
  HangScene scene;
  scene.recurses(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("decode", "/srv/train.py", 12)});
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kSlowSample));
  EXPECT_FALSE(find(verdict, FindingCode::kWorkerBusyNoProgress));
}

TEST(Deadlock, ATrainerThatWorksBehindIdleWorkersIsHealthy) {
  HangScene scene;
  scene.run(scene.main(kTrainer));
  EXPECT_TRUE(scene.examine().findings.empty());
}

TEST(Deadlock, ATrainerThatWaitsElsewhere) {
  HangScene scene;
  scene.wait_in_read(scene.main(kTrainer), 4242);
  scene.has_end(7777, 4242, false, true);
  const Finding finding = must_find(scene.examine(), FindingCode::kConsumerStuck);
  EXPECT_NE(finding.severity, Severity::kError);
  EXPECT_FALSE(finding.message.plain().contains("loader")) << "they may be a pool's";
}

TEST(Deadlock, ATaskOfAPoolMayBeAnything) {
  HangScene scene;
  scene.run(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("trial", "/srv/sweep.py", 9)});
  const auto busy = [&] {
    return find(scene.examine(20), FindingCode::kWorkerBusyNoProgress).value();
  };
  EXPECT_EQ(busy().severity, Severity::kWarning);
  scene.stack(scene.main(kWorker),
              {python("trial", "/srv/sweep.py", 9),
               python("worker", "/usr/lib/python3.11/multiprocessing/pool.py", 125)});
  EXPECT_EQ(busy().severity, Severity::kInfo);
  EXPECT_EQ(busy().remedies.back().commands.back().plain(), "result.get(timeout=SECONDS)");
}

TEST(Deadlock, WhoWaitsForProcessesToEndWaitsForNoBatch) {
  HangScene scene;
  scene.run(scene.main(kWorker));
  scene.stack(scene.main(kWorker), {python("stage", "/srv/train.py", 7)});
  const auto slow = [&] {
    return find(scene.examine(20), FindingCode::kWorkerBusyNoProgress).has_value();
  };
  EXPECT_TRUE(slow());
  scene.stack(scene.main(kTrainer),
              {python("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 930),
               python("ProcessContext.join",
                      "/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py", 117),
               python("<module>", "/srv/train.py", 11)});
  EXPECT_FALSE(slow());
}

// A look meets the processes as they end.
TEST(Deadlock, SentinelsOfProcessesThatEndAreNoPipesWithoutPeer) {
  HangScene scene;
  constexpr uint64_t kSentinel = 4242;
  scene.wait_in_read(scene.main(kTrainer), kSentinel);
  scene.has_end(kTrainer, kSentinel, true, true);
  EXPECT_TRUE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
  scene.stack(scene.main(kTrainer),
              {python("wait", "/usr/lib/python3.11/multiprocessing/connection.py", 930),
               python("ProcessContext.join",
                      "/usr/lib/python3/dist-packages/torch/multiprocessing/spawn.py", 117)});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kPipeWithoutPeer));
}

TEST(Deadlock, ATrainerThatAsksForInputIsANote) {
  HangScene scene;
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.wait_in_read(trainer, 4242);
  scene.has_end(7777, 4242, false, true);
  trainer.wait.files.front().fd = 0;
  trainer.blocked_since = Scene::at(0) - 40 * kSecond;
  const Finding finding = must_find(scene.examine(), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("waits for input on its standard input"));
  EXPECT_EQ(finding.remedies.front().commands.front().plain(), "COMMAND < /dev/null");
  scene.has_end(kWorker, 4242, false, true);
  EXPECT_THAT(find(scene.examine(), FindingCode::kConsumerStuck)->message.plain(),
              testing::Not(HasSubstr("standard input")))
      << "a worker writes it";
}

// As `attach` sees it, which knows of no exception: 20 s into its wait of 22 s the last look is
// taken, and 3 s later the job has ended.
TEST(Deadlock, ATrainerThatExitsWhenItsTimeoutIsOverWasLeftByItsWorker) {
  for (const auto& [timeout_ms, is_why] :
       {std::pair(22'000, true), {60'000, false}, {5'000, false}}) {
    HangScene scene;
    scene.sleep(scene.main(kWorker));
    scene.stack(scene.main(kWorker), {python("load", "/srv/train.py", 9)});
    ThreadSnapshot& trainer = scene.main(kTrainer);
    trainer.wait.syscall = 7;  // poll
    trainer.wait.args = {0x9000, 1, static_cast<uint64_t>(timeout_ms), 0, 0, 0};
    trainer.blocked_since = Scene::at(0) - 10 * kSecond;
    scene.ends_with(1);
    const Finding finding = must_find(scene.examine(13), FindingCode::kSlowSample);
    EXPECT_EQ(finding.severity == Severity::kError, is_why) << timeout_ms;
    EXPECT_EQ(finding.message.plain().ends_with(
                  "; then trainer 100 exited with code 1, once it had waited as long as it may "
                  "(22.0 s)"),
              is_why)
        << finding.message.plain();
  }
}

TEST(Deadlock, ALookAfterTheTimeoutIsNoLookAtTheWait) {
  HangScene scene;
  scene.sleep(scene.main(kWorker));
  ThreadSnapshot& trainer = scene.main(kTrainer);
  trainer.wait.syscall = 7;  // poll
  trainer.wait.args = {0x9000, 1, 22'000, 0, 0, 0};
  trainer.blocked_since = Scene::at(0) - 10 * kSecond;
  scene.is_awake_at(trainer, 13);
  scene.ends_with(1);
  EXPECT_EQ(must_find(scene.examine(14), FindingCode::kSlowSample).severity, Severity::kError);
  scene.is_awake_at(trainer, 11);
  scene.is_awake_at(trainer, 12);
  EXPECT_FALSE(has_error(scene.examine(14))) << "its batch came in time";
}

TEST(Deadlock, AWorkerThatAsksATerminalIsTold) {
  HangScene scene;
  ThreadSnapshot& worker = scene.main(kWorker);
  scene.wait_in_read(worker, 4242);
  scene.stack(worker, {python("Pdb.interaction", "/usr/lib/python3.11/pdb.py", 355),
                       python("load", "/srv/train.py", 9)});
  worker.wait.files.front().kind = FileKind::kOther;
  worker.blocked_since = Scene::at(0) - 40 * kSecond;
  EXPECT_THAT(find(scene.examine(), FindingCode::kSlowSample)->message.plain(),
              testing::Not(HasSubstr("breakpoint()")))
      << "another device";
  worker.wait.files.front().path = "/dev/pts/3";
  const Finding finding = must_find(scene.examine(), FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("worker 101 waits in the middle of a batch for input on a terminal, "
                            "as input() and breakpoint() do (load, /srv/train.py:9)"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), "DataLoader(..., num_workers=0)");
}

TEST(Deadlock, AFunctionThatTheGpuCallsWantsTheLockOfWhoWaitsForTheGpu) {
  HangScene scene;
  scene.add_thread(kTrainer, 150);
  scene.run(scene.main(kTrainer));
  scene.stack(scene.main(kTrainer), {native("cuStreamSynchronize", "/lib64/libcuda.so.1"),
                                     native("cudaStreamSynchronize", "/usr/lib/libcudart.so.12"),
                                     python("take", "/srv/pool.py", 45)});
  ThreadSnapshot& called = scene.thread(kTrainer, 150);
  scene.wait_in_futex(called, mutex_of(kTrainer));
  scene.stack(called, {python("give", "/srv/pool.py", 63), native("", "/lib64/libcuda.so.1")});
  const Finding finding = must_find(scene.examine(12), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("(give, /srv/pool.py:63)"));
  scene.stack(called, {python("give", "/srv/pool.py", 63)});
  EXPECT_FALSE(find(scene.examine(12), FindingCode::kLockCycle)) << "the GPU waits for nobody";
}

TEST(Deadlock, ATrainerWhoseKernelDoesNotEnd) {
  HangScene scene;
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.run(trainer);
  scene.stack(trainer, {native("", "/lib64/libcuda.so.1"),
                        native("cudaStreamSynchronize", "/usr/lib/libcudart.so.12"),
                        python("train", "/srv/train.py", 12)});
  const Finding finding = must_find(scene.examine(12), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo) << "it may be a long one";
  EXPECT_THAT(finding, Says("waits for the GPU (train, /srv/train.py:12)"));
  EXPECT_EQ(find(scene.examine(62), FindingCode::kConsumerStuck)->severity, Severity::kWarning);
  scene.works_until(scene.main(kWorker), 3);
  EXPECT_FALSE(find(scene.examine(12), FindingCode::kConsumerStuck)) << "a batch was taken";
}

TEST(Deadlock, TheKernelsClockTellsOfAWaitThatBeganBeforeTheLook) {
  for (const auto& [since, severity] :
       {std::pair(-40 * kSecond, Severity::kWarning), {-5 * kSecond, Severity::kInfo}}) {
    HangScene scene;
    scene.wait_in_read(scene.main(kTrainer), 4242);
    scene.has_end(7777, 4242, false, true);
    scene.main(kTrainer).blocked_since = Scene::at(0) + since;
    EXPECT_EQ(must_find(scene.examine(), FindingCode::kConsumerStuck).severity, severity);
  }
}

// The trainer waits for worker 101, which reads a pipe of worker 102.
HangScene scene_of_a_chain() {
  HangScene scene;
  scene.wait_in_read(scene.main(kTrainer), 4242);
  scene.has_end(kWorker, 4242, false, true);
  scene.wait_in_read(scene.main(kWorker), 4243);
  scene.has_end(102, 4243, false, true);
  scene.stack(scene.main(kTrainer), {python("collect", "/srv/train.py", 7)});
  scene.stack(scene.main(kWorker), {python("read", "/srv/train.py", 30)});
  return scene;
}

TEST(Deadlock, AStandstillIsToldAtItsEnd) {
  HangScene scene = scene_of_a_chain();
  scene.sleep(scene.main(102));
  scene.stack(scene.main(102), {python("linger", "/srv/train.py", 40)});
  const Finding finding = must_find(scene.examine(12), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(102)});
  EXPECT_TRUE(finding.message.plain().ends_with("worker 102 sleeps (linger, /srv/train.py:40)"))
      << finding.message.plain();
}

TEST(Deadlock, AStandstillThatASleepMayEndTakesLonger) {
  for (const bool sleeps : {true, false}) {
    HangScene scene = scene_of_a_chain();
    if (sleeps) {
      scene.sleep(scene.main(102));
    } else {
      scene.wait_in_read(scene.main(102), 4244);
      scene.has_end(kTrainer, 4244, false, true);
    }
    for (const int32_t pid : {kTrainer, kWorker, 102})
      scene.main(pid).blocked_since = Scene::at(0) - 15 * kSecond;
    EXPECT_EQ(find(scene.examine(), FindingCode::kConsumerStuck).has_value(), !sleeps);
  }
}

TEST(Deadlock, WhatStoodStillAndThenEndedWellIsNoHang) {
  HangScene scene;
  scene.wait_in_read(scene.main(kWorker), 4242);
  scene.has_end(kWorker, 4242, true, true);
  scene.ends_with(0);
  EXPECT_TRUE(scene.examine().findings.empty());
  scene.ends_with(1);
  EXPECT_TRUE(has_error(scene.examine())) << "it failed because of it";
}

constexpr int32_t kRank = 102;  // the second trainer
constexpr int32_t kItsWorker = 103;

// Two ranks whose workers are idle: the first is in a collective operation, and its library listens
// to the other; so does the other's.
HangScene scene_of_ranks() {
  HangScene scene(3);
  scene.info(kRank).role = Role::kTrainer;
  scene.info(kRank).start_method.reset();
  scene.info(kRank).ppid = scene.info(kTrainer).ppid;
  scene.info(kItsWorker).ppid = kRank;
  scene.has_end(kRank, HangScene::kResults + kItsWorker, false, true);
  for (const int32_t pid : {kTrainer, kRank})
    scene.wait_in_recv(scene.add_thread(pid, 150 + pid), 7000, 0);
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x7000));
  scene.stack(scene.main(kTrainer),
              {python("barrier", "/usr/lib/python3/dist-packages/torch/distributed.py", 5),
               python("<module>", "/srv/train.py", 9)});
  scene.stack(scene.main(kRank), {python("<module>", "/srv/train.py", 8)});
  return scene;
}

TEST(Deadlock, ARankInACollectiveOperationWaitsForTheOneThatStandsElsewhere) {
  HangScene scene = scene_of_ranks();
  scene.wait_in_read(scene.main(kRank), 4242);
  scene.has_end(kRank, 4242, true, true);
  const Finding finding = must_find(scene.examine(12), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(kRank)});
  EXPECT_THAT(finding,
              Says("whose other end only its own process holds", "trainer 100 waits, too"));
}

TEST(Deadlock, ARankInACollectiveOperationWaitsForTheOneThatSleeps) {
  HangScene scene = scene_of_ranks();
  scene.sleep(scene.main(kRank));
  EXPECT_EQ(must_find(scene.examine(12), FindingCode::kConsumerStuck).processes,
            std::vector<ProcessKey>{key_of(kRank)});
  scene.run(scene.main(kTrainer));
  EXPECT_TRUE(scene.examine(12).findings.empty()) << "nobody waits for it";
}

TEST(Deadlock, ARankInACollectiveOperationWaitsForTheWorkerOfAnother) {
  HangScene scene = scene_of_ranks();
  scene.wait_in_read(scene.main(kRank), HangScene::kResults);
  scene.has_end(kRank, HangScene::kResults, true, false);
  scene.stack(scene.main(kRank), {kQueueGet, python("<module>", "/srv/train.py", 7)});
  scene.run(scene.main(kItsWorker));
  const Verdict verdict = scene.examine(12);
  EXPECT_FALSE(find(verdict, FindingCode::kConsumerStuck));
  EXPECT_EQ(must_find(verdict, FindingCode::kWorkerBusyNoProgress).processes,
            std::vector<ProcessKey>{key_of(kItsWorker)});
}

TEST(Deadlock, ARankThatWaitsForOneThatWorksIsNoMoreThanAWord) {
  HangScene scene = scene_of_ranks();
  scene.run(scene.main(kRank));
  const Finding finding = must_find(scene.examine(12), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("maybe for trainer 102"));
}

TEST(Deadlock, RanksThatAllWaitForOneAnother) {
  HangScene scene = scene_of_ranks();
  scene.wait_in_futex(scene.main(kRank), futex(LockKind::kCondition, 0x7000));
  const Finding finding = must_find(scene.examine(12), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(finding.processes.size(), 2U);
}

TEST(Deadlock, TheChainLeadsFromTheTrainerToTheLock) {
  HangScene scene(1);
  scene.wait_in_futex(scene.main(kWorker), mutex_of(150));
  const Verdict verdict = scene.examine();
  ASSERT_EQ(verdict.wait_graphs.size(), 1U);
  const WaitGraph& graph = verdict.wait_graphs.front();
  const std::vector<std::string> wanted = {"thread 100/100", "pipe 9000", "thread 101/101",
                                           "mutex 101:0x1000"};
  EXPECT_EQ(graph.chain, wanted);
  for (const std::string& id : graph.chain) {
    EXPECT_TRUE(std::ranges::any_of(graph.nodes, [&](const WaitNode& node) {
      return node.id == id;
    })) << id;
  }
}

}  // namespace
}  // namespace dlprobe
