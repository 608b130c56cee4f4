#include "lib/session/remedy_attempts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const Setting kSpawn = {.kind = SettingKind::kStartMethod, .name = "", .value = "spawn"};

/// A command that was examined once, and may be run again.
class RemedyAttempts : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Recorder::open({}, "");
    ASSERT_TRUE(opened.has_value());
    recorder_ = std::move(*opened);
    recorder_->add(RunBegin{.at = place_.clock->now(), .subject = SubjectKind::kCommand});
    command().argv = {"python3", "train.py"};
    command().confirm = ConfirmWish{.times = 2, .saves_time = false};
    place_.judge.verdict.findings = {{.code = FindingCode::kForkInheritedLock}};
    place_.judge.plan = {{.attempt = {.settings = {kSpawn}, .of_run = 0}, .findings = {0}}};
  }

  static CommandSubject& command_of(ExamineRequest& request) {
    return std::get<CommandSubject>(request.subject);
  }
  CommandSubject& command() { return command_of(request_); }

  void end_first_run(RunEndReason reason) {
    place_.clock->advance(2 * kSecond);
    recorder_->add(RunEnd{.at = place_.clock->now(), .reason = reason});
  }

  void try_all() {
    try_remedies(request_, place_.surroundings(), *recorder_,
                 [this](const ExamineRequest& attempt) { return run_once(attempt); });
  }

  std::optional<Refusal> run_once(const ExamineRequest& attempt) {
    runs_.push_back(attempt);
    commands_.push_back(std::get<CommandSubject>(attempt.subject));
    if (refusal_) return refusal_;
    recorder_->add(RunBegin{.at = place_.clock->now(),
                            .subject = SubjectKind::kCommand,
                            .attempt = commands_.back().attempt});
    place_.clock->advance(takes_);
    recorder_->add(RunEnd{.at = place_.clock->now(), .reason = ends_});
    return std::nullopt;
  }

  MadeUpPlace place_;
  std::unique_ptr<Recorder> recorder_;
  ExamineRequest request_ = {.subject = CommandSubject()};
  std::vector<ExamineRequest> runs_;
  std::vector<CommandSubject> commands_;
  std::optional<Refusal> refusal_;
  RunEndReason ends_ = RunEndReason::kSubjectEnded;
  BootNs takes_ = kSecond;
};

TEST_F(RemedyAttempts, WhatSeemsToHelpIsTriedAndThenTheCommandRunsAsItWas) {
  end_first_run(RunEndReason::kSubjectEnded);
  try_all();
  ASSERT_THAT(runs_, SizeIs(4));
  EXPECT_THAT(commands_[0].attempt->settings, ElementsAre(kSpawn));
  EXPECT_THAT(commands_[1].attempt->settings, IsEmpty());
  EXPECT_EQ(commands_[0].overrides.start_method, StartMethod::kSpawn);
  EXPECT_TRUE(commands_[0].overrides.force);
  EXPECT_FALSE(commands_[1].overrides.any());
  EXPECT_EQ(runs_[0].watch_for, std::chrono::seconds(14)) << "twice what it took, and 10 s";
}

TEST_F(RemedyAttempts, WhatDoesNotHelpIsTriedOnce) {
  end_first_run(RunEndReason::kSubjectEnded);
  place_.judge.helps = false;
  try_all();
  EXPECT_THAT(runs_, SizeIs(1));
}

TEST_F(RemedyAttempts, AfterAnInterruptedRunNothingIsTried) {
  end_first_run(RunEndReason::kInterrupted);
  try_all();
  EXPECT_THAT(runs_, IsEmpty());
}

TEST_F(RemedyAttempts, AnInterruptedAttemptIsTheLast) {
  end_first_run(RunEndReason::kSubjectEnded);
  ends_ = RunEndReason::kInterrupted;
  try_all();
  EXPECT_THAT(runs_, SizeIs(1));
}

TEST_F(RemedyAttempts, AnAttemptThatCannotStartIsRecordedAsNotStarted) {
  end_first_run(RunEndReason::kSubjectEnded);
  place_.judge.helps = false;
  refusal_ = Refusal{.error = {.code = ErrorCode::kForbidden, .os_errno = 0, .context = "no"}};
  try_all();
  ASSERT_THAT(recorder_->recording().attempts, SizeIs(1));
  EXPECT_EQ(recorder_->recording().attempts[0].end->reason, RunEndReason::kNotStarted);
  EXPECT_THAT(recorder_->recording().attempts[0].end->text.plain(), HasSubstr("no"));
}

TEST_F(RemedyAttempts, WhereTimeIsToBeSavedSlowRunsAreNotRepeated) {
  end_first_run(RunEndReason::kSubjectEnded);
  command().confirm = ConfirmWish{.times = 3, .saves_time = true};
  takes_ = 20 * kSecond;
  try_all();
  EXPECT_THAT(runs_, SizeIs(2)) << "one round of 40 s; two would take more than a minute";
}

TEST_F(RemedyAttempts, AFindingWithoutAnythingToSetIsTold) {
  end_first_run(RunEndReason::kSubjectEnded);
  place_.judge.plan.clear();
  try_all();
  EXPECT_THAT(place_.notices.told, ElementsAre(HasSubstr("fork-inherited-lock")));
}

TEST_F(RemedyAttempts, ASettingThatTheCommandLineItselfMakesIsRefused) {
  command().argv = {"env", "OMP_NUM_THREADS=4", "python3", "train.py"};
  const Attempt attempt = {.settings = {{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}}};
  const auto refused = with_settings(request_, recorder_->current_run(), attempt);
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().context, HasSubstr("sets OMP_NUM_THREADS=4"));
}

TEST_F(RemedyAttempts, ATrialIsRepeatedUnderItsOwnLimits) {
  recorder_->add(RunBegin{.at = place_.clock->now(),
                          .subject = SubjectKind::kCommand,
                          .trial = Trial{.start_method = StartMethod::kFork, .most_processes = 9}});
  command().trials = {{}, {}};
  auto attempt =
      with_settings(request_, recorder_->current_run(), {.settings = {kSpawn}, .of_run = 1});
  ASSERT_TRUE(attempt.has_value());
  const std::vector<Trial>& trials = command_of(*attempt).trials;
  ASSERT_THAT(trials, SizeIs(1));
  EXPECT_EQ(trials[0].start_method, StartMethod::kSpawn);
  EXPECT_EQ(trials[0].most_processes, 9);
  EXPECT_FALSE(attempt->watch_for.has_value());
}

}  // namespace
}  // namespace dlprobe
