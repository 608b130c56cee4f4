// Threads that wait for others of their own process, or of another one of the job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/probes/hang_scene.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr int32_t kTrainer = HangScene::kTrainer;
constexpr int32_t kWorker = 101;
constexpr int32_t kThread = 150;
constexpr uint64_t kOfDataLoader = 0b100'0100'1100'0000;  // SIGBUS, SIGFPE, SIGSEGV, SIGTERM
constexpr const char* kThreading = "/usr/lib/python3.11/threading.py";
constexpr const char* kQueue = "/usr/lib/python3.11/queue.py";
constexpr const char* kFutures = "/usr/lib/python3.11/concurrent/futures/_base.py";
constexpr const char* kPool = "/usr/lib/python3.11/concurrent/futures/thread.py";
constexpr const char* kImport = "<frozen importlib._bootstrap>";

FutexWait python_lock(uint64_t address, std::optional<int32_t> owner = std::nullopt) {
  FutexWait wait = futex(LockKind::kSemaphore, address);
  wait.python_type = "_thread.lock";
  wait.owner_tid = owner;
  return wait;
}

FutexWait join_of(int32_t tid) {
  FutexWait wait = python_lock(0x9000, tid);
  wait.kind = LockKind::kJoin;
  return wait;
}

// At a lock of its own that whoever wakes it releases (threading.Condition).
void wait_in_condition(HangScene& scene, ThreadSnapshot& thread, std::vector<StackFrame> callers) {
  scene.wait_in_futex(thread, python_lock(0x7000 + static_cast<uint64_t>(thread.tid)));
  callers.insert(callers.begin(), python("Condition.wait", kThreading, 320));
  scene.stack(thread, std::move(callers));
}

void wait_for_task(HangScene& scene, ThreadSnapshot& thread, const std::string& function) {
  wait_in_condition(scene, thread,
                    {python("Future.result", kFutures, 451), python(function, "/srv/train.py", 8)});
}

// Waits for the end of process 7777, which is none of the tree.
void wait_for_child(HangScene& scene, ThreadSnapshot& thread) {
  scene.wait_in_read(thread, 0);
  thread.wait.files.clear();
  thread.wait.syscall = 61;  // wait4
  thread.wait.args = {7777, 0, 0, 0, 0, 0};
}

// The main thread puts into a full queue.Queue with a lock that the consumer wants.
HangScene full_queue(int32_t pid, std::optional<int32_t> holder) {
  HangScene scene;
  wait_in_condition(scene, scene.main(pid),
                    {python("Queue.put", kQueue, 140), python("step", "/srv/train.py", 16)});
  ThreadSnapshot& consumer = scene.add_thread(pid, kThread);
  scene.wait_in_futex(consumer, python_lock(0x2000, holder));
  scene.stack(consumer, {python("write", "/srv/train.py", 10)});
  return scene;
}

TEST(Within, HolderOfALockThatWaitsForRoomInAQueue) {
  for (const int32_t pid : {kTrainer, kWorker}) {
    const Verdict verdict = full_queue(pid, pid).examine();
    const Finding finding = must_find(verdict, FindingCode::kLockCycle);
    EXPECT_EQ(finding.severity, Severity::kError);
    EXPECT_THAT(finding, Says("waits for a threading.Lock held by",
                              "waits for room in a full queue.Queue (step, /srv/train.py:16)"));
    EXPECT_THAT(finding, AdvisesFirst("Release the lock before"));
    EXPECT_FALSE(find(verdict, FindingCode::kPythonLockInherited));
  }
}

TEST(Within, AQueueThatASignalHandlerMayEmptyIsNoError) {
  HangScene scene = full_queue(kTrainer, kTrainer);
  scene.info(kTrainer).signals_caught = uint64_t{1} << 9U;  // SIGUSR1
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kLockCycle).severity, Severity::kWarning);
}

TEST(Within, AQueueThatAnotherThreadEmptiesIsNoCircle) {
  HangScene scene = full_queue(kTrainer, kTrainer);
  scene.run(scene.add_thread(kTrainer, kThread + 1));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle));
}

TEST(Within, LockWithoutAnOwnerNamesWhoeverMayHaveIt) {
  const Finding finding =
      must_find(full_queue(kTrainer, std::nullopt).examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Says("(step, /srv/train.py:16): whoever has the lock waits too"));
}

// The main thread is importing a module that started a thread and joins it; that imports it, too.
HangScene import_scene(bool main_imports) {
  HangScene scene;
  ThreadSnapshot& loader = scene.add_thread(kWorker, kThread);
  scene.wait_in_futex(loader, python_lock(0x2000));
  scene.stack(loader, {python("_ModuleLock.acquire", kImport, 110),
                       python("_find_and_load", kImport, 1174), python("load", "/srv/lib.py", 4)});
  scene.wait_in_futex(scene.main(kWorker), join_of(kThread));
  std::vector<StackFrame> frames = {python("Thread.join", kThreading, 1119),
                                    python("<module>", "/srv/lib.py", 7)};
  if (main_imports) frames.push_back(python("_find_and_load_unlocked", kImport, 1147));
  scene.stack(scene.main(kWorker), frames);
  return scene;
}

TEST(Within, ThreadThatIsJoinedWhileItsModuleIsImported) {
  const Verdict verdict = import_scene(true).examine();
  const Finding finding = must_find(verdict, FindingCode::kLockCycle);
  EXPECT_THAT(finding,
              Says("waits for thread 150 to end", "a module that worker 101 is importing"));
  EXPECT_THAT(finding, AdvisesFirst("while a module is imported"));
  EXPECT_FALSE(find(verdict, FindingCode::kPythonLockInherited));
}

TEST(Within, ImportThatNoThreadDoesWasCopiedByFork) {
  EXPECT_TRUE(find(import_scene(false).examine(), FindingCode::kPythonLockInherited));
}

// The main thread waits for a Pool while it imports a module, which the pool's thread for tasks
// wants, too.
HangScene pool_at_import() {
  constexpr const char* kPoolFile = "/usr/lib/python3.11/multiprocessing/pool.py";
  HangScene scene;
  wait_in_condition(
      scene, scene.main(kTrainer),
      {python("ApplyResult.wait", kPoolFile, 765), python("<module>", "/srv/features.py", 9),
       python("_find_and_load_unlocked", kImport, 1147), python("<module>", "/srv/train.py", 1)});
  ThreadSnapshot& tasks = scene.add_thread(kTrainer, kThread);
  scene.wait_in_futex(tasks, python_lock(0x2000));
  scene.stack(tasks, {python("_ModuleLock.acquire", kImport, 120),
                      python("_lock_unlock_module", kImport, 224),
                      python("Pool._handle_tasks", kPoolFile, 540)});
  ThreadSnapshot& results = scene.add_thread(kTrainer, kThread + 1);
  scene.wait_in_read(results, HangScene::kResults);
  scene.stack(results, {python("Pool._handle_results", kPoolFile, 579)});
  return scene;
}

TEST(Within, PoolWhoseTasksWaitForTheImportThatWaitsForThePool) {
  const Verdict verdict = pool_at_import().examine();
  const Finding finding = must_find(verdict, FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("while it imports a module (<module>, /srv/features.py:9)",
                            "thread 150 of trainer 100, which gives out the pool's tasks"));
  EXPECT_THAT(finding, AdvisesFirst("a pool while a module is imported"));
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

TEST(Within, PoolThatAnImportAsksAgainAndAgain) {
  HangScene scene = pool_at_import();
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.wait_in_recv(trainer, 8100, 8200);
  scene.wakes(trainer);
  EXPECT_FALSE(find(scene.examine(5), FindingCode::kLockCycle)) << "it may go on";
  EXPECT_EQ(must_find(scene.examine(20), FindingCode::kLockCycle).severity, Severity::kWarning);
  scene.works_until(trainer, 10);
  scene.stack(scene.main(kWorker), {python("work", "/srv/features.py", 5)});
  scene.run(scene.main(kWorker));
  EXPECT_FALSE(find(scene.examine(20), FindingCode::kLockCycle)) << "a worker has a task";
}

TEST(Within, TaskThatWaitsForATaskOfItsOwnExecutor) {
  HangScene scene;
  wait_for_task(scene, scene.main(kTrainer), "run");
  ThreadSnapshot& thread = scene.add_thread(kTrainer, kThread);
  wait_for_task(scene, thread, "whole");
  thread.stack.push_back(python("_WorkItem.run", kPool, 58));
  const Verdict verdict = scene.examine();
  EXPECT_THAT(must_find(verdict, FindingCode::kLockCycle),
              Says("thread 150 of trainer 100 waits for the result "
                   "of a task (concurrent.futures) (whole, "));
  EXPECT_FALSE(find(verdict, FindingCode::kBatchLostInWorker));
}

// The main thread waits for a result of a Pool that has two of its three threads left.
HangScene pool_scene(const std::string& third) {
  constexpr const char* kPoolFile = "/usr/lib/python3.11/multiprocessing/pool.py";
  HangScene scene;
  wait_in_condition(
      scene, scene.main(kTrainer),
      {python("IMapIterator.next", kPoolFile, 861), python("main", "/srv/train.py", 20)});
  int32_t tid = kThread;
  for (const std::string& function : {std::string("Pool._handle_workers"), third}) {
    ThreadSnapshot& thread = scene.add_thread(kTrainer, tid++);
    scene.wait_in_recv(thread, 8100 + static_cast<uint64_t>(tid), 8200);
    scene.stack(thread, {python(function, kPoolFile, 500)});
  }
  return scene;
}

TEST(Within, APoolWhoseThreadForResultsHasEnded) {
  const Finding finding =
      must_find(pool_scene("Pool._handle_tasks").examine(), FindingCode::kWaitsForMissingThread);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("takes results in has ended"));
  EXPECT_FALSE(
      find(pool_scene("Pool._handle_results").examine(), FindingCode::kWaitsForMissingThread));
}

TEST(Within, APoolThatWasTerminatedGivesNoResult) {
  HangScene scene(0);
  wait_in_condition(
      scene, scene.main(kTrainer),
      {python("IMapIterator.next", "/usr/lib/python3.11/multiprocessing/pool.py", 861),
       python("main", "/srv/train.py", 6)});
  const Finding finding = must_find(scene.examine(20), FindingCode::kWaitsForMissingThread);
  EXPECT_THAT(finding.message.plain(), HasSubstr("none of the pool's threads is left"));
}

TEST(Within, ResultThatIsWaitedForInTheThreadOfItsEventLoop) {
  HangScene scene;
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_for_task(scene, trainer, "get");
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle));
  trainer.stack.push_back(python("_run_once", "/usr/lib/python3.11/asyncio/base_events.py", 1906));
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(), HasSubstr("in the thread of its event loop"));
}

TEST(Within, AQueueInTheThreadOfTheEventLoopWhoseTasksFillIt) {
  HangScene scene(0);
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_in_condition(scene, trainer,
                    {python("Queue.get", kQueue, 171), python("batches", "/srv/train.py", 19)});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kWaitsForMissingThread));
  trainer.stack.push_back(python("_run_once", "/usr/lib/python3.11/asyncio/base_events.py", 1906));
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_THAT(finding, Says("an empty queue.Queue, in the thread of its event loop"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("asyncio.Queue"));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kWaitsForMissingThread));
}

// A worker's function is through, its exit joins a thread that nobody ends; the trainer joins the
// worker.
TEST(Within, ThreadThatKeepsAWorkerAlive) {
  HangScene scene(1);
  scene.wait_in_futex(scene.main(kWorker), join_of(kThread));
  scene.stack(scene.main(kWorker), {python("_shutdown", kThreading, 1583),
                                    python("BaseProcess._bootstrap",
                                           "/usr/lib/python3.11/multiprocessing/process.py", 320)});
  wait_in_condition(scene, scene.add_thread(kWorker, kThread),
                    {python("Queue.get", kQueue, 171), python("run", "/srv/train.py", 8)});
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_for_child(scene, trainer);
  trainer.wait.args[0] = kWorker;
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("it is through, and thread 150 of worker 101 keeps"));
  EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("before the program does"));
  scene.sleep(trainer);
  EXPECT_EQ(find(scene.examine(), FindingCode::kLockCycle)->severity, Severity::kInfo)
      << "nobody needs its end";
}

// The trainer waits for the end of a worker that waits for room, beside a thread that wakes now and
// then.
TEST(Within, AHeartbeatHelpsNobody) {
  constexpr uint64_t kPipe = 9500;
  HangScene scene(1);
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_for_child(scene, trainer);
  trainer.wait.args[0] = kWorker;
  scene.wait_in_write(scene.main(kWorker), kPipe);
  scene.has_end(kTrainer, kPipe, true, true);
  scene.has_end(kWorker, kPipe, true, true);
  const auto codes_after = [&](int looks) {
    return find(scene.examine(looks), FindingCode::kLockCycle);
  };
  EXPECT_EQ(codes_after(4)->confidence, Confidence::kCertain);
  ThreadSnapshot& beat = scene.add_thread(kTrainer, kThread);
  scene.sleep(beat);
  scene.stack(beat, {python("beat", "/srv/train.py", 18)});
  scene.wakes(beat);
  EXPECT_FALSE(codes_after(4)) << "too short a watch to know it";
  const Finding finding = must_find(scene.examine(20), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError) << finding.message.plain();
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_THAT(finding.message.plain(), HasSubstr("all the while thread 150 of trainer 100 sleeps"));
  scene.works_until(beat, 19);
  EXPECT_FALSE(codes_after(20)) << "it does other things, too";
}

// It runs no task, takes nothing from a queue and releases no semaphore: at any of its turns it
// would have. What is set once it may set at any time.
TEST(Within, AHeartbeatDoesNoWorkOfItsProcess) {
  for (const StackFrame& asker :
       {python("Future.result", kFutures, 451), python("Semaphore.acquire", kThreading, 480),
        python("Queue.put", kQueue, 140), python("Event.wait", kThreading, 629)}) {
    HangScene scene;  // whose worker has no task
    scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
    scene.stack(scene.main(kTrainer),
                {python("Thread.join", kThreading, 1119), python("save", "/srv/train.py", 13)});
    ThreadSnapshot& thread = scene.add_thread(kTrainer, kThread);
    wait_in_condition(scene, thread, {asker, python("fill", "/srv/train.py", 9)});
    if (asker.function == "Future.result")
      thread.stack.push_back(python("_WorkItem.run", kPool, 58));
    wait_in_condition(
        scene, scene.add_thread(kTrainer, kThread + 1),
        {python("Queue._feed", "/usr/lib/python3.11/multiprocessing/queues.py", 231)});
    ThreadSnapshot& beat = scene.add_thread(kTrainer, kThread + 2);
    scene.sleep(beat);
    scene.stack(beat, {python("beat", "/srv/train.py", 18)});
    scene.wakes(beat);
    const auto found = find(scene.examine(20), FindingCode::kLockCycle);
    const bool is_set_once = asker.function == "Event.wait" || asker.function == "Future.result";
    ASSERT_EQ(found.has_value(), !is_set_once) << asker.function;
    if (!found) continue;
    EXPECT_GE(found->severity, Severity::kWarning);
    EXPECT_THAT(found->message.plain(), HasSubstr("; all the while thread 152 of trainer 100"));
  }
}

// Who sleeps may be the one that has tasks for them.
TEST(Within, WorkersWithoutTasksBesideAHeartbeatMayGetSome) {
  HangScene scene;
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_for_child(scene, trainer);
  trainer.wait.args[0] = kWorker;
  EXPECT_EQ(find(scene.examine(20), FindingCode::kLockCycle)->severity, Severity::kError);
  ThreadSnapshot& beat = scene.add_thread(kTrainer, kThread);
  scene.sleep(beat);
  scene.stack(beat, {python("poll", "/srv/train.py", 18)});
  EXPECT_EQ(find(scene.examine(20), FindingCode::kLockCycle)->severity, Severity::kInfo);
}

// The main thread is in loss.backward(), a hook in autograd's thread of the device.
TEST(Within, TaskOfAnExecutorThatAnotherThreadWaitsFor) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), futex(LockKind::kCondition, 0x3000));
  scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 77)});
  wait_for_task(scene, scene.add_thread(kTrainer, kThread), "unpack");
  ThreadSnapshot& thread = scene.add_thread(kTrainer, kThread + 1);
  wait_for_task(scene, thread, "widen");
  thread.stack.push_back(python("_WorkItem.run", kPool, 58));
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding,
              Says("thread 150 of trainer 100 waits for the result", "(widen, /srv/train.py:8)"));
  scene.run(scene.main(kTrainer));
  EXPECT_FALSE(find(scene.examine(), FindingCode::kLockCycle)) << "it may submit, or set a result";
}

// A worker's collection of garbage calls a finalizer, which asks a thread that fork did not copy.
TEST(Within, FinalizerThatAsksAThreadWhichForkDidNotCopy) {
  for (const StackFrame& finalizer :
       {python("finalize.__call__", "/usr/lib/python3.11/weakref.py", 590),
        python("Client.__del__", "/srv/client.py", 30)}) {
    HangScene scene;
    wait_for_task(scene, scene.main(kWorker), "clean_up");
    scene.stack(scene.main(kTrainer),
                {python("recv", "/usr/lib/python3.11/multiprocessing/connection.py", 250)});
    scene.stack(scene.add_thread(kTrainer, kThread), {python("run", "/srv/client.py", 9)});
    EXPECT_THAT(must_find(scene.examine(), FindingCode::kWaitsForMissingThread),
                AdvisesFirst("Create what has that thread"));
    scene.main(kWorker).stack.push_back(finalizer);
    const Finding finding = must_find(scene.examine(), FindingCode::kWaitsForMissingThread);
    EXPECT_THAT(finding, Says("(concurrent.futures) in a finalizer; the thread that would do it"));
    EXPECT_THAT(finding, AdvisesFirst("collect its garbage, before the workers start"));
  }
}

// A handler that takes the ends of all children, beside Process.is_alive() in a loop.
TEST(Within, TrainerWithoutChildrenThatPollsAndHasAHandlerForTheirEnds) {
  HangScene scene(0);
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.sleep(trainer);
  scene.stack(trainer, {python("run", "/srv/train.py", 27)});
  scene.wakes(trainer);
  EXPECT_THAT(must_find(scene.examine(70), FindingCode::kConsumerStuck),
              AdvisesFirst("Find out who"));
  scene.info(kTrainer).signals_caught = uint64_t{1} << 16U;  // SIGCHLD
  const Finding finding = must_find(scene.examine(70), FindingCode::kConsumerStuck);
  EXPECT_THAT(finding, Says("polls (run, /srv/train.py:27)", "a handler for SIGCHLD"));
  EXPECT_THAT(finding, AdvisesFirst("A handler that takes the ends of all children"));
}

TEST(Within, TaskThatWaitsForATaskInASpawnedWorker) {
  for (const StartMethod method : {StartMethod::kFork, StartMethod::kSpawn}) {
    HangScene scene;
    scene.info(kTrainer).start_method = method;
    scene.info(kWorker).start_method = method;
    wait_for_task(scene, scene.main(kWorker), "run");
    ThreadSnapshot& thread = scene.add_thread(kWorker, kThread);
    wait_for_task(scene, thread, "whole");
    thread.stack.push_back(python("_WorkItem.run", kPool, 58));
    EXPECT_THAT(must_find(scene.examine(), FindingCode::kLockCycle),
                Says("every thread of its process that could wake"));
  }
}

TEST(Within, ResultOfAProcessIsNotThatOfAThread) {
  HangScene scene;
  wait_for_task(scene, scene.main(kTrainer), "run");
  wait_in_condition(scene, scene.add_thread(kTrainer, kThread),
                    {python("serve", "/srv/train.py", 30)});
  const Verdict verdict = scene.examine(8);
  EXPECT_FALSE(find(verdict, FindingCode::kLockCycle));
  EXPECT_TRUE(find(verdict, FindingCode::kBatchLostInWorker));
}

TEST(Within, ThreadThatTheTrainerJoinsIsNamed) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
  scene.stack(scene.main(kTrainer),
              {python("Thread.join", kThreading, 1119), python("save", "/srv/train.py", 13)});
  ThreadSnapshot& saver = scene.add_thread(kTrainer, kThread);
  wait_for_child(scene, saver);
  scene.stack(saver, {python("upload", "/srv/train.py", 9)});
  const Verdict verdict = scene.examine(20);
  const Finding finding = must_find(verdict, FindingCode::kConsumerStuck);
  EXPECT_THAT(finding, Says("trainer 100 waits for thread 150 to end (save, "));
  EXPECT_THAT(finding, Says("thread 150 of trainer 100 waits for a child "
                            "process to end (upload, /srv/train.py:9)"));
  EXPECT_THAT(verdict.wait_graphs.front().chain, ElementsAre("thread 100/100", "thread 100/150"));
}

// A saver that writes, with short sleeps between.
TEST(Within, ThreadThatIsAtWorkIsANote) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
  scene.stack(scene.main(kTrainer),
              {python("Thread.join", kThreading, 1119), python("save", "/srv/train.py", 13)});
  ThreadSnapshot& saver = scene.add_thread(kTrainer, kThread);
  scene.sleep(saver);
  scene.stack(saver, {python("write", "/srv/train.py", 9)});
  const auto severity = [&](int looks) {
    return find(scene.examine(looks), FindingCode::kConsumerStuck)->severity;
  };
  EXPECT_EQ(severity(70), Severity::kWarning);
  scene.wakes(saver);
  EXPECT_EQ(severity(40), Severity::kInfo) << "it may be a pause between two requests";
  EXPECT_EQ(severity(70), Severity::kInfo) << "a service may idle for as long as it likes";
  scene.info(kWorker).signals_caught = kOfDataLoader;
  EXPECT_EQ(severity(70), Severity::kWarning) << "it may ask for what does not come";
  scene.reads_until(kTrainer, 70);
  EXPECT_EQ(severity(70), Severity::kInfo);
}

// The main thread waits for an event that another thread sets at a time that is known.
HangScene scene_of_an_event() {
  HangScene scene;
  wait_in_condition(scene, scene.main(kTrainer),
                    {python("Event.wait", kThreading, 600), python("main", "/srv/train.py", 26)});
  scene.stack(scene.add_thread(kTrainer, kThread), {python("idle", "/srv/train.py", 50)});
  return scene;
}

TEST(Within, AThreadThatWakesAtItsTimeIsANote) {
  HangScene scene = scene_of_an_event();
  ThreadSnapshot& timer = scene.thread(kTrainer, kThread);
  const auto severity = [&] {
    return find(scene.examine(70), FindingCode::kConsumerStuck)->severity;
  };
  FutexWait timed = python_lock(0x9000);
  timed.timed = true;
  scene.wait_in_futex(timer, timed);
  EXPECT_EQ(severity(), Severity::kWarning) << "when it wakes is not known";
  timer.wait.ends_in_ns = 20 * kSecond;
  EXPECT_EQ(severity(), Severity::kInfo);
  timer.wait.ends_in_ns = 300'000 * kSecond;
  EXPECT_EQ(severity(), Severity::kWarning) << "that is for ever";
  scene.sleep(timer);
  timer.wait.ends_in_ns = 20 * kSecond;
  EXPECT_EQ(severity(), Severity::kInfo);
}

// A pool whose program looks into a folder twice a second. A trainer's heartbeat is no such thing.
TEST(Within, AServiceThatLooksForWorkIsANote) {
  HangScene scene = scene_of_an_event();
  ThreadSnapshot& poller = scene.thread(kTrainer, kThread);
  scene.sleep(poller);
  scene.wakes(poller);
  const Finding finding = must_find(scene.examine(70), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("thread 150 of trainer 100 sleeps, and runs now and then (idle, "));
  scene.info(kWorker).signals_caught = kOfDataLoader;
  EXPECT_EQ(find(scene.examine(70), FindingCode::kConsumerStuck)->severity, Severity::kWarning);
}

// A watchdog of the program's own ended a worker of the pool, and goes on.
TEST(Within, WhoWaitsForAPoolIsWokenByThePoolAlone) {
  constexpr const char* kOfPool = "/usr/lib/python3.11/multiprocessing/pool.py";
  HangScene scene;
  ThreadSnapshot& watchdog = scene.add_thread(kTrainer, kThread);
  scene.run(watchdog);
  scene.stack(watchdog, {python("watchdog", "/srv/train.py", 18)});
  ThreadSnapshot& results = scene.add_thread(kTrainer, kThread + 1);
  scene.wait_in_read(results, HangScene::kResults);
  scene.stack(results, {python("Pool._handle_results", kOfPool, 579)});
  scene.stack(scene.add_thread(kTrainer, kThread + 2),
              {python("Pool._handle_tasks", kOfPool, 531)});
  ThreadSnapshot& trainer = scene.main(kTrainer);
  const auto wait_at = [&](const char* file) {
    wait_in_condition(
        scene, trainer,
        {python("IMapIterator.next", file, 861), python("main", "/srv/train.py", 33)});
    return find(scene.examine(20), FindingCode::kBatchLostInWorker);
  };
  EXPECT_FALSE(wait_at("/srv/pool.py")) << "that thread may wake it";
  EXPECT_TRUE(wait_at(kOfPool));
  scene.stack(scene.thread(kTrainer, kThread + 2),
              {python("paths", "/srv/train.py", 7), python("Pool._handle_tasks", kOfPool, 531)});
  EXPECT_FALSE(wait_at(kOfPool)) << "more tasks may come from there";
}

TEST(Within, AMainThreadThatStandsIsNotNothing) {
  HangScene scene(0);
  scene.run(scene.add_thread(kTrainer, kThread));
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_in_condition(scene, trainer,
                    {python("sync", "/usr/lib/python3/dist-packages/distributed/utils.py", 439),
                     python("main", "/srv/train.py", 19)});
  const Verdict verdict = scene.examine(20);
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_THAT(verdict.all_well.plain(), HasSubstr("train.py:19"));
  scene.stack(trainer, {python("serve", "/usr/lib/python3/dist-packages/distributed/cli.py", 9)});
  EXPECT_THAT(scene.examine(20).all_well.plain(), testing::StartsWith("nothing is stuck"));
}

// It is woken now and then, from a wait that has no timeout: each time it has got an item.
TEST(Within, AWaitWithoutATimeoutThatEndsAgainAndAgainMoves) {
  HangScene scene;
  ThreadSnapshot& reader = scene.add_thread(kTrainer, kThread);
  scene.sleep(reader);
  scene.stack(reader, {python("Bucket.take", "/srv/train.py", 9)});
  ThreadSnapshot& trainer = scene.main(kTrainer);
  wait_in_condition(scene, trainer,
                    {python("Queue.get", kQueue, 171), python("step", "/srv/train.py", 16)});
  EXPECT_TRUE(find(scene.examine(40), FindingCode::kConsumerStuck));
  scene.wakes(trainer);
  EXPECT_FALSE(find(scene.examine(40), FindingCode::kConsumerStuck));
}

TEST(Within, AWaitThatBeganDuringTheWatchIsANote) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
  scene.stack(scene.main(kTrainer),
              {python("Thread.join", kThreading, 1119), python("save", "/srv/train.py", 13)});
  wait_for_child(scene, scene.add_thread(kTrainer, kThread));
  EXPECT_EQ(find(scene.examine(40), FindingCode::kConsumerStuck)->severity, Severity::kWarning);
  scene.works_until(scene.main(kTrainer), 36);
  const auto finding = find(scene.examine(40), FindingCode::kConsumerStuck);
  EXPECT_TRUE(!finding || finding->severity == Severity::kInfo);
}

TEST(Within, ThreadThatAWorkerWaitsForIsNamed) {
  HangScene scene;
  wait_in_condition(scene, scene.main(kWorker),
                    {python("Queue.get", kQueue, 171), python("fetch", "/srv/train.py", 31)});
  ThreadSnapshot& producer = scene.add_thread(kWorker, kThread);
  wait_for_child(scene, producer);
  scene.stack(producer, {python("produce", "/srv/train.py", 29)});
  // That one is idle, and no part of it.
  wait_in_condition(scene, scene.add_thread(kWorker, kThread + 1),
                    {python("Queue.get", kQueue, 171), python("log", "/srv/train.py", 40)});
  const Verdict verdict = scene.examine(20);
  const Finding finding = must_find(verdict, FindingCode::kSlowSample);
  EXPECT_THAT(finding,
              Says("waits for an item of an empty queue.Queue", "(produce, /srv/train.py:29)"));
  EXPECT_THAT(finding, Not(Says("train.py:40")));
  EXPECT_THAT(
      verdict.wait_graphs.front().chain,
      ElementsAre("thread 100/100", "pipe 9000", "thread 101/101", testing::_, "thread 101/150"));
}

TEST(Within, OneOfTwoThreadsAtDifferentPlacesIsNotGuessed) {
  HangScene scene;
  wait_in_condition(scene, scene.main(kWorker),
                    {python("Queue.get", kQueue, 171), python("fetch", "/srv/train.py", 31)});
  for (const int32_t tid : {kThread, kThread + 1}) {
    ThreadSnapshot& thread = scene.add_thread(kWorker, tid);
    wait_for_child(scene, thread);
    scene.stack(thread, {python("produce", "/srv/train.py", tid)});
  }
  EXPECT_THAT(must_find(scene.examine(20), FindingCode::kSlowSample), Not(Says("thread 150")));
}

// A thread that waits with the GIL, and no other that wants it.
HangScene gil_without_waiters() {
  HangScene scene;
  scene.wait_in_futex(scene.main(kWorker), join_of(kThread));
  ThreadSnapshot& holder = scene.add_thread(kWorker, kThread);
  wait_for_child(scene, holder);
  scene.stack(holder, {python("hold", "/srv/train.py", 9)});
  scene.process(kWorker).gil_holder = kThread;
  return scene;
}

TEST(Within, GilOfAThreadThatTheMainThreadWaitsFor) {
  const Finding finding =
      must_find(gil_without_waiters().examine(), FindingCode::kGilHeldWhileBlocked);
  EXPECT_THAT(finding, Says("; worker 101 waits for it"));
}

TEST(Within, GilThatNobodyLacks) {
  HangScene scene = gil_without_waiters();
  wait_in_condition(scene, scene.main(kWorker),
                    {python("serve", "/usr/lib/python3.11/socketserver.py", 9)});
  scene.stack(scene.thread(kWorker, kThread), {native("pause", "/usr/lib/libaudio.so")});
  EXPECT_FALSE(find(scene.examine(), FindingCode::kGilHeldWhileBlocked));
}

// The main thread at a queue of a thread of its own process.
HangScene empty_queue() {
  HangScene scene;
  wait_in_condition(scene, scene.main(kTrainer),
                    {python("Queue.get", kQueue, 171), python("next", "/srv/train.py", 24)});
  wait_in_condition(scene, scene.add_thread(kTrainer, kThread + 9),
                    {python("Queue._feed", "/usr/lib/python3.11/multiprocessing/queues.py", 231)});
  return scene;
}

// Waits for an item of what the main thread has to give back.
ThreadSnapshot& add_filler(HangScene& scene) {
  ThreadSnapshot& filler = scene.add_thread(kTrainer, kThread);
  wait_in_condition(scene, filler,
                    {python("Queue.get", kQueue, 171), python("pump", "/srv/train.py", 13)});
  return filler;
}

TEST(Within, QueueThatNoThreadIsLeftToFill) {
  const Verdict verdict = empty_queue().examine();
  const Finding finding = must_find(verdict, FindingCode::kWaitsForMissingThread);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding,
              Says("trainer 100 waits for an item of an empty queue.Queue (next, "
                   "/srv/train.py:24): no other thread of the program is left to put one in"));
  EXPECT_THAT(finding, AdvisesFirst("which thread was to do that"));
  EXPECT_FALSE(find(verdict, FindingCode::kConsumerStuck));
}

TEST(Within, QueueThatATaskWasToFillWhichFailed) {
  HangScene scene = empty_queue();
  scene.process(kTrainer).failed_tasks = {
      {.exception = "OSError", .stack = {python("load", "/srv/data.py", 6)}}};
  const Finding finding = must_find(scene.examine(), FindingCode::kWaitsForMissingThread);
  EXPECT_THAT(finding.message.plain(),
              HasSubstr("a task of trainer 100 ended with OSError (load, /srv/data.py:6); that may "
                        "be why: trainer 100 waits for an item of an empty queue.Queue (next, "
                        "/srv/train.py:24)"));
  EXPECT_EQ(finding.places.front().line, 6);
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("done.result()"));
}

TEST(Within, ThreadOfAGpusDriverFillsNoQueue) {
  HangScene scene = empty_queue();
  ThreadSnapshot& thread = scene.add_thread(kTrainer, kThread);
  scene.run(thread);
  scene.stack(thread, {native("", "/usr/lib/libcuda.so.580.159.04"),
                       native("clone3", "/usr/lib/libc.so.6")});
  EXPECT_TRUE(find(scene.examine(), FindingCode::kWaitsForMissingThread));
}

TEST(Within, QueuesOfTwoThreadsThatWaitForOneAnother) {
  HangScene scene = empty_queue();
  add_filler(scene);
  const Finding finding = must_find(scene.examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("; thread 150 of trainer 100 waits for an item of an empty queue.Queue "
                            "(pump, /srv/train.py:13): no other thread of the process is at work"));
  EXPECT_THAT(finding, AdvisesFirst("put, take and notify on every way"));
}

TEST(Within, QueueOfAThreadThatTheMainThreadJoins) {
  HangScene scene;
  scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
  scene.stack(scene.main(kTrainer), {python("_shutdown", kThreading, 1540)});
  add_filler(scene);
  EXPECT_THAT(must_find(scene.examine(), FindingCode::kLockCycle).remedies.front().commands,
              ElementsAre(Message("queue.put(None)")));
}

TEST(Within, ThreadThatKeepsAProgramAliveThatIsThrough) {
  for (const bool timed : {true, false}) {
    HangScene scene(0);
    scene.wait_in_futex(scene.main(kTrainer), join_of(kThread));
    scene.stack(scene.main(kTrainer), {python("_shutdown", kThreading, 1583)});
    ThreadSnapshot& beats = scene.add_thread(kTrainer, kThread);
    wait_in_condition(scene, beats,
                      {python("Event.wait", kThreading, 629), python("run", "/srv/train.py", 8)});
    beats.futex->timed = timed;
    const Finding finding =
        must_find(scene.examine(40), timed ? FindingCode::kConsumerStuck : FindingCode::kLockCycle);
    EXPECT_EQ(finding.severity, Severity::kWarning);
    EXPECT_THAT(finding, AdvisesFirst("before the program does"));
    if (timed) {
      EXPECT_THAT(
          finding.message.plain(),
          HasSubstr("trainer 100 is through, and is kept alive: thread 150 of trainer 100"));
    }
  }
}

TEST(Within, ItemsOfAQueueThatNoThreadIsLeftToFinish) {
  HangScene scene;
  wait_in_condition(scene, scene.main(kTrainer),
                    {python("Queue.join", kQueue, 90), python("main", "/srv/train.py", 24)});
  const Finding finding = must_find(scene.examine(), FindingCode::kWaitsForMissingThread);
  EXPECT_THAT(finding, Says("is left to finish them"));
  EXPECT_THAT(finding.remedies.front().commands, ElementsAre(Message("queue.task_done()")));
}

// The main thread waits for an event that a thread sets, and that one for another.
TEST(Within, EventsOfTwoThreadsMayBeMeantUntilCtrlC) {
  HangScene scene;
  for (const int32_t tid : {kTrainer, kThread}) {
    ThreadSnapshot& thread =
        tid == kTrainer ? scene.main(kTrainer) : scene.add_thread(kTrainer, tid);
    wait_in_condition(scene, thread,
                      {python("Event.wait", kThreading, 620), python("run", "/srv/train.py", tid)});
  }
  EXPECT_EQ(must_find(scene.examine(), FindingCode::kLockCycle).severity, Severity::kInfo);
  const Finding finding = must_find(scene.examine(40), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("nobody is left to wake them, unless a signal"));
}

TEST(Within, QueueThatASignalHandlerMayFillIsNoError) {
  HangScene scene = empty_queue();
  scene.info(kTrainer).signals_caught = uint64_t{1} << 14U;  // SIGTERM
  EXPECT_EQ(must_find(scene.examine(40), FindingCode::kWaitsForMissingThread).severity,
            Severity::kWarning);
}

bool is_called_closed(const HangScene& scene) {
  const Verdict verdict = scene.examine(20);
  return find(verdict, FindingCode::kLockCycle) ||
         find(verdict, FindingCode::kWaitsForMissingThread);
}

TEST(Within, QueueWhoseFillerSleepsWorksOrReads) {
  HangScene sleeps = empty_queue();
  sleeps.sleep(add_filler(sleeps));
  EXPECT_FALSE(is_called_closed(sleeps));
  HangScene works = empty_queue();
  works.run(add_filler(works));
  EXPECT_FALSE(is_called_closed(works));
  HangScene reads = empty_queue();
  wait_for_child(reads, add_filler(reads));
  EXPECT_FALSE(is_called_closed(reads));
  HangScene takes = empty_queue();
  ThreadSnapshot& taker = add_filler(takes);
  takes.wait_in_read(taker, HangScene::kResults);
  takes.stack(taker, {python("pump", "/srv/train.py", 12)});
  EXPECT_FALSE(is_called_closed(takes)) << "a batch was lost, or a worker is late";
}

TEST(Within, QueueWhoseFillerWaitsWithATimeout) {
  HangScene scene = empty_queue();
  add_filler(scene).futex->timed = true;
  EXPECT_FALSE(is_called_closed(scene));
  const Finding finding = must_find(scene.examine(20), FindingCode::kConsumerStuck);
  EXPECT_THAT(finding, Says("queue.Queue, with a timeout (pump, "));
  EXPECT_THAT(finding, AdvisesFirst("at the other end of that queue"));
}

TEST(Within, FeederOfAQueueInTheTrainerIsNoThreadThatForkLost) {
  HangScene scene;
  wait_in_condition(scene, scene.main(kWorker),
                    {python("Queue.get", kQueue, 171), python("fetch", "/srv/train.py", 31)});
  scene.stack(scene.main(kTrainer), {python("main", "/srv/train.py", 12)});
  wait_in_condition(scene, scene.add_thread(kTrainer, kThread),
                    {python("Queue._feed", "/usr/lib/python3.11/multiprocessing/queues.py", 231)});
  const Verdict verdict = scene.examine();
  EXPECT_TRUE(find(verdict, FindingCode::kLockCycle));
  EXPECT_FALSE(find(verdict, FindingCode::kWaitsForMissingThread));
}

// Waits that end in another process of the job, which may be at work.

constexpr int32_t kOther = 102;
constexpr int kLong = 40;  // looks
constexpr uint64_t kOutput = 4242;

// The trainer reads the output of a program that it has started; its worker has nothing to do.
HangScene scene_of_a_program() {
  HangScene scene;
  scene.info(kOther).role = Role::kOther;
  scene.info(kOther).start_method.reset();
  scene.wait_in_read(scene.main(kTrainer), kOutput);
  scene.stack(scene.main(kTrainer), {python("evaluate", "/srv/train.py", 9)});
  scene.has_end(kOther, kOutput, false, true);
  scene.stack(scene.main(kOther), {python("main", "/srv/evaluate.py", 3)});
  return scene;
}

void wait_for_fifo(HangScene& scene, int32_t pid) {
  scene.main(pid).futex.reset();
  scene.main(pid).wait = {
      .tid = pid, .syscall = 257, .files = {{.kind = FileKind::kFifo, .path = "/srv/feed"}}};
}

void let_clients_in(HangScene& scene, ThreadSnapshot& thread) {
  scene.wait_in_read(thread, 7003);
  thread.wait.syscall = 288;  // accept4
  thread.wait.files.front().kind = FileKind::kListeningSocket;
}

// A worker asks a process that serves rows, whose main thread lets clients in.
HangScene scene_of_a_server() {
  HangScene scene;
  scene.wait_in_recv(scene.main(kWorker), 7001, 7002);
  scene.stack(scene.main(kWorker), {python("fetch", "/srv/train.py", 9)});
  scene.has_socket(kOther, 7002);
  let_clients_in(scene, scene.main(kOther));
  scene.stack(scene.main(kOther), {python("serve", "/srv/rows.py", 20)});
  scene.stack(scene.add_thread(kOther, kThread), {python("answer", "/srv/rows.py", 8)});
  return scene;
}

TEST(Across, AProgramThatComputesIsWaitedFor) {
  HangScene scene = scene_of_a_program();
  scene.run(scene.main(kOther));
  const Verdict verdict = scene.examine(kLong);
  const Finding finding = must_find(verdict, FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("; process 102 is at work (main, /srv/evaluate.py:3)"));
}

TEST(Across, AProgramThatComputesBetweenShortSleepsIsWaitedFor) {
  HangScene scene = scene_of_a_program();
  scene.sleep(scene.main(kOther));
  EXPECT_EQ(find(scene.examine(kLong), FindingCode::kConsumerStuck)->severity, Severity::kWarning);
  scene.wakes(scene.main(kOther));
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("; process 102 sleeps, and runs now and then"));
}

TEST(Across, AProgramThatWaitsIsTheEndOfTheWait) {
  HangScene scene = scene_of_a_program();
  scene.wait_in_recv(scene.main(kOther), 7001, 0);
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kConsumerStuck);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("; process 102 waits for data from a socket"));
}

TEST(Across, AProgramThatWaitsForAFifoIsNamed) {
  HangScene scene = scene_of_a_program();
  wait_for_fifo(scene, kOther);
  const Verdict verdict = scene.examine(kLong);
  const Finding finding = must_find(verdict, FindingCode::kPipeWithoutPeer);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("process 102 waits for someone to open"));
  EXPECT_FALSE(find(verdict, FindingCode::kConsumerStuck));
  EXPECT_EQ(verdict.wait_graphs.at(0).chain.back(), "thread 102/102");
}

TEST(Across, AServerWhoseThreadComputesIsWaitedFor) {
  HangScene scene = scene_of_a_server();
  scene.run(scene.thread(kOther, kThread));
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kInfo);
  EXPECT_THAT(finding, Says("worker 101 is in the middle of a batch",
                            "; thread 150 of worker 102 is at work (answer, /srv/rows.py:8)"));
}

TEST(Across, AServerThatSleepsBesideAThreadThatLooksOnIsTheEndOfTheWait) {
  HangScene scene = scene_of_a_server();
  scene.wait_in_recv(scene.thread(kOther, kThread), 7002, 7001);
  scene.wait_in_recv(scene.add_thread(kOther, kThread + 1), 7009, 0);
  ThreadSnapshot& looks_on = scene.add_thread(kOther, kThread + 2);
  scene.sleep(looks_on);
  scene.wakes(looks_on);
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kSlowSample);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("; thread 150 of worker 102 waits for data"));
}

TEST(Across, AServerWithoutClientsIsNoSlowWorker) {
  HangScene scene = scene_of_a_server();
  scene.sleep(scene.thread(kOther, kThread));
  const Finding finding = must_find(scene.examine(kLong), FindingCode::kSlowSample);
  EXPECT_THAT(finding, Says("worker 101 is in the middle of a batch"));
  EXPECT_THAT(finding, Not(Says("the same in")));
}

// The trainer serves its workers by threads of its own, of which one wants a lock that `owner` has,
// and feeds them by two queues.
HangScene scene_of_own_server(int32_t owner) {
  HangScene scene;
  for (const int32_t worker : {kWorker, kOther}) {
    const auto socket = static_cast<uint64_t>(7000 + worker);
    scene.wait_in_recv(scene.main(worker), socket, 7002);
    scene.main(worker).wait.files.front().path = "127.0.0.1:8080";
    scene.stack(scene.main(worker), {python("fetch", "/srv/train.py", 20)});
  }
  scene.has_socket(kTrainer, 7002);
  ThreadSnapshot& lets_in = scene.add_thread(kTrainer, kThread + 1);
  let_clients_in(scene, lets_in);
  lets_in.wait.syscall = 7;  // poll, every half second
  lets_in.wait.args = {0x9000, 1, 500, 0, 0, 0};
  scene.stack(lets_in, {python("serve_forever", "/usr/lib/python3.11/socketserver.py", 233)});
  scene.wakes(lets_in);
  for (const int32_t tid : {kThread + 2, kThread + 3})
    wait_in_condition(
        scene, scene.add_thread(kTrainer, tid),
        {python("Queue._feed", "/usr/lib/python3.11/multiprocessing/queues.py", 231)});
  ThreadSnapshot& answers = scene.add_thread(kTrainer, kThread);
  scene.wait_in_futex(answers, python_lock(0x6000, owner));
  scene.stack(answers, {python("do_GET", "/srv/train.py", 11)});
  return scene;
}

TEST(Across, AServerThatWantsALockOfWhoWaitsForItsClients) {
  HangScene scene = scene_of_own_server(kTrainer);
  const Verdict verdict = scene.examine(kLong);
  const Finding finding = must_find(verdict, FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("thread 150 of trainer 100 waits for a threading.Lock held by trainer",
                            "; worker 101 waits for data from a socket"));
  EXPECT_EQ(number(finding, "threads_in_the_circle"), 3);
  EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("Release the lock before"));
  EXPECT_THAT(verdict.wait_graphs.at(0).chain,
              ElementsAre("thread 100/100", "pipe 9000", "thread 101/101", "socket 7101",
                          "thread 100/150", testing::_, "thread 100/100"));
}

TEST(Across, AServerThatWaitsForALockOfAnotherThreadMayGetIt) {
  HangScene scene = scene_of_own_server(kThread + 4);
  scene.sleep(scene.add_thread(kTrainer, kThread + 4));
  EXPECT_FALSE(find(scene.examine(kLong), FindingCode::kLockCycle));
}

// The trainer's event loop waits for the output of a program that it has started.
HangScene scene_of_a_filter() {
  HangScene scene(1);
  scene.info(kWorker).role = Role::kOther;
  scene.info(kWorker).start_method.reset();
  scene.info(kWorker).comm = "sort";
  ThreadSnapshot& trainer = scene.main(kTrainer);
  scene.wait_in_recv(trainer, 7001, 7002);
  trainer.wait.syscall = 232;  // epoll_wait
  trainer.wait.args[3] = 0xFFFFFFFF;
  scene.has_socket(kTrainer, 7001);
  scene.has_socket(kTrainer, 7002);
  trainer.wait.files.push_back({.kind = FileKind::kPipe, .inode = HangScene::kResults});
  scene.stack(trainer, {python("_run_once", "/usr/lib/python3.11/asyncio/base_events.py", 1906)});
  trainer.tasks = {{.stack = {python("main", "/srv/train.py", 11)}, .is_main = true}};
  return scene;
}

TEST(Across, AnEventLoopAndTheProgramWhoseInputItKeepsOpen) {
  const Finding finding = must_find(scene_of_a_filter().examine(), FindingCode::kLockCycle);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("process 101 (sort) waits for data in pipe 9101, written by trainer",
                            "for the output of that program: each waits for the other"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("communicate"));
}

TEST(Across, AnEventLoopThatMayYetWriteOrWaitsForNoOutput) {
  const auto is_found = [](const HangScene& scene) {
    return find(scene.examine(kLong), FindingCode::kLockCycle).has_value();
  };
  HangScene works = scene_of_a_filter();
  works.run(works.main(kWorker));
  EXPECT_FALSE(is_found(works));
  HangScene timer = scene_of_a_filter();
  timer.main(kTrainer).wait.args[3] = 20'000;
  EXPECT_FALSE(is_found(timer));
  HangScene parked = scene_of_a_filter();
  parked.main(kTrainer).tasks.front().stack.insert(
      parked.main(kTrainer).tasks.front().stack.begin(),
      python("Event.wait", "/usr/lib/python3.11/asyncio/locks.py", 213));
  EXPECT_FALSE(is_found(parked)) << "maybe until Ctrl-C";
  HangScene other = scene_of_a_filter();
  other.has_no_end(kWorker, HangScene::kResults);
  EXPECT_FALSE(is_found(other)) << "its output is not waited for";
  HangScene thread = scene_of_a_filter();
  thread.sleep(thread.add_thread(kTrainer, kThread));
  EXPECT_FALSE(is_found(thread));
}

TEST(Across, AWorkerThatLetsClientsInMayBeTheOneThatIsLate) {
  HangScene scene;
  let_clients_in(scene, scene.main(kOther));
  EXPECT_THAT(must_find(scene.examine(kLong), FindingCode::kSlowSample),
              Says("worker 102 is in the middle of a batch"));
}

}  // namespace
}  // namespace dlprobe
