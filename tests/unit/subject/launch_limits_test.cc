#include "lib/subject/launch_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

std::string limits_error(const LaunchLimits& limits) {
  const Status checked = check_launch_limits(limits);
  return checked ? "" : to_string(checked.error());
}

TEST(LaunchLimits, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(limits_error({}), "");
  EXPECT_EQ(limits_error({.memory_bytes = kMiB, .open_files = 4, .shm_bytes = 4096}), "");
  EXPECT_THAT(limits_error({.memory_bytes = kMiB - 1}), HasSubstr("--limit-memory"));
  EXPECT_THAT(limits_error({.memory_bytes = 0}), HasSubstr("--limit-memory"));
  EXPECT_THAT(limits_error({.shm_bytes = 4095}), HasSubstr("--shm-size"));
  EXPECT_THAT(limits_error({.open_files = 3}), HasSubstr("give 4 or more"));
  const uint64_t hard = open_files_limit_of_children()->hard.value();
  EXPECT_EQ(limits_error({.open_files = hard}), "");
  EXPECT_THAT(limits_error({.open_files = hard + 1}),
              HasSubstr("hard limit " + std::to_string(hard)));
}

TEST(LaunchLimits, WithoutLimitsNothingIsMade) {
  const Machine nowhere;  // not even looked at
  auto scope = LaunchScope::prepare(nowhere, {});
  ASSERT_TRUE(scope.has_value());
  EXPECT_EQ(scope->cgroup_procs(), -1);
  EXPECT_EQ(scope->description(), "");
  EXPECT_TRUE(scope->close());
}

TEST(LaunchLimits, TheDescriptionNamesThem) {
  const Machine nowhere;
  const auto scope = LaunchScope::prepare(nowhere, {.open_files = 64, .shm_bytes = 64 * kMiB});
  ASSERT_TRUE(scope.has_value());
  EXPECT_EQ(scope->description(), "64 open files, a /dev/shm of its own of 64.0 MiB");
}

}  // namespace
}  // namespace dlprobe
