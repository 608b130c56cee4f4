#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "probes/confirm/probe.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

const std::vector<Setting> kSpawn = {{SettingKind::kStartMethod, "", "spawn"}};
const std::vector<Setting> kOneThread = {{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}};
const std::vector<Setting> kTwoWorkers = {{SettingKind::kNumWorkers, "", "2"}};
const std::vector<Setting> kLargerShm = {{SettingKind::kShmSize, "", "1"}};
constexpr int kExit1 = 0x100;

// A probe that finds what the events of a run are named after.
Verdict examine_by_events(const RunCase& one) {
  Verdict verdict;
  for (const Event& event : one.run.events) {
    const FindingInfo* known = find_finding(event.text.plain());
    verdict.findings.push_back({.code = known->id,
                                .severity = known->severity,
                                .message = "",
                                .discriminator = "",
                                .last_seen = event.at});
  }
  return verdict;
}
std::vector<Cause> every_cause() {
  std::vector<Cause> causes;
  for (const FindingInfo& finding : all_findings())
    causes.push_back({finding.id, [](const RecordingView&) { return true; }});
  return causes;
}
const std::vector<Cause> kCauses = every_cause();
const Probe kProbe = {
    .name = "made-up", .summary = "", .causes = kCauses, .examine_run = examine_by_events};

Run run_of(int seconds, int wait_status) {
  Run run;
  run.begin = {.at = kSecond, .subject = SubjectKind::kCommand};
  run.end = RunEnd{.at = (1 + seconds) * kSecond, .text = "", .wait_status = wait_status};
  return run;
}

Run failing(int seconds, const std::string& code) {
  Run run = run_of(seconds, kExit1);
  run.events.push_back(
      {.at = run.end->at, .kind = "finding", .text = own(code), .process = std::nullopt});
  return run;
}

Run with(Run run, std::vector<Setting> settings) {
  run.begin.attempt = Attempt{.settings = std::move(settings)};
  return run;
}

Run still_running(Run run) {
  run.end->reason = RunEndReason::kTimeUp;
  run.end->wait_status.reset();
  return run;
}

Run started_under(Run run, const std::string& method) {
  run.start_events.push_back({.kind = StartEventKind::kInterpreter});
  run.start_events.push_back({.kind = StartEventKind::kStarted, .method = method});
  return run;
}

Run started_with(Run run, int workers) {
  run.start_events.push_back({.kind = StartEventKind::kLoaderMade, .workers = workers});
  return run;
}

struct Scenery {
  Recording recording = {.runs = {failing(4, "DLP0302")}};
  std::vector<Setting> settings = kOneThread;

  Confirmation confirmation() {
    Verdict verdict = kProbe.examine(recording);
    verdict.findings.at(0).remedies = {{.title = "", .settings = settings}};
    verdict = probes::confirm::with_confirmations(std::move(verdict), recording, kProbe);
    return verdict.findings.at(0).remedies.at(0).confirmation.value_or(Confirmation());
  }
  RemedyOutcome outcome() { return confirmation().outcome; }
  void tried(Run run) { recording.attempts.push_back(with(std::move(run), settings)); }
  void tried_as_it_was(Run run) { recording.attempts.push_back(with(std::move(run), {})); }
};

TEST(Confirm, GoneWithItAndThereWithoutIt) {
  Scenery scenery;
  scenery.tried(run_of(3, 0));
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  const Confirmation confirmation = scenery.confirmation();
  EXPECT_EQ(confirmation.outcome, RemedyOutcome::kConfirmed) << confirmation.text.plain();
  EXPECT_EQ(confirmation.text.plain(),
            "confirmed: with OMP_NUM_THREADS=1 the failure is gone (exit code 0 after 3.0 s); "
            "unchanged, it came in 2 runs of 2");
}

TEST(Confirm, ASignalWithoutANameIsNamedByItsNumber) {
  Scenery scenery;
  constexpr int kRealTime = 40;
  scenery.tried(run_of(3, kRealTime));
  EXPECT_THAT(scenery.confirmation().text.plain(), HasSubstr("signal 40"));
}

TEST(Confirm, NothingIsClaimedWithoutASecondFailure) {
  Scenery scenery;
  scenery.tried(run_of(3, 0));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive);
  scenery.tried_as_it_was(run_of(3, 0));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive);
}

TEST(Confirm, ARareFailureNeedsManyRuns) {
  Scenery few;
  for (int i = 0; i < 3; ++i)
    few.tried(run_of(3, 0));
  few.tried_as_it_was(failing(4, "DLP0302"));
  few.tried_as_it_was(run_of(3, 0));
  few.tried_as_it_was(run_of(3, 0));
  EXPECT_EQ(few.outcome(), RemedyOutcome::kInconclusive);
  // Six failures of eleven without, none of ten with it: by chance in one case of a hundred.
  Scenery many;
  for (int i = 0; i < 10; ++i) {
    many.tried(run_of(3, 0));
    many.tried_as_it_was(i % 2 == 0 ? failing(4, "DLP0302") : run_of(3, 0));
  }
  EXPECT_EQ(many.outcome(), RemedyOutcome::kConfirmed) << many.confirmation().text.plain();
}

TEST(Confirm, TheSameFailureAgainIsNoHelp) {
  Scenery scenery;
  scenery.tried(failing(9, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kNotHelped);
}

TEST(Confirm, OneFailureOfSeveralIsNoHelp) {
  Scenery scenery;
  scenery.tried(run_of(3, 0));
  scenery.tried(failing(9, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kNotHelped);
}

TEST(Confirm, AnotherFailureProvesNothing) {
  Scenery scenery;
  scenery.tried(failing(9, "DLP0402"));
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  const Confirmation confirmation = scenery.confirmation();
  EXPECT_EQ(confirmation.outcome, RemedyOutcome::kInconclusive);
  EXPECT_THAT(confirmation.text.plain(), HasSubstr("DLP0402"));
}

TEST(Confirm, AnUnknownFailureProvesNothing) {
  Scenery scenery;
  scenery.tried(run_of(1, kExit1));
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive);
}

TEST(Confirm, AShorterRunProvesNothing) {
  Scenery scenery;
  scenery.tried(still_running(run_of(5, 0)));
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive);
}

TEST(Confirm, ARunThatGoesOnForLongerIsAsGoodAsOneThatEnds) {
  Scenery scenery;
  scenery.tried(still_running(run_of(18, 0)));
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kConfirmed) << scenery.confirmation().text.plain();
}

// Its tree was killed.
TEST(Confirm, ATrialThatRanForAllOfItsTimeIsAsGoodAsOneThatEnds) {
  Scenery scenery;
  auto run = run_of(60, SIGKILL);
  run.end->text = "the command ran as long as allowed; dlprobe ended it";
  scenery.tried(run);
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive) << "it may have been ended for more";
  scenery.recording.attempts.front().end->still_for = 0;
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kConfirmed) << scenery.confirmation().text.plain();
}

TEST(Confirm, WhatDidNotTakeEffectProvesNothing) {
  const auto outcome_of = [](auto run) {
    Scenery scenery{.settings = kSpawn};
    scenery.tried(std::move(run));
    scenery.tried_as_it_was(failing(4, "DLP0302"));
    return scenery.outcome();
  };
  EXPECT_EQ(outcome_of(started_under(run_of(3, 0), "spawn")), RemedyOutcome::kConfirmed);
  EXPECT_EQ(outcome_of(run_of(3, 0)), RemedyOutcome::kInconclusive);
  EXPECT_EQ(outcome_of(started_under(run_of(3, 0), "fork")), RemedyOutcome::kInconclusive);
  // Neither does a failure.
  EXPECT_EQ(outcome_of(started_under(failing(3, "DLP0302"), "fork")), RemedyOutcome::kInconclusive);
}

TEST(Confirm, WhatCouldNotBeSetIsSaid) {
  Scenery scenery;
  auto run = run_of(0, 0);
  run.end = RunEnd{.at = kSecond, .reason = RunEndReason::kNotStarted, .text = "no right to"};
  scenery.tried(std::move(run));
  const Confirmation confirmation = scenery.confirmation();
  EXPECT_EQ(confirmation.outcome, RemedyOutcome::kInconclusive);
  EXPECT_THAT(confirmation.text.plain(),
              HasSubstr("not tried with OMP_NUM_THREADS=1: no right to"));
}

TEST(Confirm, AnAttemptThatWasCutOffProvesNothing) {
  Scenery scenery;
  auto run = run_of(3, 0);
  run.end.reset();
  scenery.tried(std::move(run));
  EXPECT_EQ(scenery.outcome(), RemedyOutcome::kInconclusive);
}

Finding finding_with(std::vector<std::vector<Setting>> remedies,
                     Severity severity = Severity::kError) {
  Finding finding{
      .code = FindingCode::kFdExhausted, .severity = severity, .message = "", .discriminator = ""};
  for (std::vector<Setting>& settings : remedies)
    finding.remedies.push_back({.title = "", .settings = std::move(settings)});
  return finding;
}

std::vector<std::vector<Setting>> settings_of(const std::vector<PlannedAttempt>& plan) {
  std::vector<std::vector<Setting>> all;
  for (const PlannedAttempt& each : plan)
    all.push_back(each.attempt.settings);
  return all;
}

TEST(Confirm, TheCheapestIsTriedFirstAndEachOnce) {
  const Verdict verdict{
      .findings = {finding_with({kLargerShm, kSpawn, kTwoWorkers, {}, kSpawn, kOneThread})}};
  EXPECT_EQ(settings_of(probes::confirm::plan_attempts(verdict)),
            (std::vector{kOneThread, kTwoWorkers, kSpawn, kLargerShm}));
}

TEST(Confirm, EveryFindingThatIsMoreThanAHintIsTriedTheFirstOneFirst) {
  const Verdict verdict{.findings = {finding_with({kSpawn}), finding_with({kTwoWorkers, kSpawn}),
                                     finding_with({kOneThread}, Severity::kWarning),
                                     finding_with({kLargerShm}, Severity::kInfo)}};
  const std::vector<PlannedAttempt> plan = probes::confirm::plan_attempts(verdict);
  EXPECT_EQ(settings_of(plan), (std::vector{kSpawn, kTwoWorkers, kOneThread}));
  EXPECT_EQ(plan.at(0).findings, (std::vector<size_t>{0, 1})) << "the same is tried once for both";
  EXPECT_EQ(plan.at(2).findings, std::vector<size_t>{2});
}

TEST(Confirm, TheSameOfTwoRunsIsTriedForEach) {
  Finding first = finding_with({kSpawn});
  first.runs = {0};
  Finding second = finding_with({kSpawn});
  second.runs = {1};
  const std::vector<PlannedAttempt> plan =
      probes::confirm::plan_attempts({.findings = {first, second}});
  ASSERT_EQ(plan.size(), 2);
  EXPECT_EQ(plan.at(1).attempt.of_run, 1);
}

TEST(Confirm, NoMoreThanSixAreTried) {
  std::vector<std::vector<Setting>> remedies;
  for (int i = 0; i < 9; ++i)
    remedies.push_back({{SettingKind::kNumWorkers, "", std::to_string(i)}});
  EXPECT_EQ(probes::confirm::plan_attempts({.findings = {finding_with(remedies)}}).size(), 6);
}

// Two findings of one run: each remedy is of its own.
struct TwoFindings {
  Recording recording = {.runs = {failing(4, "DLP0302")}};

  TwoFindings() { add_event(recording.runs.front(), "DLP0506"); }

  static void add_event(Run& run, const std::string& code) {
    run.events.push_back(
        {.at = run.end->at, .kind = "finding", .text = own(code), .process = std::nullopt});
  }

  Verdict verdict() const {
    Verdict verdict = kProbe.examine(recording);
    verdict.findings.at(0).remedies = {{.title = "", .settings = kOneThread}};
    verdict.findings.at(1).remedies = {{.title = "", .settings = kTwoWorkers}};
    return probes::confirm::with_confirmations(verdict, recording, kProbe);
  }
  static Confirmation of(const Verdict& verdict, size_t finding) {
    return verdict.findings.at(finding).remedies.at(0).confirmation.value_or(Confirmation());
  }
};

TEST(Confirm, EachFindingIsJudgedOnItsOwn) {
  TwoFindings scenery;
  auto first_is_gone = run_of(4, 0);
  TwoFindings::add_event(first_is_gone, "DLP0506");
  scenery.recording.attempts.push_back(with(first_is_gone, kOneThread));
  auto nothing_is_gone = failing(4, "DLP0302");
  TwoFindings::add_event(nothing_is_gone, "DLP0506");
  auto workers = started_with(nothing_is_gone, 2);
  scenery.recording.attempts.push_back(with(workers, kTwoWorkers));
  scenery.recording.attempts.push_back(with(nothing_is_gone, {}));
  const Verdict verdict = scenery.verdict();
  EXPECT_EQ(TwoFindings::of(verdict, 0).outcome, RemedyOutcome::kConfirmed)
      << TwoFindings::of(verdict, 0).text.plain();
  EXPECT_EQ(TwoFindings::of(verdict, 1).outcome, RemedyOutcome::kNotHelped)
      << TwoFindings::of(verdict, 1).text.plain();
}

TEST(Confirm, WhatWasThereBesideItAndStaysProvesNothing) {
  TwoFindings scenery;
  auto other_stays = started_with(failing(4, "DLP0302"), 2);
  scenery.recording.attempts.push_back(with(other_stays, kTwoWorkers));
  scenery.recording.attempts.push_back(with(failing(4, "DLP0506"), {}));
  const Confirmation confirmation = TwoFindings::of(scenery.verdict(), 1);
  EXPECT_EQ(confirmation.outcome, RemedyOutcome::kInconclusive);
  EXPECT_THAT(confirmation.text.plain(),
              HasSubstr("DLP0302 fork-lost-thread-pool, found as well, remained"));
}

TEST(Confirm, WhatWasNotTriedIsSaid) {
  TwoFindings scenery;
  scenery.recording.attempts.push_back(with(run_of(4, 0), kOneThread));
  const Confirmation stopped = TwoFindings::of(scenery.verdict(), 1);
  EXPECT_EQ(stopped.outcome, RemedyOutcome::kInconclusive);
  EXPECT_EQ(stopped.text, "not tried with num_workers=2: dlprobe was stopped before");
}

TEST(Confirm, WhatStillRunsButNoLongerMovesProvesNothing) {
  Scenery scenery;
  auto hangs = still_running(run_of(18, 0));
  hangs.end->still_for = 12 * kSecond;
  scenery.tried(hangs);
  scenery.tried_as_it_was(failing(4, "DLP0302"));
  const Confirmation confirmation = scenery.confirmation();
  EXPECT_EQ(confirmation.outcome, RemedyOutcome::kInconclusive);
  EXPECT_THAT(confirmation.text.plain(), HasSubstr("had not moved for 12.0 s"));
}

TEST(Confirm, SettingsAreToldInWords) {
  EXPECT_EQ(describe({{SettingKind::kShmSize, "", "268435456"}}), "a /dev/shm of 256.0 MiB");
  EXPECT_EQ(
      describe({{SettingKind::kPrefetchFactor, "", "1"}, {SettingKind::kNumWorkers, "", "2"}}),
      "prefetch_factor=1 and num_workers=2");
}

}  // namespace
}  // namespace dlprobe
