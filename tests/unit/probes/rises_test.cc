#include "probes/facts/rises.h"

#include <gtest/gtest.h>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// A watch of 3 s at ten samples a second, of one process whose threads are as `threads` has it.
dlprobe::Run watch(int (*threads)(int sample)) {
  constexpr int kSamples = 30;
  dlprobe::Run run;
  for (int i = 0; i < kSamples; ++i) {
    ProcessSample process{.key = {.pid = 7, .start_ticks = 1}, .threads = threads(i)};
    run.samples.push_back({.at = i * kSecond / 10, .processes = {process}});
  }
  return run;
}

TEST(Rises, WhatIsMoreInEachThird) {
  EXPECT_TRUE(rises(watch([](int i) { return 4 + i; })));
  EXPECT_TRUE(rises(watch([](int i) { return 4 + i / 4; })));
}

TEST(Rises, NotWhatStandsStepsOrFalls) {
  EXPECT_FALSE(rises(watch([](int) { return 40; })));
  EXPECT_FALSE(rises(watch([](int i) { return i < 15 ? 4 : 40; }))) << "a pool is made";
  EXPECT_FALSE(rises(watch([](int i) { return 40 - i; })));
  EXPECT_FALSE(rises(watch([](int i) { return 4 + i % 8; }))) << "they come and go";
  EXPECT_FALSE(rises(dlprobe::Run()));
}

TEST(Rises, WhereALookTookMostOfTheTime) {
  dlprobe::Run run = watch([](int i) { return 4 + i; });
  for (size_t i = 3; i < run.samples.size(); ++i)
    run.samples[i].at += 20 * kSecond;
  EXPECT_TRUE(rises(run));
}

TEST(Rises, FilesOfAMountWhereTheJobWorks) {
  dlprobe::Run run = watch([](int) { return 4; });
  for (int i = 0; i < 30; ++i)
    run.shm_use.push_back(
        {.at = i * kSecond / 10, .device = 5, .inodes_used = 100 + static_cast<uint64_t>(i)});
  EXPECT_FALSE(rises(run)) << "those of other jobs";
  run.samples.back().processes.front().stime_ticks = 2;
  EXPECT_TRUE(rises(run));
}

}  // namespace
}  // namespace dlprobe
