#include "lib/session/kill_descendants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <utility>

#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(KillDescendants, OneWhoseMainThreadAloneHasEndedRuns) {
  MadeUpPlace place;
  place.control.add({.pid = 100, .ppid = FakeControl::kOwnPid, .state = 'Z', .threads = 2});
  place.control.add({.pid = 101, .ppid = FakeControl::kOwnPid, .state = 'Z'});
  EXPECT_EQ(kill_descendants(place.control, place.surroundings().machine), 1U);
  EXPECT_THAT(place.control.sent, ElementsAre(Pair(100, SIGSTOP), Pair(100, SIGKILL)));
}

}  // namespace
}  // namespace dlprobe
