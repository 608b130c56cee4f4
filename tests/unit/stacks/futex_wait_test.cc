#include "lib/stacks/locks/futex_wait.h"

#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include <array>
#include <cstdint>
#include <vector>

#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kWord = 0x7000'0000;
constexpr uint64_t kSharedWord = 0x8000'0100;
constexpr uint64_t kTimeout = 0x1234;
// What glibc 2.36 was seen to use: FUTEX_WAIT and FUTEX_WAIT_BITSET, with their flags.
constexpr uint64_t kWaitPrivate = FUTEX_WAIT | FUTEX_PRIVATE_FLAG;
constexpr uint64_t kBitsetPrivate = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
constexpr uint64_t kBitsetShared = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;

class FutexWaits : public testing::Test {
 protected:
  FutexWaits() { memory_.map(kWord - 256, 1024), memory_.map(kSharedWord - 256, 1024); }

  FutexWait decode(uint64_t operation, uint64_t expected, uint64_t timeout = 0,
                   uint64_t address = kWord) {
    const SyscallFile call{.number = SYS_futex,
                           .args = {address, operation, expected, timeout, 0, 0xFFFFFFFF},
                           .stack_pointer = 1,
                           .program_counter = 1};
    return decode_futex_wait(call, memory_, space_).value();
  }
  void put(std::array<uint32_t, 5> words, uint64_t address = kWord) { memory_.set(address, words); }
  FutexWait refined(FutexWait wait, const char* function, const char* file) const {
    const std::vector<StackFrame> stack = {{.function = "futex_wait", .file = "/lib/libc.so.6"},
                                           {.function = function, .file = file}};
    refine_by_stack(wait, stack, memory_);
    return wait;
  }

  /// At a semaphore of CPython's parking lot, for `function`.
  FutexWait parked(const char* function) {
    put({0, 1});
    FutexWait wait = decode(FUTEX_WAIT_PRIVATE, 0);
    const std::vector<StackFrame> stack = {
        {.function = "sem_clockwait@GLIBC_2.34", .file = "/lib/libc.so.6"},
        {.function = "_PyParkingLot_Park", .file = "/lib/libpython3.13.so.1.0"},
        {.function = function, .file = "/lib/libpython3.13.so.1.0"}};
    refine_by_stack(wait, stack, memory_);
    return wait;
  }

  FakeMemory memory_;
  AddressSpace space_{{{.begin = 0x8000'0000,
                        .end = 0x8000'1000,
                        .offset = 0x2000,
                        .readable = true,
                        .writable = true,
                        .shared = true,
                        .device = 1,
                        .inode = 77,
                        .path = "/dev/shm/sem.mp-x"}}};
};

TEST_F(FutexWaits, OnlyCallsThatWaitAreDecoded) {
  SyscallFile call{.number = SYS_futex, .args = {kWord, FUTEX_WAKE, 1}};
  EXPECT_FALSE(decode_futex_wait(call, memory_, space_));
  call = {.number = SYS_read, .args = {kWord, FUTEX_WAIT, 1}};
  EXPECT_FALSE(decode_futex_wait(call, memory_, space_));
  call = {.running = true, .number = SYS_futex, .args = {kWord, FUTEX_WAIT, 1}};
  EXPECT_FALSE(decode_futex_wait(call, memory_, space_));
}

TEST_F(FutexWaits, AMutexNamesItsOwner) {
  put({2, 0, 4711, 1, 0});
  const FutexWait wait = decode(kWaitPrivate, 2);
  EXPECT_EQ(wait.kind, LockKind::kMutex);
  EXPECT_EQ(wait.owner_tid, 4711);
  EXPECT_FALSE(wait.timed);
  EXPECT_FALSE(wait.shared);
  EXPECT_TRUE(decode(kBitsetPrivate, 2, kTimeout).timed);
}

TEST_F(FutexWaits, AWordWithoutAMutexAroundItIsALowLevelLock) {
  put({2, 0, 0, 0, 0});
  EXPECT_EQ(decode(kWaitPrivate, 2).kind, LockKind::kLowLevelLock);
  put({2, 0, 4711, 1, 0x12345});  // no kind of mutex
  EXPECT_EQ(decode(kWaitPrivate, 2).kind, LockKind::kLowLevelLock);
}

TEST_F(FutexWaits, ARobustOrPriorityInheritingMutexHasItsOwnerInTheWord) {
  const FutexWait robust = decode(FUTEX_WAIT, FUTEX_WAITERS | 4711U);
  EXPECT_EQ(robust.kind, LockKind::kMutex);
  EXPECT_EQ(robust.owner_tid, 4711);
  memory_.set(kWord, FUTEX_WAITERS | 815U);
  EXPECT_EQ(decode(FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0).owner_tid, 815);
}

TEST_F(FutexWaits, ASemaphoreOfOtherProcessesIsKnownByItsFile) {
  put({0, 1, 0x80, 0, 0});
  EXPECT_EQ(decode(kBitsetPrivate, 0).kind, LockKind::kSemaphore);
  put({0, 2, 0, 0, 0}, kSharedWord);
  const FutexWait shared = decode(kBitsetShared, 0, 0, kSharedWord);
  EXPECT_EQ(shared.kind, LockKind::kSharedSemaphore);
  EXPECT_EQ(shared.inode, 77U);
  EXPECT_EQ(shared.offset, 0x2100U);
  EXPECT_EQ(shared.file, "/dev/shm/sem.mp-x");
}

TEST_F(FutexWaits, AnOpenMpTeamIsToldByLibgompOnTheStack) {
  memory_.set(kWord - 4, uint32_t{4});
  memory_.set(kWord, uint32_t{8});
  memory_.set(kWord + 60, uint32_t{4});
  const FutexWait wait = decode(kWaitPrivate, 8);
  EXPECT_EQ(wait.kind, LockKind::kUnknown);
  const FutexWait refined_wait = refined(wait, "", "/x/torch.libs/libgomp-a34b3233.so.1.0.0");
  EXPECT_EQ(refined_wait.kind, LockKind::kOpenMpBarrier);
  EXPECT_EQ(refined_wait.team_size, 4U);
  EXPECT_EQ(refined(wait, "", "/x/libother.so").kind, LockKind::kUnknown);
  memory_.set(kWord - 4, uint32_t{100'000});  // no team has so many
  EXPECT_EQ(refined(wait, "", "/lib/libgomp.so.1").kind, LockKind::kUnknown);
  EXPECT_EQ(decode(kWaitPrivate, 0xFFFFFFFF).kind, LockKind::kOpenMpLock);
}

TEST_F(FutexWaits, TheFunctionOfLibcSaysMoreThanTheWords) {
  const FutexWait wait = decode(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 4711);
  const FutexWait join = refined(wait, "pthread_join@GLIBC_2.34", "/lib/libc.so.6");
  EXPECT_EQ(join.kind, LockKind::kJoin);
  EXPECT_EQ(join.owner_tid, 4711);
  EXPECT_EQ(refined(wait, "pthread_cond_wait", "/lib/libc.so.6").kind, LockKind::kCondition);
  EXPECT_EQ(refined(wait, "pthread_rwlock_rdlock", "/lib/libc.so.6").kind,
            LockKind::kReadWriteLock);
  EXPECT_EQ(refined(wait, "pthread_cond_wait", "/x/libother.so").kind, LockKind::kUnknown);
}

TEST_F(FutexWaits, AProgramThatCallsFutexByItselfHasWordsOfItsOwn) {
  const auto in = [this](FutexWait wait, const char* function, const char* file) {
    const std::vector<StackFrame> stack = {{.function = function, .file = file}};
    refine_by_stack(wait, stack, memory_);
    return wait;
  };
  put({2, 0, 0, 0, 0});
  const FutexWait lock = decode(kWaitPrivate, 2);
  EXPECT_EQ(in(lock, "__lll_lock_wait_private", "/lib/libc.so.6").kind, LockKind::kLowLevelLock);
  EXPECT_EQ(in(lock, "__lll_lock_wait", "/bin/static").kind, LockKind::kLowLevelLock);
  EXPECT_EQ(in(lock, "syscall", "/lib/libc.so.6").kind, LockKind::kUnknown);  // TBB's idle threads
  EXPECT_EQ(in(lock, "park", "/x/libtbb.so.12").kind, LockKind::kUnknown);
  put({2, 0, 4711, 1, 0});
  const FutexWait mutex = in(decode(kWaitPrivate, 2), "syscall", "/lib/libc.so.6");
  EXPECT_EQ(mutex.kind, LockKind::kUnknown);
  EXPECT_FALSE(mutex.owner_tid);
  put({0, 1, 0x80, 0, 0});
  EXPECT_EQ(in(decode(kBitsetPrivate, 0), "syscall", "/lib/libc.so.6").kind, LockKind::kUnknown);
  memory_.set(kWord, FUTEX_WAITERS | 815U);  // the kernel's own protocol, whoever calls it
  const FutexWait pi = decode(FUTEX_LOCK_PI | FUTEX_PRIVATE_FLAG, 0);
  EXPECT_EQ(in(pi, "syscall", "/lib/libc.so.6").owner_tid, 815);
}

TEST_F(FutexWaits, AWordThatCannotBeReadIsStillAWait) {
  const FutexWait wait = decode(kWaitPrivate, 2, 0, 0x10);
  EXPECT_EQ(wait.expected, 2U);
  EXPECT_FALSE(wait.owner_tid);
}

TEST_F(FutexWaits, OfThoseWhoParkInCpythonOnlySomeWaitForALock) {
  EXPECT_EQ(parked("_PyMutex_LockTimed").kind, LockKind::kPythonMutex);
  EXPECT_EQ(parked("PyEvent_WaitTimed").kind, LockKind::kCondition);
  EXPECT_EQ(parked("_queue_SimpleQueue_get").kind, LockKind::kCondition);
}

}  // namespace
}  // namespace dlprobe
