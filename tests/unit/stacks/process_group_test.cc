#include "lib/stacks/native/process_group.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_memory.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr uint64_t kStack = 0x7000;
constexpr uint64_t kHeap = 0x100000;
constexpr uint64_t kLibrary = 0x400000;
constexpr uint64_t kGloo = kLibrary + 0x100;  // vtables
constexpr uint64_t kNccl = kLibrary + 0x200;
constexpr uint64_t kOther = kLibrary + 0x300;
constexpr uint64_t kToFunctions = 16;

/// A process with torch: one thread, a heap with process groups.
class TorchProcess final : public SymbolSource {
 public:
  TorchProcess() {
    memory.map(kStack, 0x1000);
    memory.map(kHeap, 0x1000);
  }

  std::optional<uint64_t> symbol(const Mapping& /*mapping*/, std::string_view name) override {
    if (name == "_ZTVN4c10d16ProcessGroupGlooE") return kGloo;
    if (name == "_ZTVN4c10d16ProcessGroupNCCLE") return kNccl;
    return std::nullopt;
  }
  std::optional<AddressRange> section(const Mapping& /*mapping*/,
                                      std::string_view /*name*/) override {
    return std::nullopt;
  }

  /// The n-th object of the heap, as torch 2.13 has it, and a pointer to it on the stack.
  void has_group(int n, int32_t rank, int32_t size, const std::string& name,
                 uint64_t vtable = kGloo) {
    const uint64_t object = point_to(n, vtable);
    memory.set(object + 8, uint64_t{0x100000004});
    memory.set(object + 16, rank);
    memory.set(object + 20, size);
    memory.set(object + 32, object + 48);
    memory.set(object + 40, uint64_t{name.size()});
    memory.set_text(object + 48, name + '\0');
  }

  /// The same of torch 1.13.
  void has_old_group(int n, int32_t rank, int32_t size) {
    const uint64_t object = point_to(n, kGloo);
    memory.set(object + 8, uint64_t{2});
    memory.set(object + 16, uint64_t{1});
    memory.set(object + 24, rank);
    memory.set(object + 28, size);
    memory.set(object + 40, uint64_t{0x756f7067'69646f6c});
  }

  /// A group of NCCL of torch 2.11: only an object of its watchdog is on a stack.
  void has_watched_group(int n, int32_t rank, int32_t size, const std::string& name) {
    has_group(n, rank, size, name, kNccl);
    const uint64_t object = kHeap + static_cast<uint64_t>(n) * 0x100;
    const uint64_t watchdog = object + 0xe0;
    memory.set(watchdog, kOther + kToFunctions);
    memory.set(watchdog + 16, object);
    memory.set(kStack + 0x40 + static_cast<uint64_t>(n) * 8, watchdog);
  }

  /// What is asked for, and complete, in the n-th group: c10d::ProcessGroupStatus, by make_shared.
  void is_at(int n, int64_t enqueued, int64_t completed, const std::string& type,
             uint64_t elements = 0) {
    const uint64_t object = kHeap + static_cast<uint64_t>(n) * 0x100;
    const uint64_t status = kHeap + 0x800 + static_cast<uint64_t>(n) * 0x100;
    memory.set(object + 80, status);
    memory.set(object + 88, status - 16);
    memory.set(status, enqueued);
    memory.set(status + 8, int64_t{-1});
    memory.set(status + 16, completed);
    has_text(status + 24, type);
    has_text(status + 56, "");
    has_text(status + 88, completed < 0 ? "" : type);
    memory.set(status + 120, elements);
  }

  std::optional<JobRank> read() {
    std::vector<Mapping> mappings = {
        {.begin = kStack, .end = kStack + 0x1000, .writable = true},
        {.begin = kHeap, .end = kHeap + 0x1000, .writable = true},
        {.begin = kLibrary, .end = kLibrary + 0x1000, .inode = 7, .path = library}};
    const AddressSpace space(std::move(mappings));
    groups = find_process_groups(memory, space, *this, {kStack + 3});
    return rank_of_default_group(groups, space);
  }

  FakeMemory memory;
  std::vector<ProcessGroup> groups;  ///< that were found
  std::string library = "/usr/lib/torch/lib/libtorch_cpu.so";

 private:
  // Longer ones are not within the std::string.
  void has_text(uint64_t at, const std::string& text) {
    const uint64_t place = text.size() < 16 ? at + 16 : kHeap + 0xf00;
    memory.set(at, place);
    memory.set(at + 8, uint64_t{text.size()});
    memory.set_text(place, text + '\0');
  }

  uint64_t point_to(int n, uint64_t vtable) {
    const uint64_t object = kHeap + static_cast<uint64_t>(n) * 0x100;
    memory.set(object, vtable + kToFunctions);
    memory.set(kStack + 0x40 + static_cast<uint64_t>(n) * 8, object);
    return object;
  }
};

TEST(GroupRank, IsThatOfTheDefaultGroup) {
  TorchProcess process;
  process.has_group(0, 0, 2, "7");
  process.has_group(1, 3, 4, "0");
  const auto rank = must(process.read());
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.world_size, 4);
  EXPECT_EQ(rank.source, "c10d::ProcessGroupGloo");
  EXPECT_EQ(rank.job, "");
}

TEST(GroupRank, AGroupOfSomeRanksTellsNothing) {
  TorchProcess process;
  process.has_group(0, 0, 2, "7");
  EXPECT_FALSE(process.read());
}

TEST(GroupRank, OfTorch113TheLargestGroupCounts) {
  TorchProcess process;
  process.has_old_group(0, 0, 2);
  process.has_old_group(1, 5, 8);
  const auto rank = must(process.read());
  EXPECT_EQ(rank.rank, 5);
  EXPECT_EQ(rank.world_size, 8);
  process.library = "/usr/lib/torch/lib/libtorch_cuda.so";
  EXPECT_FALSE(process.read()) << "the default group may be one of NCCL";
}

TEST(GroupRank, TwoThatDisagreeTellNothing) {
  TorchProcess process;
  process.has_old_group(0, 0, 2);
  process.has_old_group(1, 1, 2);
  EXPECT_FALSE(process.read());
}

TEST(GroupRank, WhatIsNoProcessGroupTellsNothing) {
  TorchProcess process;
  EXPECT_FALSE(process.read()) << "no object";
  process.has_group(0, 3, 4, "0", kOther);
  EXPECT_FALSE(process.read()) << "another class";
  process.has_group(0, 4, 4, "0");
  EXPECT_FALSE(process.read()) << "a rank beyond the size";
  process.has_group(0, 1, 1 << 30, "0");
  EXPECT_FALSE(process.read()) << "no job has as many ranks";
  process.has_group(0, 3, 4, "0");
  process.library = "/usr/lib/libother.so";
  EXPECT_FALSE(process.read()) << "another library";
}

TEST(GroupRank, AGroupOfNcclIsFoundByItsWatchdog) {
  TorchProcess process;
  process.has_watched_group(0, 3, 4, "0");
  EXPECT_FALSE(process.read()) << "only a process with CUDA has one";
  process.library = "/usr/lib/torch/lib/libtorch_cuda.so";
  const auto rank = must(process.read());
  EXPECT_EQ(rank.rank, 3);
  EXPECT_EQ(rank.source, "c10d::ProcessGroupNCCL");
}

TEST(GroupProgress, IsHowManyCollectivesWereAskedForAndAreComplete) {
  TorchProcess process;
  process.has_group(0, 1, 2, "0");
  process.is_at(0, 10, 9, "ALLREDUCE", 4096);
  process.has_group(1, 1, 2, "7");
  process.is_at(1, 3, 3, "REDUCE_SCATTER_COALESCED");
  process.has_group(2, 1, 2, "8");
  process.is_at(2, -1, -1, "");
  process.read();
  const auto progress = progress_of(process.memory, process.groups);
  ASSERT_EQ(progress.size(), 3U);
  EXPECT_EQ(progress[0], (FlightGroup{.name = "0",
                                      .enqueued = 10,
                                      .completed = 9,
                                      .operation = "all_reduce",
                                      .tensors = "4096 elements"}));
  EXPECT_EQ(progress[1].name, "7");
  EXPECT_EQ(progress[1].operation, "REDUCE_SCATTER_COALESCED");
  EXPECT_FALSE(progress[1].is_pending());
  EXPECT_EQ(progress[2].enqueued, 0);
  EXPECT_EQ(progress[2].operation, "");
}

TEST(GroupProgress, OfTwoBackendsOfOneGroupEachHasItsOwn) {
  TorchProcess process;
  process.has_group(0, 0, 2, "0");
  process.is_at(0, 2, 2, "BARRIER");
  process.has_group(1, 0, 2, "0", kNccl);
  process.is_at(1, 7, 6, "BROADCAST");
  process.read();
  const auto progress = progress_of(process.memory, process.groups);
  ASSERT_EQ(progress.size(), 2U);
  EXPECT_EQ(progress[0].name, "0");
  EXPECT_EQ(progress[0].operation, "broadcast");
  EXPECT_EQ(progress[1].name, "0 of Gloo");
}

TEST(GroupProgress, WhatDoesNotLookLikeItTellsNothing) {
  const auto tells = [](auto&& change) {
    TorchProcess process;
    process.has_group(0, 1, 2, "0");
    process.is_at(0, 10, 9, "ALLREDUCE");
    change(process.memory);
    process.read();
    return !progress_of(process.memory, process.groups).empty();
  };
  constexpr uint64_t kStatus = kHeap + 0x800;
  EXPECT_TRUE(tells([](FakeMemory& /*memory*/) {}));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kHeap + 88, kStatus - 24); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kStatus, int64_t{-2}); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kStatus + 16, int64_t{1} << 50); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kStatus + 24, kHeap); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set_text(kStatus + 40, "all"); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kStatus + 32, uint64_t{1} << 40); }));
  EXPECT_FALSE(tells([](FakeMemory& memory) { memory.set(kStatus, int64_t{-1}); }))
      << "nothing asked for, and yet a name";
}

TEST(GroupRank, AnObjectThatEndsWithTheMemoryTellsNothing) {
  TorchProcess process;
  const uint64_t end = kHeap + 0x1000;
  process.memory.set(kStack + 0x40, end - 8);
  process.memory.set(end - 8, kGloo + kToFunctions);
  EXPECT_FALSE(process.read());
  process.memory.set(kStack + 0x40, end - 24);
  process.memory.set(end - 24, kGloo + kToFunctions);
  process.memory.set(end - 8, int32_t{1});
  process.memory.set(end - 4, int32_t{2});
  const auto rank = process.read();
  EXPECT_TRUE(!rank || rank->rank == 1);
}

}  // namespace
}  // namespace dlprobe
