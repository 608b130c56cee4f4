#include "lib/stacks/locks/openmp_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <utility>

#include "tests/support/fake_memory.h"

namespace dlprobe {
namespace {

constexpr uint64_t kFunction = 0x10000;
constexpr uint64_t kThreadPointer = 0x70000;
constexpr uint64_t kThread = kThreadPointer - 0xE0;  // struct gomp_thread, in static TLS
constexpr uint64_t kTask = 0x20000;
constexpr uint64_t kPool = 0x30000;
constexpr uint64_t kThreads = 0x40000;

/// A libgomp in memory: the code of omp_get_max_threads() as GCC compiled it, and what it reads.
struct Gomp {
  uint8_t task_offset;
  uint8_t icv_offset;
  FakeMemory memory;

  // Debian's of GCC 12 has 0x58 and 0x98, PyTorch 2.13's wheel 0x50 and 0x90.
  explicit Gomp(uint8_t task = 0x58, uint8_t icv = 0x98) : task_offset(task), icv_offset(icv) {
    const std::array<uint8_t, 48> code = {
        0xf3, 0x0f, 0x1e, 0xfa,                                 // endbr64
        0x48, 0x8b, 0x05, 0xfd, 0x0f, 0x00, 0x00,               // mov 0xffd(%rip),%rax
        0x64, 0x48, 0x8b, 0x50, task,                           // mov %fs:task(%rax),%rdx
        0x48, 0x85, 0xd2,                                       // test %rdx,%rdx
        0x48, 0x8d, 0x82, icv,  0x00, 0x00, 0x00,               // lea icv(%rdx),%rax
        0x48, 0x8d, 0x15, 0xdf, 0x1f, 0x00, 0x00,               // lea 0x1fdf(%rip),%rdx
        0x48, 0x0f, 0x44, 0xc2, 0x8b, 0x00, 0xc3, 0x0f, 0x1f};  // cmove %rdx,%rax; mov; ret
    memory.set(kFunction, code);
    memory.set(kFunction + 11 + 0xffd, kThread - kThreadPointer);
    memory.set(kFunction + 33 + 0x1fdf, uint32_t{8});  // the default
    memory.map(kThread, 0x100);
  }

  void set_task(uint32_t next_team) {
    memory.set(kThread + task_offset, kTask);
    memory.set(kTask + icv_offset, next_team);
  }
  void set_pool(uint64_t first, uint32_t size, uint32_t used) {
    memory.set(kThread + task_offset + 16, kPool);
    memory.set(kPool, kThreads);
    memory.set(kPool + 8, size);
    memory.set(kPool + 12, used);
    memory.set(kThreads, first);
  }
  auto read() const { return read_openmp_pool(memory, kFunction, kThreadPointer); }
};

TEST(OpenMpPool, OfEitherLayout) {
  for (const auto& [task, icv] : {std::pair<uint8_t, uint8_t>(0x58, 0x98), {0x50, 0x90}}) {
    Gomp gomp(task, icv);
    gomp.set_task(3);
    gomp.set_pool(kThread, 5, 4);
    EXPECT_EQ(gomp.read(), (OpenMpPool{.threads = 4, .next_team = 3}));
  }
}

TEST(OpenMpPool, AThreadWithoutATaskGoesByTheDefault) {
  Gomp gomp;
  EXPECT_EQ(gomp.read(), (OpenMpPool{.threads = 0, .next_team = 8}));
}

TEST(OpenMpPool, WhatDoesNotBeginWithTheThreadIsNoPool) {
  Gomp gomp;
  gomp.set_task(3);
  gomp.set_pool(kThread + 8, 5, 4);
  EXPECT_FALSE(gomp.read());
}

TEST(OpenMpPool, MoreThreadsThanItHasRoomFor) {
  Gomp gomp;
  gomp.set_task(3);
  gomp.set_pool(kThread, 2, 4);
  EXPECT_FALSE(gomp.read());
}

TEST(OpenMpPool, OtherCode) {
  Gomp gomp;
  gomp.memory.set(kFunction + 11, uint8_t{0x65});  // %gs
  EXPECT_FALSE(gomp.read());
  EXPECT_FALSE(read_openmp_pool(FakeMemory(), kFunction, kThreadPointer));
}

}  // namespace
}  // namespace dlprobe
