#include "lib/foreign/syscalls.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <set>
#include <string>

namespace dlprobe {
namespace {

TEST(Syscalls, NumbersAreThoseOfTheMachine) {
  const auto name_of = [](int64_t number, std::string_view machine) {
    const Syscall* call = find_syscall(number, machine);
    return call == nullptr ? std::string() : std::string(call->name);
  };
  EXPECT_EQ(name_of(7, "x86_64"), "poll");
  EXPECT_EQ(name_of(7, "aarch64"), "");
  EXPECT_EQ(name_of(247, "x86_64"), "waitid");
  EXPECT_EQ(name_of(95, "aarch64"), "waitid");
  EXPECT_EQ(name_of(-1, "aarch64"), "");
  EXPECT_EQ(name_of(7, "riscv64"), "");
}

TEST(Syscalls, NoNumberStandsThereTwice) {
  for (const char* machine : {"x86_64", "aarch64"}) {
    std::set<std::string_view> names;
    for (int64_t number = 0; number < 1000; ++number) {
      const Syscall* call = find_syscall(number, machine);
      if (call == nullptr) continue;
      EXPECT_EQ(machine == std::string("x86_64") ? call->x86_64 : call->aarch64, number);
      EXPECT_TRUE(names.insert(call->name).second) << call->name;
    }
    EXPECT_GT(names.size(), 30);
  }
}

TEST(Syscalls, TheNumbersOfThisMachineAreThoseOfTheKernelHeaders) {
  EXPECT_EQ(find_syscall(SYS_read, own_syscall_machine())->name, "read");
  EXPECT_EQ(find_syscall(SYS_futex, own_syscall_machine())->name, "futex");
  EXPECT_EQ(find_syscall(SYS_preadv, own_syscall_machine())->name, "preadv");
  EXPECT_EQ(find_syscall(SYS_ioctl, own_syscall_machine())->name, "ioctl");
  EXPECT_EQ(find_syscall(SYS_fsync, own_syscall_machine())->name, "fsync");
  EXPECT_EQ(find_syscall(SYS_clone3, own_syscall_machine())->name, "clone3");
}

}  // namespace
}  // namespace dlprobe
