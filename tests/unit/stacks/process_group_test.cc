#include "lib/stacks/native/process_group.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/fake_memory.h"

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

  std::optional<JobRank> read() {
    std::vector<Mapping> mappings = {
        {.begin = kStack, .end = kStack + 0x1000, .writable = true},
        {.begin = kHeap, .end = kHeap + 0x1000, .writable = true},
        {.begin = kLibrary, .end = kLibrary + 0x1000, .inode = 7, .path = library}};
    return read_group_rank(memory, AddressSpace(std::move(mappings)), *this, {kStack + 3});
  }

  FakeMemory memory;
  std::string library = "/usr/lib/torch/lib/libtorch_cpu.so";

 private:
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
  const auto rank = process.read();
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 3);
  EXPECT_EQ(rank->world_size, 4);
  EXPECT_EQ(rank->source, "c10d::ProcessGroupGloo");
  EXPECT_EQ(rank->job, "");
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
  const auto rank = process.read();
  ASSERT_TRUE(rank);
  EXPECT_EQ(rank->rank, 5);
  EXPECT_EQ(rank->world_size, 8);
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
