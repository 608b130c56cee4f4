#include "lib/stacks/locks/parking_lot.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kLockHeap = 0x10000;
constexpr uint64_t kLockObject = 0x10100;
constexpr uint64_t kThreadStack = 0x7ff000;
constexpr uint64_t kStackPointer = kThreadStack + 0x100;
constexpr uint64_t kParkedAt = kThreadStack + 0x210;
constexpr uint64_t kNote = kThreadStack + 0x300;  ///< struct mutex_entry
constexpr uint8_t kLockedWithWaiters = 3;

class ParkingLot : public ::testing::Test {
 protected:
  ParkingLot() {
    memory.map(kLockHeap, 0x1000);
    memory.map(kThreadStack, 0x1000);
  }

  /// An object that begins with a mutex; free-threaded builds have a longer head.
  uint64_t add_object(const std::string& type) {
    constexpr uint64_t kType = kLockHeap + 0x400;
    constexpr uint64_t kName = kLockHeap + 0x800;
    memory.set(kLockObject + object.type, kType);
    memory.set(kType + object.type_name, kName);
    memory.set_text(kName, type);
    return kLockObject + object.head_bytes;
  }

  void park(uint64_t argument, uint64_t address, uint8_t byte) {
    memory.set(address, byte);
    memory.set(kParkedAt - 16, argument);
    memory.set(kParkedAt - 8, address);
  }

  std::optional<ParkedWait> read(uint64_t semaphore = kParkedAt) const {
    return read_parked_wait(memory, space, object, semaphore, kStackPointer);
  }

  FakeMemory memory;
  AddressSpace space{
      {{.begin = kLockHeap, .end = kLockHeap + 0x1000, .readable = true, .writable = true},
       {.begin = kThreadStack, .end = kThreadStack + 0x1000, .readable = true, .writable = true}}};
  PythonLayout::Object object;
};

TEST_F(ParkingLot, HasWaitersForALock) {
  const uint64_t mutex = add_object("_thread.lock");
  park(kNote, mutex, kLockedWithWaiters);
  EXPECT_EQ(read(),
            (ParkedWait{.address = mutex, .kind = LockKind::kPythonMutex, .type = "_thread.lock"}));
}

TEST_F(ParkingLot, HasWaitersForAnRLockThatSaysWhoHasIt) {
  const uint64_t mutex = add_object("_thread.RLock");
  park(kNote, mutex, kLockedWithWaiters);
  memory.set(mutex + 8, uint64_t{0xABCD});
  EXPECT_EQ(read(), (ParkedWait{.address = mutex,
                                .kind = LockKind::kPythonMutex,
                                .type = "_thread.RLock",
                                .owner = 0xABCD}));
}

TEST_F(ParkingLot, OfFreeThreadedPythonHasObjectsWithALongerHead) {
  object = {.head_bytes = 32, .type = 24, .type_name = 40};
  const uint64_t mutex = add_object("_thread.lock");
  park(kNote, mutex, kLockedWithWaiters);
  EXPECT_EQ(read(),
            (ParkedWait{.address = mutex, .kind = LockKind::kPythonMutex, .type = "_thread.lock"}));
}

TEST_F(ParkingLot, HasWaitersForAMutexOfCPythonsOwn) {
  park(kNote, kLockObject + 0x40, kLockedWithWaiters);
  EXPECT_EQ(read(), (ParkedWait{.address = kLockObject + 0x40, .kind = LockKind::kPythonMutex}));
}

TEST_F(ParkingLot, HasWaitersThatAreWoken) {
  park(0, kLockObject + 0x40, 2);  // PyEvent
  EXPECT_EQ(read(), ParkedWait{.address = kLockObject + 0x40});
  const uint64_t queue = add_object("_queue.SimpleQueue");
  park(kNote, queue, 1);  // has_threads_waiting
  EXPECT_EQ(read(), ParkedWait{.address = queue});
}

TEST_F(ParkingLot, IsNotWhereTheSemaphoreIsNotTheThreadsOwn) {
  park(kNote, add_object("_thread.lock"), kLockedWithWaiters);
  EXPECT_EQ(read(kLockObject), std::nullopt);
  EXPECT_EQ(read(kThreadStack + 0x80), std::nullopt);  // below the innermost function
  memory.set(kParkedAt - 8, uint64_t{0xdead0000});
  EXPECT_EQ(read(), std::nullopt);
}

}  // namespace
}  // namespace dlprobe
