#include "lib/collect/snapshot/restarted_calls.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

namespace dlprobe {
namespace {

constexpr ProcessKey kProcess = {.pid = 7, .start_ticks = 1};

SyscallFile call_of(int64_t number, uint64_t first_argument) {
  return {.number = number,
          .args = {first_argument, 1, 5000, 0, 0, 0},
          .stack_pointer = 0x7000,
          .program_counter = 0x4000};
}

TEST(RestartedCalls, AWaitThatWasInterruptedIsStillThatWait) {
  RestartedCalls calls;
  const SyscallFile poll = call_of(SYS_ppoll, 0x1000);
  EXPECT_EQ(calls.resolve(kProcess, 7, poll), poll);
  const SyscallFile restarted = call_of(SYS_restart_syscall, 0x1000);
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), poll);
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), poll) << "and again";
}

TEST(RestartedCalls, WhatWasNotSeenBeforeIsNotGuessed) {
  RestartedCalls calls;
  const SyscallFile restarted = call_of(SYS_restart_syscall, 0x1000);
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), restarted);
  calls.resolve(kProcess, 7, call_of(SYS_ppoll, 0x2000));
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), restarted) << "another call of that thread";
  calls.resolve(kProcess, 8, call_of(SYS_ppoll, 0x1000));
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), restarted) << "another thread";
  SyscallFile deeper = call_of(SYS_ppoll, 0x1000);
  deeper.stack_pointer = 0x6000;
  calls.resolve(kProcess, 7, deeper);
  EXPECT_EQ(calls.resolve(kProcess, 7, restarted), restarted) << "from another function";
}

TEST(RestartedCalls, AThreadThatRunsIsInNoCall) {
  RestartedCalls calls;
  const SyscallFile running{.running = true};
  EXPECT_EQ(calls.resolve(kProcess, 7, running), running);
}

}  // namespace
}  // namespace dlprobe
