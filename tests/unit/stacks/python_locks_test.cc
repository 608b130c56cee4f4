#include "lib/stacks/locks/python_locks.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string>
#include <vector>

#include "lib/stacks/locks/pointer_scan.h"
#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kArena = 0x10000;
constexpr uint64_t kArenaEnd = 0x12000;
constexpr uint64_t kSemaphore = 0x7000;

/// Memory by process_vm_readv as a test has made it.
class FakeProcess final : public ProcessAccess {
 public:
  FakeMemory memory;
  mutable int reads = 0;

  Status read_memory(pid_t /*pid*/, uint64_t address, std::span<std::byte> bytes) const override {
    ++reads;
    return memory.read(address, bytes);
  }

  Expected<std::vector<bool>> pages_in_memory(pid_t pid, uint64_t address,
                                              size_t count) const override {
    if (untouched.empty()) return ProcessAccess::pages_in_memory(pid, address, count);
    std::vector<bool> present(count, true);
    for (size_t page = 0; page < count; ++page)
      present[page] = !untouched.contains(address + page * ProcessMemory::kPageBytes);
    return present;
  }

  std::set<uint64_t> untouched;  ///< pages; none: the kernel does not tell
};

class PythonLocks : public ::testing::Test {
 protected:
  PythonLocks() {
    process.memory.map(kArena, kArenaEnd - kArena);
    // Strings are read 32 bytes at a time.
    process.memory.map(0x20000, 256);
    add_type(0x20010, "_thread.lock");
    add_type(0x20050, "_thread.RLock");
    add_type(0x20090, "_multiprocessing.SemLock");
    add_type(0x200D0, "_io.BufferedWriter");
  }

  void add_type(uint64_t name, const std::string& text) {
    const uint64_t type = name + 0x10000;
    process.memory.set(type + 24, name);
    process.memory.set_text(name, text);
    types.push_back(type);
  }

  void add_object(uint64_t address, uint64_t type, std::array<uint64_t, 4> words) {
    process.memory.set(address, uint64_t{1});
    process.memory.set(address + 8, type);
    process.memory.set(address + 16, words[0]);
    process.memory.set(address + 24, words[1]);
    process.memory.set(address + 32, words[2]);
    process.memory.set(address + 40, words[3]);
  }

  std::vector<PythonLockObject> find(std::vector<uint64_t> semaphores = {kSemaphore}) {
    return find_python_locks(PointerScan(process, 1, space), process.memory, layout, semaphores,
                             places);
  }

  FakeProcess process;
  std::vector<uint64_t> types;
  AddressSpace space{{{.begin = kArena, .end = kArenaEnd, .readable = true, .writable = true}}};
  PythonLayout::Object layout;
  PythonLockPlaces places;
};

TEST_F(PythonLocks, PagesThatAreNotInMemoryAreLeftAlone) {
  add_object(0x10100, types[0], {kSemaphore, 0, 0, 0});
  process.untouched = {kArena};
  EXPECT_TRUE(find().empty());
  process.untouched = {kArena + 0x1000};
  EXPECT_EQ(find().size(), 1U);
}

TEST_F(PythonLocks, AreFoundOnTheStackOfTheirWaiterWithoutAScan) {
  constexpr uint64_t kStack = 0x7ff000;
  process.memory.map(kStack, 0x1000);
  space =
      AddressSpace{{{.begin = kArena, .end = kArenaEnd, .readable = true, .writable = true},
                    {.begin = kStack, .end = kStack + 0x1000, .readable = true, .writable = true}}};
  add_object(0x10100, types[0], {kSemaphore, 0, 0, 0});
  process.memory.set(kStack + 0x108, uint64_t{0x10200});
  process.memory.set(kStack + 0x110, uint64_t{0x10100});
  find_place_on_stack(process.memory, space, layout, {kSemaphore, kStack + 0x100}, places);
  EXPECT_EQ(places, (PythonLockPlaces{{kSemaphore, 0x10100}}));
  process.reads = 0;
  EXPECT_EQ(find().size(), 1U);
  EXPECT_EQ(process.reads, 0);
  // In another copy of the same parent, the lock that was made there lies elsewhere.
  places = {{kSemaphore, 0x10300}};
  find_place_on_stack(process.memory, space, layout, {kSemaphore, kStack + 0x100}, places);
  EXPECT_EQ(places, (PythonLockPlaces{{kSemaphore, 0x10100}}));
}

TEST_F(PythonLocks, LockHasNoOwner) {
  add_object(0x10100, types[0], {kSemaphore, 0, 0, 0});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "_thread.lock");
  EXPECT_FALSE(found[0].owner);
}

TEST_F(PythonLocks, RLockHasOwnerAndCount) {
  add_object(0x10100, types[1], {kSemaphore, 0xABCD, 2, 0});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].owner, 0xABCDU);
  EXPECT_EQ(found[0].count, 2);
}

TEST_F(PythonLocks, SemLockHasCountKindAndMaximum) {
  // count and maxvalue, then kind, in 32 bits each.
  add_object(0x10100, types[2], {kSemaphore, 0xABCD, uint64_t{1} << 32 | 1, 0});
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].count, 1);
  EXPECT_EQ(found[0].max_value, 1);
  EXPECT_TRUE(found[0].recursive);
}

TEST_F(PythonLocks, BufferOfAFileHasItsLockAndOwnerBehindItsPositions) {
  constexpr uint64_t kStack = 0x7ff000;
  process.memory.map(kStack, 0x1000);
  space =
      AddressSpace{{{.begin = kArena, .end = kArenaEnd, .readable = true, .writable = true},
                    {.begin = kStack, .end = kStack + 0x1000, .readable = true, .writable = true}}};
  add_object(0x10100, types[3], {0, 0, 0, 0});
  process.memory.set(0x10100 + 104, kSemaphore);
  process.memory.set(0x10100 + 112, uint64_t{0xABCD});
  process.memory.set(kStack + 0x110, uint64_t{0x10100});
  find_place_on_stack(process.memory, space, layout, {kSemaphore, kStack + 0x100}, places);
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].type, "_io.BufferedWriter");
  EXPECT_EQ(found[0].owner, 0xABCDU);
  EXPECT_EQ(found[0].count, 1);
  add_object(0x10100, types[0], {0, 0, 0, 0});
  EXPECT_TRUE(find().empty()) << "a lock has no such field";
}

TEST_F(PythonLocks, OfFreeThreadedPythonHaveALongerHead) {
  layout = {.head_bytes = 32, .type = 24, .type_name = 40};
  constexpr uint64_t kType = 0x20090 + 0x10000;
  process.memory.set(kType + 40, uint64_t{0x20090});
  process.memory.set(0x10100 + 12, uint32_t{1});  // ob_ref_local
  process.memory.set(0x10100 + 24, kType);
  process.memory.set(0x10100 + 32, kSemaphore);
  process.memory.set(0x10100 + 48, uint64_t{1} << 32 | 1);
  const auto found = find();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].count, 1);
  process.memory.set(0x10100 + 12, uint32_t{0});
  EXPECT_TRUE(find().empty());
}

TEST_F(PythonLocks, WordsThatAreNoObjectAreLeftOut) {
  process.memory.set(0x10100, kSemaphore);            // nothing around it
  add_object(0x10200, 0x999, {kSemaphore, 0, 0, 0});  // no type there
  EXPECT_TRUE(find().empty());
}

TEST_F(PythonLocks, AnotherProcessIsLookedAtWhereTheFirstHadIt) {
  add_object(0x10100, types[0], {kSemaphore, 0, 0, 0});
  ASSERT_EQ(find().size(), 1U);
  process.reads = 0;
  EXPECT_EQ(find().size(), 1U);
  EXPECT_EQ(process.reads, 0);  // no scan
}

TEST_F(PythonLocks, AStalePlaceIsScannedFor) {
  places[kSemaphore] = 0x10800;
  add_object(0x10100, types[0], {kSemaphore, 0, 0, 0});
  EXPECT_EQ(find().size(), 1U);
}

TEST(PointerScan, MemoryBeyondTheLimitIsLeftOutAndSaid) {
  FakeProcess process;
  process.memory.map(kArena, kArenaEnd - kArena);
  process.memory.set(kArena + 8, kSemaphore);
  const AddressSpace space{
      {{.begin = kArena, .end = kArenaEnd, .readable = true, .writable = true}}};
  const PointerScan scan(process, 1, space);
  const std::vector<uint64_t> wanted = {kSemaphore};
  int found = 0;
  const auto count = [&](uint64_t, uint64_t) { return ++found > 0; };
  EXPECT_FALSE(scan.run(wanted, 4096, count));
  EXPECT_EQ(found, 0);
  EXPECT_TRUE(scan.run(wanted, 1 << 20, count));
  EXPECT_EQ(found, 1);
}

TEST(PointerScan, SharedAndReadOnlyMemoryIsNotLookedAt) {
  FakeProcess process;
  process.memory.map(kArena, kArenaEnd - kArena);
  process.memory.set(kArena + 8, kSemaphore);
  const AddressSpace space{{{.begin = kArena,
                             .end = kArena + 0x1000,
                             .readable = true,
                             .writable = true,
                             .shared = true},
                            {.begin = kArena + 0x1000, .end = kArenaEnd, .readable = true}}};
  const std::vector<uint64_t> wanted = {kSemaphore};
  EXPECT_TRUE(PointerScan(process, 1, space).run(wanted, 1 << 20, [](uint64_t, uint64_t) {
    ADD_FAILURE();
    return true;
  }));
}

}  // namespace
}  // namespace dlprobe
