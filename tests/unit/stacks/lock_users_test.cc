#include "lib/stacks/locks/lock_users.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kUsersHeap = 0x100000;
constexpr uint64_t kUsersTypes = 0x200000;
constexpr uint64_t kValueStacks = 0x300000;
constexpr uint64_t kThreadStates = 0x400000;
constexpr uint64_t kThreadHandles = 0x500000;
constexpr uint64_t kHeldLock = kUsersHeap + 0x100;
constexpr uint64_t kExitMethod = kUsersHeap + 0x200;
constexpr uint64_t kPendingExit = kUsersHeap + 0x300;
constexpr uint64_t kStackBytes = 0x40;
constexpr int32_t kMain = 10;
constexpr int32_t kConsumer = 11;

class UsersOfLocks : public ::testing::Test {
 protected:
  UsersOfLocks() {
    for (const uint64_t part :
         {kUsersHeap, kUsersTypes, kValueStacks, kThreadStates, kThreadHandles})
      memory.map(part, 0x2000);
    add_method(kExitMethod, "__exit__");
    add_method(kPendingExit, "__exit__");
    threads[kMain].pthread_id = 0x7f0000001000;
    threads[kConsumer].pthread_id = 0x7f0000002000;
  }

  void set_type(uint64_t object, const std::string& name) {
    const uint64_t type = kUsersTypes + types_++ * 0x100;
    memory.set(object, uint64_t{1});
    memory.set(object + 8, type);
    memory.set(type + 24, type + 0x80);
    memory.set_text(type + 0x80, name);
  }

  /// A method of the lock.
  void add_method(uint64_t object, const std::string& name, uint64_t lock = kHeldLock) {
    set_type(object, "builtin_function_or_method");
    const uint64_t definition = object + 0x80;
    memory.set(object + 16, definition);
    memory.set(object + 24, lock);
    memory.set(definition, definition + 0x40);
    memory.set_text(definition + 0x40, name);
  }

  /// A method of a threading.Condition, as in Python 3.12.
  void add_condition_method(uint64_t object, const std::string& name, uint64_t lock = kHeldLock) {
    constexpr uint64_t kText = 40;
    const uint64_t condition = object + 0x60;
    const uint64_t function = object + 0xC0;
    set_type(object, "method");
    memory.set(object + 16, function);
    memory.set(object + 24, condition);
    set_type(condition, "Condition");
    memory.set(condition - 24, object + 0x180 - 1);
    memory.set(object + 0x180, lock);
    memory.set(function + 16 + 2 * 8, object + 0x140);
    memory.set_text(object + 0x140 + kText, name);
  }

  /// The next outer function of a thread, with those values on its stack.
  void add_frame(int32_t tid, const std::string& file, const std::string& function,
                 const std::vector<uint64_t>& values) {
    const uint64_t begin = kValueStacks + stacks_++ * kStackBytes;
    for (size_t i = 0; i < values.size(); ++i)
      memory.set(begin + i * 8, values[i]);
    threads[tid].frames.push_back({.file = file, .function = function, .line = 1});
    threads[tid].value_stacks.push_back({.begin = begin, .end = begin + kStackBytes});
  }

  std::optional<int32_t> holder(const std::set<int32_t>& waiters = {kConsumer}) const {
    return LockUsers(memory, layout, threads, {kHeldLock}).holder_of(kHeldLock, waiters);
  }

  static constexpr const char* kThreading = "/usr/lib/python3.11/threading.py";
  static constexpr const char* kQueue = "/usr/lib/python3.11/queue.py";

  FakeMemory memory;
  PythonLayout::Object layout;
  std::map<int32_t, PythonThread> threads;

 private:
  uint64_t types_ = 0;
  uint64_t stacks_ = 0;
};

TEST_F(UsersOfLocks, HolderIsInAWithStatement) {
  add_frame(kMain, kThreading, "Condition.wait", {});
  add_frame(kMain, kQueue, "Queue.put", {0, 7, 0x999999999999});
  add_frame(kMain, "/srv/train.py", "step", {kUsersHeap + 0x400, kExitMethod});
  add_frame(kConsumer, "/srv/train.py", "write", {kPendingExit});
  EXPECT_EQ(holder(), kMain);
}

TEST_F(UsersOfLocks, HolderMayBeTheWaiterItselfInAnOuterFunction) {
  add_frame(kConsumer, "/srv/train.py", "inner", {kPendingExit});
  add_frame(kConsumer, "/srv/train.py", "outer", {kExitMethod});
  EXPECT_EQ(holder(), kConsumer);
}

// The workers begin within the trainer's `with` statement.
TEST_F(UsersOfLocks, WhatAForkCopiedHoldsNothing) {
  add_frame(kConsumer, "/srv/train.py", "take_lock", {kPendingExit});
  add_frame(kConsumer, "/usr/lib/python3.11/multiprocessing/popen_fork.py", "Popen._launch", {});
  add_frame(kConsumer, "/srv/train.py", "train", {kExitMethod});
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, WhoOnlyWaitsHoldsNothing) {
  add_frame(kConsumer, "/srv/train.py", "write", {kPendingExit});
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, ValueThatAFrameHasLeftBehindTellsNothing) {
  // Its memory is the waiter's by now.
  add_frame(kMain, "/srv/train.py", "step", {kPendingExit});
  add_frame(kConsumer, "/srv/train.py", "write", {kPendingExit});
  EXPECT_EQ(holder(), std::nullopt);
  // From 3.12 on a waiter has the lock there; what lies behind it is left from before.
  threads[kConsumer].value_stacks.clear();
  threads[kConsumer].frames.clear();
  add_frame(kConsumer, "/srv/train.py", "write", {kHeldLock, 0, kPendingExit});
  EXPECT_EQ(holder(), kMain);
  // Freed, with a pointer to the next free block, or none.
  for (const uint64_t next : {uint64_t{0}, kUsersHeap + 0x500}) {
    memory.set(kPendingExit, next);
    EXPECT_EQ(holder(), std::nullopt);
  }
}

TEST_F(UsersOfLocks, OtherMethodsAndOtherLocksAreNone) {
  add_method(kUsersHeap + 0x600, "__enter__");
  add_method(kUsersHeap + 0x700, "__exit__", kHeldLock + 0x20);
  add_method(kUsersHeap + 0x800, "__exit__er");
  add_frame(kMain, "/srv/train.py", "step",
            {kUsersHeap + 0x600, kUsersHeap + 0x700, kUsersHeap + 0x800, kHeldLock});
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, WhoIsInAWithOnAConditionHasItsLock) {
  constexpr uint64_t kOuter = kUsersHeap + 0x800;
  constexpr uint64_t kInner = kUsersHeap + 0xA00;
  add_condition_method(kOuter, "__exit__");
  add_condition_method(kInner, "__exit__");
  // A handler of a signal puts into the queue in whose put() it came.
  add_frame(kConsumer, kThreading, "Condition.__enter__", {kPendingExit});
  add_frame(kConsumer, kQueue, "Queue.put", {kInner});
  add_frame(kConsumer, "/srv/train.py", "handle", {});
  EXPECT_EQ(holder(), std::nullopt) << "it has not entered";
  add_frame(kConsumer, kQueue, "Queue.put", {kOuter});
  EXPECT_EQ(holder(), kConsumer);
  add_frame(kConsumer, kThreading, "Condition.wait", {});
  EXPECT_EQ(holder(), std::nullopt) << "it may have given the lock back";
}

TEST_F(UsersOfLocks, OtherMethodsAndOtherConditionsAreNone) {
  add_condition_method(kUsersHeap + 0x800, "notify_al");
  add_condition_method(kUsersHeap + 0xA00, "__exit__", kHeldLock + 0x20);
  add_frame(kConsumer, "/srv/train.py", "write", {kPendingExit});
  add_frame(kMain, "/srv/train.py", "step", {kUsersHeap + 0x800, kUsersHeap + 0xA00});
  EXPECT_EQ(holder(), std::nullopt);
  // Who leaves it may have given it back already.
  constexpr uint64_t kLeft = kUsersHeap + 0xC00;
  add_condition_method(kLeft, "__exit__");
  add_frame(12, kThreading, "Condition.__exit__", {});
  add_frame(12, kQueue, "Queue.put", {kLeft});
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, OneOfTwoIsNotSure) {
  add_method(kUsersHeap + 0x600, "__exit__");
  add_frame(kMain, "/srv/train.py", "step", {kExitMethod});
  add_frame(12, "/srv/train.py", "other", {kUsersHeap + 0x600});
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, ConditionOfTheUsersMayHaveGivenTheLockBack) {
  add_frame(kMain, kThreading, "Condition.wait", {});
  add_frame(kMain, kThreading, "Condition.wait_for", {});
  add_frame(kMain, "/srv/train.py", "step", {kExitMethod});
  EXPECT_EQ(holder(), std::nullopt);
  threads[kMain].frames[1].function = "Event.wait";
  EXPECT_EQ(holder(), kMain);
}

TEST_F(UsersOfLocks, FreeThreadedPythonIsNotJudged) {
  add_frame(kMain, "/srv/train.py", "step", {kExitMethod});
  layout.head_bytes = 32;
  EXPECT_EQ(holder(), std::nullopt);
}

TEST_F(UsersOfLocks, JoinedThreadHasAWeakReferenceToItsLock) {
  constexpr uint64_t kReference = kUsersHeap + 0x900;
  set_type(kReference, "weakref.ReferenceType");
  memory.set(kReference + 16, kHeldLock);
  threads[kMain].tstate = kThreadStates;
  threads[kConsumer].tstate = kThreadStates + 0x1000;
  const auto joined = [&] {
    return LockUsers(memory, layout, threads, {kHeldLock}).joined_by_lock(kHeldLock);
  };
  EXPECT_EQ(joined(), std::nullopt);
  memory.set(threads[kConsumer].tstate + 0xC8, kReference);
  EXPECT_EQ(joined(), kConsumer);
  set_type(kReference, "cell");
  EXPECT_EQ(joined(), std::nullopt);
}

TEST_F(UsersOfLocks, HandleOfAJoinedThreadHasItsPthreadTwice) {
  const uint64_t event = kThreadHandles + 0x64;
  const LockUsers users(memory, layout, threads, {});
  memory.set(kThreadHandles + 0x40, kUsersHeap);  // a list with one node
  memory.set(kThreadHandles + 0x48, kUsersHeap);
  memory.set(kThreadHandles + 0x50, threads[kConsumer].pthread_id);
  EXPECT_EQ(users.joined_by_event(event), std::nullopt);
  memory.set(kThreadHandles + 0x58, threads[kConsumer].pthread_id);
  EXPECT_EQ(users.joined_by_event(event), kConsumer);
  EXPECT_EQ(users.joined_by_event(kThreadHandles + 0x1000), std::nullopt);
  EXPECT_EQ(users.joined_by_event(0), std::nullopt);
}

}  // namespace
}  // namespace dlprobe
