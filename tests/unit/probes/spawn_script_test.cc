#include "probes/spawn_script.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A program with what its text says, read by Python 3.11.
Recording recording_of(std::vector<ScriptFact> facts) {
  Recording recording;
  Run& run = recording.runs.emplace_back();
  run.script = ScriptReading{.program = "script",
                             .file = "train.py",
                             .python = "3.11.2",
                             .default_method = "fork",
                             .facts = std::move(facts)};
  return recording;
}

ScriptFact fact(ScriptFactKind kind, int32_t line, int32_t other_line = 0) {
  return {.kind = kind,
          .file = "train.py",
          .line = line,
          .function = "<module>",
          .what = "multiprocessing.Pool",
          .other_file = other_line > 0 ? "train.py" : "",
          .other_line = other_line};
}

ScriptFact with_method(ScriptFact fact, std::string method) {
  fact.method = std::move(method);
  return fact;
}

Verdict verdict_of(const Recording& recording) {
  Verdict verdict;
  find_in_script(recording, verdict);
  return verdict;
}

std::vector<std::string> codes_of(std::vector<ScriptFact> facts) {
  std::vector<std::string> codes;
  for (const Finding& finding : verdict_of(recording_of(std::move(facts))).findings)
    codes.emplace_back(info(finding.code).code);
  return codes;
}

std::string message_of(std::vector<ScriptFact> facts) {
  const Verdict verdict = verdict_of(recording_of(std::move(facts)));
  return verdict.findings.empty() ? "" : verdict.findings.front().message;
}

TEST(SpawnScript, EveryKindOfFactHasItsFindingWhichIsPossibleAndNoMore) {
  const std::vector<std::pair<ScriptFactKind, std::string>> kinds = {
      {ScriptFactKind::kStartsAtImport, "DLP0401"}, {ScriptFactKind::kMayStartAtImport, "DLP0401"},
      {ScriptFactKind::kUnpicklable, "DLP0402"},    {ScriptFactKind::kDaemonicChild, "DLP0403"},
      {ScriptFactKind::kSetTwice, "DLP0404"},       {ScriptFactKind::kSetAtImport, "DLP0404"},
      {ScriptFactKind::kCudaAfterFork, "DLP0405"},  {ScriptFactKind::kHeavyAtImport, "DLP0406"},
      {ScriptFactKind::kNotFoundThere, "DLP0407"},  {ScriptFactKind::kDefinedUnderGuard, "DLP0407"},
      {ScriptFactKind::kMainUnreadable, "DLP0407"}, {ScriptFactKind::kMpiAtImport, "DLP0408"}};
  for (const auto& [kind, code] : kinds) {
    const Verdict verdict =
        verdict_of(recording_of({fact(ScriptFactKind::kStarts, 9), fact(kind, 3, 9)}));
    ASSERT_EQ(verdict.findings.size(), 1) << to_string(kind);
    const Finding& finding = verdict.findings.front();
    EXPECT_EQ(info(finding.code).code, code);
    EXPECT_EQ(finding.severity, Severity::kWarning);
    EXPECT_EQ(finding.confidence, Confidence::kPossible);
    EXPECT_FALSE(finding.evidence.empty());
    EXPECT_FALSE(finding.remedies.empty());
    EXPECT_THAT(finding.runs, ElementsAre(0));
  }
}

TEST(SpawnScript, WhatStartsProcessesAndNothingElseIsHealthy) {
  EXPECT_THAT(codes_of({}), IsEmpty());
  EXPECT_THAT(codes_of({fact(ScriptFactKind::kStarts, 9)}), IsEmpty());
  EXPECT_THAT(codes_of({fact(ScriptFactKind::kOther, 9)}), IsEmpty());
  EXPECT_EQ(verdict_of(recording_of({fact(ScriptFactKind::kStarts, 9)})), Verdict());
  EXPECT_EQ(verdict_of(Recording()), Verdict());
}

TEST(SpawnScript, UnderForkAWorkerImportsAndIsSentNothing) {
  for (const ScriptFactKind kind :
       {ScriptFactKind::kStartsAtImport, ScriptFactKind::kUnpicklable, ScriptFactKind::kSetAtImport,
        ScriptFactKind::kNotFoundThere, ScriptFactKind::kDefinedUnderGuard}) {
    const auto starts = with_method(fact(ScriptFactKind::kStarts, 9), "fork");
    EXPECT_THAT(codes_of({starts, with_method(fact(kind, 3), "fork")}), IsEmpty())
        << to_string(kind);
  }
}

TEST(SpawnScript, WhatAWorkerRepeatsNeedsWorkersThatImport) {
  for (const ScriptFactKind kind : {ScriptFactKind::kHeavyAtImport, ScriptFactKind::kMpiAtImport,
                                    ScriptFactKind::kSetAtImport}) {
    EXPECT_THAT(codes_of({fact(kind, 3)}), IsEmpty()) << to_string(kind);
    EXPECT_THAT(codes_of({fact(kind, 3), with_method(fact(ScriptFactKind::kStarts, 9), "fork")}),
                IsEmpty())
        << to_string(kind);
  }
}

TEST(SpawnScript, TheMessageNamesTheStatementTheStartAndTheStartMethod) {
  ScriptFact start = fact(ScriptFactKind::kStartsAtImport, 18, 14);
  start.name = "train";
  EXPECT_THAT(message_of({start, fact(ScriptFactKind::kStartsAtImport, 20)}),
              HasSubstr("train.py:18 starts processes (multiprocessing.Pool, at train "
                        "(train.py:14)) and is not under a main guard (and 1 more like it): under "
                        "spawn and forkserver"));
  EXPECT_THAT(message_of({with_method(start, "spawn")}),
              HasSubstr("under spawn, which the program chooses"));
}

TEST(SpawnScript, ALoaderOfWhoseWorkersNothingIsKnownIsSaidToBeOne) {
  const ScriptFact unsure = fact(ScriptFactKind::kMayStartAtImport, 18);
  EXPECT_THAT(message_of({fact(ScriptFactKind::kMayStart, 9), unsure}),
              HasSubstr("train.py:18 may start processes (multiprocessing.Pool, with workers if * "
                        "or ** in its call gives it some) and is not under a main guard:"));
  EXPECT_THAT(message_of({unsure, fact(ScriptFactKind::kStartsAtImport, 20)}),
              HasSubstr("train.py:20 starts processes (multiprocessing.Pool) and is not under a "
                        "main guard (and 1 more like it)"));
  const Verdict guarded = verdict_of(recording_of({fact(ScriptFactKind::kMayStart, 9)}));
  EXPECT_THAT(guarded.findings, IsEmpty());
  ASSERT_EQ(guarded.limits.size(), 1);
  EXPECT_EQ(guarded.limits.front().what, "the loader at train.py:9");
  EXPECT_THAT(codes_of({with_method(unsure, "fork")}), IsEmpty());
}

TEST(SpawnScript, WhatOnePlaceSendsIsOneFinding) {
  ScriptFact lambda = fact(ScriptFactKind::kUnpicklable, 5, 4);
  lambda.path = "dataset.transform.transforms[2].lambd";
  lambda.type = "lambda";
  ScriptFact lock = fact(ScriptFactKind::kUnpicklable, 5, 2);
  lock.path = "dataset.lock";
  lock.type = "_thread.lock";
  ScriptFact elsewhere = lock;
  elsewhere.line = 30;
  const Verdict verdict = verdict_of(recording_of({lambda, elsewhere, lock}));
  ASSERT_EQ(verdict.findings.size(), 2);
  EXPECT_THAT(verdict.findings[0].message,
              HasSubstr("(and 1 more like it): dataset.transform.transforms[2].lambd is a lambda "
                        "(train.py:4)"));
  EXPECT_THAT(verdict.findings[1].message, HasSubstr("an object of type _thread.lock"));
  EXPECT_THAT(verdict.findings[1].remedies.front().commands,
              ElementsAre(R"(def __getstate__(self): return {**self.__dict__, "lock": None})"));
  EXPECT_NE(verdict.findings[0].discriminator, verdict.findings[1].discriminator);
}

TEST(SpawnScript, WhatCouldNotBeReadIsAGap) {
  Recording recording = recording_of({});
  ScriptReading& script = recording.runs.front().script.value();
  script.files_left_out = 2;
  EXPECT_THAT(verdict_of(recording).gaps, IsEmpty());
  EXPECT_EQ(verdict_of(recording).limits.front().what, "2 modules of the program's own");
  script.complete = false;
  EXPECT_THAT(verdict_of(recording).gaps.front().why, HasSubstr("too large"));
  script.error = "invalid syntax";
  script.error_line = 7;
  script.is_syntax_error = true;
  EXPECT_EQ(verdict_of(recording).gaps.front().why, "train.py:7: syntax error: invalid syntax");
  script.is_syntax_error = false;
  script.error_line = 0;
  EXPECT_THAT(verdict_of(recording).gaps.front().why, Not(HasSubstr("syntax error")));
}

TEST(SpawnScript, RunsOfOneProgramAreOneFinding) {
  Recording recording = recording_of({fact(ScriptFactKind::kStartsAtImport, 3)});
  recording.runs.push_back(recording.runs.front());
  const Verdict verdict = verdict_of(recording);
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_THAT(verdict.findings.front().runs, ElementsAre(0, 1));
}

}  // namespace
}  // namespace dlprobe
