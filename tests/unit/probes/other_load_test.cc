#include "probes/facts/other_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "probes/probe.h"
#include "tests/support/must.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

// A trainer and two workers on two CPUs, watched for 4 s; each had `own_ticks` of 10 ms meanwhile.
Scene watched(double busy_cpus, uint64_t own_ticks) {
  Scene scene;
  scene.recording.header.host.cpus = 2;
  scene.cpu_ticks = 500;
  scene.sample(0, 0);
  scene.cpu_ticks = 500 + own_ticks;
  scene.sample(4, 0);
  scene.run().end = RunEnd{.at = Scene::at(4), .busy_cpus = busy_cpus};
  return scene;
}

TEST(OtherLoad, WhereOthersHadTheCpusSpeedsAreTooLow) {
  const auto gap = must(gap_of_other_load(watched(2, 100).recording));
  EXPECT_THAT(gap.why.plain(), HasSubstr("other processes kept 1.2 of 2 CPUs busy"));
}

TEST(OtherLoad, TheJobItselfMayHaveThemAll) {
  EXPECT_FALSE(gap_of_other_load(watched(2, 266).recording));
}

TEST(OtherLoad, WhereACpuIsLeftOverNobodyWaits) {
  EXPECT_FALSE(gap_of_other_load(watched(1.2, 10).recording));
}

TEST(OtherLoad, AKernelThatDoesNotSayIsNoLoad) {
  Scene scene = watched(2, 100);
  scene.run().end->busy_cpus.reset();
  EXPECT_FALSE(gap_of_other_load(scene.recording));
}

TEST(OtherLoad, AReportOfSpeedsSaysItOnceAndOneOfSharedMemoryDoesNot) {
  Scene scene = watched(2, 100);
  scene.recording.runs.push_back(scene.run());
  const auto says_it = [&](const Probe& probe) {
    return std::ranges::count_if(probe.examine(scene.recording).limits, [](const Gap& gap) {
      return gap.why.plain().contains("CPUs busy");
    });
  };
  EXPECT_EQ(says_it(probes::gate::kProbe), 1);
  EXPECT_EQ(says_it(probes::shm::kProbe), 0);
}

}  // namespace
}  // namespace dlprobe
