#include "lib/os/deadline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <new>

namespace dlprobe {
namespace {

using std::chrono::milliseconds;

Expected<int> forty_two() {
  return 42;
}

TEST(DeadlineReader, GivesWhatTheJobGives) {
  DeadlineReader reader(std::chrono::seconds(30));
  EXPECT_EQ(reader.run<int>("count", forty_two), 42);
  const auto failed = reader.run<int>(
      "count", []() -> Expected<int> { return failure(ErrorCode::kForbidden, "no"); });
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kForbidden);
}

TEST(DeadlineReader, WhatTheJobThrowsReachesTheCaller) {
  DeadlineReader reader(std::chrono::seconds(30));
  EXPECT_THROW(
      reader.run<int>("fill memory", []() -> Expected<int> { throw std::bad_alloc(); }).value(),
      std::bad_alloc);
  EXPECT_EQ(reader.run<int>("count", forty_two), 42);
}

TEST(DeadlineReader, AStuckJobCostsItsLimitOnceAndLaterOnesNothing) {
  DeadlineReader reader(milliseconds(1));
  const auto release = std::make_shared<std::promise<void>>();
  const auto returned = std::make_shared<std::promise<void>>();
  const auto stuck = reader.run<int>("read /proc/1/maps", [release, returned]() -> Expected<int> {
    release->get_future().wait();
    returned->set_value();
    return 1;
  });
  ASSERT_FALSE(stuck);
  EXPECT_EQ(stuck.error().code, ErrorCode::kTimeout);
  const auto refused = reader.run<int>("read /proc/2/maps", forty_two);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kTimeout);
  EXPECT_NE(refused.error().context.find("/proc/1/maps"), std::string::npos);
  release->set_value();
  returned->get_future().wait();
  // The helper is free again, at the latest when it has put the result away.
  auto answer = reader.run<int>("count", forty_two, std::chrono::seconds(30));
  while (!answer)
    answer = reader.run<int>("count", forty_two, std::chrono::seconds(30));
  EXPECT_EQ(*answer, 42);
}

TEST(DeadlineReader, MayBeDestroyedWhileAJobIsStuck) {
  const auto release = std::make_shared<std::promise<void>>();
  const auto returned = std::make_shared<std::promise<void>>();
  const auto started = std::make_shared<std::promise<void>>();
  {
    DeadlineReader reader(milliseconds(1));
    EXPECT_FALSE(reader.run<int>("wait", [release, returned, started]() -> Expected<int> {
      started->set_value();
      release->get_future().wait();
      returned->set_value();
      return 1;
    }));
    started->get_future().wait();
  }
  release->set_value();
  returned->get_future().wait();
}

}  // namespace
}  // namespace dlprobe
