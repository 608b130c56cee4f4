#include "lib/collect/snapshot/climb.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "lib/os/process_access.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/made_up_process.h"

namespace dlprobe {
namespace {

// Process 40 starts everything. Process 50 starts ranks 0 and 1 of a job, 51 and 52.
class ClimbToLauncher : public ::testing::Test {
 protected:
  ClimbToLauncher() {
    machine_.root = files_;
    machine_.clock = std::make_shared<FakeClock>();
    machine_.processes = std::make_shared<ProcessAccess>();
    add(40, 1);
    start_job(50);
  }

  void add(int32_t pid, int32_t parent, int rank = -1) {
    // None is forked from another one: these are programs of their own.
    add_process(*files_, {.pid = pid, .ppid = parent, .comm = fmt::format("program{}", pid)});
    const std::string port = "MASTER_ADDR=127.0.0.1\nMASTER_PORT=29500\n";
    std::string environment = fmt::format("RANK={}\nWORLD_SIZE=2\n{}", rank, port);
    std::ranges::replace(environment, '\n', '\0');
    files_->add(fmt::format("/proc/{}/environ", pid), rank < 0 ? "" : environment);
  }

  void start_job(int32_t launcher) {
    add(launcher, 40);
    for (const int rank : {0, 1})
      add(launcher + 1 + rank, launcher, rank);
  }

  int32_t climb_from(int32_t pid) {
    const auto climbed = climb_to_trainer(machine_, pid);
    EXPECT_TRUE(climbed) << to_string(climbed.error());
    return climbed ? climbed->key.pid : 0;
  }

  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  Machine machine_;
};

TEST_F(ClimbToLauncher, AllRanksOfAJobAreBelowIt) {
  EXPECT_EQ(climb_from(51), 50);
  EXPECT_EQ(climb_from(52), 50);
}

// Of containers with networks of their own, or what is left of a job that was started before.
TEST_F(ClimbToLauncher, AnotherJobThatMeetsAtTheSameAddressIsNone) {
  start_job(60);
  EXPECT_EQ(climb_from(51), 50);
  EXPECT_EQ(climb_from(62), 60);
}

TEST_F(ClimbToLauncher, WhatAScriptOfARankStartsHasItsNumber) {
  for (const int rank : {0, 1}) {
    const int32_t script = 70 + 10 * rank;
    add(script, 40, rank);
    add(script + 1, script, rank);
    add(script + 2, script, rank);
  }
  for (const int32_t gone : {50, 51, 52})
    files_->remove(fmt::format("/proc/{}", gone));
  EXPECT_EQ(climb_from(71), 40);
}

}  // namespace
}  // namespace dlprobe
