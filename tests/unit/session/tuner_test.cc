#include "lib/session/tuner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::SizeIs;

constexpr pid_t kTunedCommand = 100;  // what is started first
constexpr int kExit2 = 2 << 8;
constexpr int kExit127 = 127 << 8;

/// Runs that measure, on a machine where nothing is real.
class TunerTest : public testing::Test {
 protected:
  TunerTest() {
    options_.wish.budget_s = 40;
    options_.next_step = [this](const RecordingView&) { return next_step(); };
  }

  std::optional<TuneStep> next_step() {
    if (steps_left_-- == 0) return std::nullopt;
    return TuneStep{.setting = {.workers = 2, .prefetch_factor = 2}};
  }
  Examination tune() { return dlprobe::tune(options_, place_.surroundings()); }
  FakeControl& control() { return place_.control; }

  MadeUpPlace place_;
  TuneOptions options_;
  int steps_left_ = 3;
};

TEST_F(TunerTest, ALoaderThatCannotStartIsRefused) {
  control().start_error = Error{.code = ErrorCode::kForbidden, .os_errno = 0, .context = "no"};
  const Examination examination = tune();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kImpossible);
  EXPECT_THAT(control().started, SizeIs(1));
}

TEST_F(TunerTest, OptionsThatTheLoaderRefusesAreRefusedOnce) {
  control().on_start = [this](pid_t pid) { control().end(pid, kExit2); };
  const Examination examination = tune();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_THAT(examination.refusal->error.context, HasSubstr("cannot run with these options"));
  EXPECT_THAT(control().started, SizeIs(1));
}

TEST_F(TunerTest, ARunThatShowsNoBatchIsEndedAndTheNextComes) {
  const Examination examination = tune();
  ASSERT_FALSE(examination.refusal.has_value());
  EXPECT_THAT(control().started, SizeIs(3));
  EXPECT_THAT(control().sent,
              ElementsAre(Pair(kTunedCommand, SIGTERM), Pair(kTunedCommand + 1, SIGTERM),
                          Pair(kTunedCommand + 2, SIGTERM)));
  ASSERT_THAT(examination.recording.runs, SizeIs(4)) << "the machine was looked at first";
  EXPECT_NE(examination.recording.runs[1].speed.value().failure, "");
}

TEST_F(TunerTest, AnInterruptEndsTheRunAndTheSweep) {
  control().on_start = [this](pid_t) { control().in(kSecond, [this] { control().come(SIGINT); }); };
  const Examination examination = tune();
  EXPECT_THAT(control().started, SizeIs(1));
  EXPECT_FALSE(control().has_children());
}

TEST_F(TunerTest, ACommandThatIsNotThereIsRefused) {
  options_.command = {"nowhere"};
  control().on_start = [this](pid_t pid) { control().end(pid, kExit127); };
  const Examination examination = tune();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kNotFound);
  EXPECT_EQ(control().guards, 0);
}

TEST_F(TunerTest, ACommandThatMakesNoLoaderIsIncomplete) {
  options_.command = {"sleep", "1000"};
  const Examination examination = tune();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kIncomplete);
  EXPECT_THAT(control().sent, ElementsAre(Pair(kTunedCommand, SIGTERM)));
  EXPECT_FALSE(control().has_children());
}

}  // namespace
}  // namespace dlprobe
