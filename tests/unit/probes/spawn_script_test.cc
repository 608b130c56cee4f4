#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "probes/spawn/script.h"

namespace dlprobe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

StartEvent foreseen(StartRefusal cause, int32_t line, std::string method = "") {
  return {.kind = StartEventKind::kForeseen,
          .method = std::move(method),
          .cause = cause,
          .message = "multiprocessing.Pool at line 9",
          .path = "initializer",
          .type = "lambda at line 2",
          .file = "train.py",
          .line = line};
}

std::vector<Finding> findings_of(std::vector<StartEvent> events) {
  Run run;
  run.start_events = std::move(events);
  return probes::spawn::findings_of_text(run);
}

TEST(SpawnScript, EveryCauseHasItsFindingWhichIsPossibleAndNoMore) {
  const std::vector<std::pair<StartRefusal, std::string>> causes = {
      {StartRefusal::kBootstrapping, "DLP0401"},
      {StartRefusal::kUnpicklable, "DLP0402"},
      {StartRefusal::kDaemonic, "DLP0403"},
      {StartRefusal::kContextSet, "DLP0404"}};
  for (const auto& [cause, code] : causes) {
    const std::vector<Finding> findings = findings_of({foreseen(cause, 3)});
    ASSERT_THAT(findings, SizeIs(1));
    const Finding& finding = findings.front();
    EXPECT_EQ(info(finding.code).code, code);
    EXPECT_EQ(finding.severity, Severity::kWarning);
    EXPECT_EQ(finding.confidence, Confidence::kPossible);
    EXPECT_EQ(finding.evidence.front().name, "statement");
    EXPECT_FALSE(finding.remedies.empty());
    EXPECT_THAT(finding.message.plain(), HasSubstr("train.py:3"));
  }
}

TEST(SpawnScript, WhatWasSeenToHappenIsNotForeseen) {
  StartEvent event = foreseen(StartRefusal::kUnpicklable, 3);
  event.kind = StartEventKind::kRefused;
  EXPECT_THAT(findings_of({event, {.kind = StartEventKind::kRead}}), IsEmpty());
  EXPECT_THAT(findings_of({foreseen(StartRefusal::kCudaAfterFork, 3)}), IsEmpty());
}

TEST(SpawnScript, TheMessageNamesTheFirstLineAndTheStartMethod) {
  const auto message = [](std::vector<StartEvent> events) {
    return findings_of(std::move(events)).front().message.plain();
  };
  EXPECT_THAT(message({foreseen(StartRefusal::kBootstrapping, 18),
                       foreseen(StartRefusal::kBootstrapping, 20)}),
              AllOf(HasSubstr("train.py:18 starts processes (multiprocessing.Pool at line 9)"),
                    HasSubstr("under spawn and forkserver every worker"),
                    HasSubstr("(the same at 1 other place)")));
  EXPECT_THAT(message({foreseen(StartRefusal::kUnpicklable, 5, "spawn")}),
              AllOf(HasSubstr("its lambda at line 2 cannot be pickled"),
                    HasSubstr("under spawn, which the program chooses")));
  EXPECT_THAT(message({foreseen(StartRefusal::kUnpicklable, 5, "every")}),
              HasSubstr("under every start method"));
}

}  // namespace
}  // namespace dlprobe
