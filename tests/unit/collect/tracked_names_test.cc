#include "lib/collect/shm/tracked_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;

TEST(TrackedNames, AreThoseThatStandInTheMemoryOfTheTracker) {
  const auto machine = must(live_machine());
  const auto process = must(machine.root->open_directory("proc/self"));
  std::string known = "/psm_of_this_test_";
  known += std::to_string(::getpid());
  const std::string name = known.substr(1);
  DeadlineReader reader(std::chrono::seconds(10));
  const auto names =
      names_tracked(reader, machine, process, ::getpid(), {name, name + "0", "psm_unknown_here"});
  ASSERT_TRUE(names) << to_string(names.error());
  EXPECT_THAT(*names, ElementsAre(name));
}

TEST(TrackedNames, NoProcessThatRunsAnythingElseHasSuch) {
  const auto machine = must(live_machine());
  const auto process = must(machine.root->open_directory("proc/self"));
  DeadlineReader reader;
  EXPECT_FALSE(tracks_resources(reader, process));
}

}  // namespace
}  // namespace dlprobe
