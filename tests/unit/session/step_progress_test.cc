#include "lib/session/step_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"
#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class StepProgressTest : public testing::Test {
 protected:
  FakeClock clock_{1'000 * kSecond};
  ToldNotices notices_;
};

TEST_F(StepProgressTest, TheTimeThatIsLeftComesFromTheStepsSoFar) {
  StepProgress steps(notices_, clock_, {.name = "gate", .noun = "trial", .steps = 9});
  steps.begin("fork");
  EXPECT_EQ(steps.line(), "gate: trial 1 of 9 (fork)");
  clock_.advance(6 * kSecond);
  steps.begin("fork, 4 workers");
  clock_.advance(4 * kSecond);
  steps.begin("spawn, 4 workers");
  EXPECT_EQ(steps.line(), "gate: trial 3 of 9 (spawn, 4 workers), about 35 s left");
  clock_.advance(3 * kSecond);
  notices_.show("batch 7");
  EXPECT_EQ(notices_.shown.back(), "gate: trial 3 of 9 (spawn, 4 workers), about 32 s leftbatch 7");
}

TEST_F(StepProgressTest, APlanTellsMoreBeforeTheFirstStepHasEnded) {
  StepProgress steps(notices_, clock_,
                     {.name = "--confirm", .steps = 6, .is_most = true, .each = 20 * kSecond});
  steps.begin("as it was");
  EXPECT_EQ(steps.line(),
            "--confirm: run 1 of at most 6 (as it was), at most about 2 min 0 s left");
}

TEST_F(StepProgressTest, ALimitOfTimeIsTheMostThatIsLeft) {
  StepProgress steps(notices_, clock_, {.name = "tune", .until = clock_.now() + 60 * kSecond});
  steps.begin("2 workers");
  clock_.advance(20 * kSecond);
  steps.begin("4 workers");
  EXPECT_EQ(steps.line(), "tune: run 2 (4 workers), at most 40 s left");
}

TEST_F(StepProgressTest, ALogHasALineNowAndThen) {
  StepProgress steps(notices_, clock_, {.name = "merge", .noun = "report", .steps = 40});
  for (int i = 0; i < 40; ++i) {
    steps.begin("a");
    clock_.advance(kSecond / 2);
  }
  EXPECT_THAT(notices_.logged, ElementsAre("merge: report 21 of 40 (a), about 10 s left"));
}

TEST_F(StepProgressTest, WhatIsSoonOverIsNotLogged) {
  StepProgress steps(notices_, clock_, {.name = "gate", .steps = 3});
  for (int i = 0; i < 3; ++i) {
    steps.begin("a");
    clock_.advance(3 * kSecond);
  }
  EXPECT_THAT(notices_.logged, IsEmpty());
}

}  // namespace
}  // namespace dlprobe
