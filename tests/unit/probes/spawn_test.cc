#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include "probes/spawn/trial.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr int32_t kRoot = 100;

/// A command that is tried under spawn; its interpreter has loaded the shim.
class SpawnTest : public ::testing::Test {
 protected:
  SpawnTest() {
    recording.runs.emplace_back();
    run().begin = {.at = Scene::at(0), .subject = SubjectKind::kCommand};
    run().begin.trial =
        Trial{.start_method = StartMethod::kSpawn, .most_processes = 18, .most_depth = 3};
    process(kRoot, 1, {"python3", "train.py"});
    tell(kRoot, {.kind = StartEventKind::kInterpreter, .type = "3.11.2"});
  }

  dlprobe::Run& run() { return recording.runs.back(); }

  void process(int32_t pid, int32_t parent, std::vector<std::string> cmdline,
               Role role = Role::kOther) {
    ProcessInfo info;
    info.key = {.pid = pid, .start_ticks = static_cast<uint64_t>(pid)};
    info.ppid = parent;
    info.cmdline = std::move(cmdline);
    info.role = role;
    info.seen_at = Scene::at(0.01 * (pid - kRoot));
    run().processes.push_back(std::move(info));
  }

  void tell(int32_t pid, StartEvent event) {
    event.process = {.pid = pid, .start_ticks = static_cast<uint64_t>(pid)};
    event.at = Scene::at(0.5);
    run().start_events.push_back(std::move(event));
  }

  void started(int32_t child) {
    process(child, kRoot, {"python3", "-c", "spawn_main()", "--multiprocessing-fork"},
            Role::kWorker);
    tell(kRoot, {.kind = StartEventKind::kStarted, .method = "spawn", .child_pid = child});
  }

  void refused(int32_t pid, StartEvent event) {
    event.kind = StartEventKind::kRefused;
    event.method = "spawn";
    tell(pid, std::move(event));
  }

  void ends(int32_t pid, int code) {
    run().exits.push_back({.key = {.pid = pid, .start_ticks = static_cast<uint64_t>(pid)},
                           .at = Scene::at(2),
                           .wait_status = code << 8,
                           .source = "waitid"});
  }

  void grew(std::string_view kind, const Message& text) {
    run().events.push_back(
        {.at = Scene::at(1), .kind = std::string(kind), .text = text, .process = {}});
  }

  Verdict examine() const { return probes::spawn::kProbe.examine(recording); }

  Recording recording;
};

TEST_F(SpawnTest, AJobThatWorksIsSilent) {
  started(101);
  tell(101, {.kind = StartEventKind::kMainImported, .seconds = 0.2, .bytes = 1 << 20});
  ends(kRoot, 0);
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  EXPECT_THAT(verdict.gaps, IsEmpty());
}

TEST_F(SpawnTest, AChildThatStartsWhileItImportsIsAMissingGuard) {
  started(101);
  refused(101, {.cause = StartRefusal::kBootstrapping,
                .file = "/job/train.py",
                .line = 12,
                .is_main = true});
  ends(101, 1);
  ends(kRoot, 0);
  const Finding finding = only_finding(examine());
  EXPECT_EQ(finding.code, FindingCode::kMissingMainGuard);
  // Its parent did not notice, but the child's work was not done.
  EXPECT_THAT(finding, Is(Severity::kError, Confidence::kCertain));
  EXPECT_THAT(finding, Says("train.py:12 starts a process"));
  EXPECT_THAT(finding, AdvisesFirst("under the main guard"));
}

TEST_F(SpawnTest, AModuleThatStartsAtImportIsNotTheMainModule) {
  started(101);
  refused(
      101,
      {.cause = StartRefusal::kBootstrapping, .file = "/job/lib.py", .line = 3, .is_main = false});
  EXPECT_THAT(only_finding(examine()), AdvisesFirst("into a function"));
}

TEST_F(SpawnTest, WhatCannotBePickledIsNamedByItsPath) {
  refused(kRoot, {.cause = StartRefusal::kUnpicklable,
                  .path = "dataset.fn",
                  .type = "lambda",
                  .file = "/job/train.py",
                  .line = 4});
  ends(kRoot, 1);
  const Finding finding = only_finding(examine());
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("dataset.fn (lambda at train.py:4) cannot be pickled"));
}

TEST_F(SpawnTest, ARefusalThatTheProgramSurvivesIsAWarning) {
  refused(kRoot, {.cause = StartRefusal::kUnpicklable, .path = "target", .type = "lambda"});
  ends(kRoot, 0);
  run().end = RunEnd{.at = Scene::at(3), .reason = RunEndReason::kSubjectEnded, .text = ""};
  EXPECT_EQ(only_finding(examine()).severity, Severity::kWarning);
}

TEST_F(SpawnTest, ARefusalThatItsOwnProcessDiesOfIsAnErrorWhateverItsParentDoes) {
  started(101);
  refused(101, {.cause = StartRefusal::kDaemonic, .file = "/job/train.py", .line = 4});
  ends(101, 1);
  ends(kRoot, 0);
  run().end = RunEnd{.at = Scene::at(3), .reason = RunEndReason::kSubjectEnded, .text = ""};
  const Verdict verdict = examine();
  ASSERT_THAT(verdict.findings, SizeIs(1));
  EXPECT_EQ(verdict.findings.front().severity, Severity::kError);
  EXPECT_THAT(verdict.gaps, IsEmpty());
}

TEST_F(SpawnTest, ARefusalThatAnotherProcessHandedOnIsNotOfTheOneThatTells) {
  started(101);
  refused(101, {.cause = StartRefusal::kDaemonic, .file = "/job/train.py", .line = 4});
  run().start_events.back().wanted = "elsewhere";
  ends(101, 1);
  ends(kRoot, 1);
  ASSERT_THAT(examine().findings, SizeIs(1));
  EXPECT_THAT(examine().findings.front(),
              Says("starts a process inside another process, which is daemonic"));
}

TEST_F(SpawnTest, AWorkerThatLivesOnWithoutWhatItDidNotFindSurvivedIt) {
  for (const int status : {0, SIGTERM, 1 << 8}) {
    run().start_events.clear();
    run().processes.resize(1);
    run().exits.clear();
    started(101);
    tell(101, {.kind = StartEventKind::kRefused,
               .cause = StartRefusal::kNotFoundThere,
               .message = "AttributeError: Can't get attribute 'work'"});
    ends(101, 0);
    run().exits.back().wait_status = status;
    ends(kRoot, 0);
    run().end = RunEnd{.at = Scene::at(3), .reason = RunEndReason::kSubjectEnded, .text = ""};
    EXPECT_EQ(examine().findings.front().severity,
              status == 1 << 8 ? Severity::kError : Severity::kWarning)
        << status;
  }
}

TEST_F(SpawnTest, WhatGoesThroughAQueueCannotBePickledUnderAnyStartMethod) {
  started(101);
  tell(kRoot, {.kind = StartEventKind::kRefused,
               .cause = StartRefusal::kUnpicklable,
               .path = "task[3][0][0]",
               .type = "lambda"});
  ends(kRoot, 1);
  const Finding finding = examine().findings.front();
  EXPECT_THAT(finding, Says("so it cannot go to the processes of a pool or queue"));
  for (const Remedy& remedy : finding.remedies)
    EXPECT_THAT(remedy.settings, IsEmpty()) << remedy.title.plain();
}

TEST_F(SpawnTest, ALockOfForkIsNoneForASpawnedProcess) {
  const StartEvent sent{.cause = StartRefusal::kNotRebuilt,
                        .message = "RuntimeError: A SemLock created in a fork context ...",
                        .path = "args[0]",
                        .type = "Synchronized",
                        .file = "/job/train.py",
                        .line = 9};
  for (const bool is_refused : {true, false}) {
    run().start_events.clear();
    run().exits.clear();
    run().processes.resize(1);
    started(101);
    run().processes.back().start_method = StartMethod::kSpawn;
    refused(kRoot, sent);
    run().start_events.back().wanted = "fork";
    if (!is_refused) run().start_events.back().message.clear();
    ends(kRoot, 1);
    if (!is_refused) {
      EXPECT_THAT(examine().findings, IsEmpty()) << "nobody used it";
      ends(101, 0);
      run().exits.back().wait_status = SIGSEGV;
    }
    const Finding finding = examine().findings.front();
    EXPECT_EQ(finding.code, FindingCode::kUnpicklableObject);
    EXPECT_THAT(finding,
                Says("args[0] (Synchronized) was made for fork, and train.py:9 sends it to a "
                     "process of spawn"));
    EXPECT_EQ(finding.message.plain().contains("worker 101 crashed"), !is_refused);
    EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("\"spawn\""));
  }
}

TEST_F(SpawnTest, ALockInATaskIsToBeGivenAtTheStart) {
  tell(kRoot, {.kind = StartEventKind::kRefused,
               .wanted = "inheritance",
               .cause = StartRefusal::kUnpicklable,
               .type = "Synchronized",
               .file = "/job/train.py",
               .line = 9});
  ends(kRoot, 1);
  const Finding finding = examine().findings.front();
  EXPECT_THAT(finding, Says("train.py:9 puts a Synchronized of"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("initializer"));
}

TEST_F(SpawnTest, WhatAWorkerCannotSendBackIsToBePlain) {
  started(101);
  tell(101, {.kind = StartEventKind::kRefused,
             .cause = StartRefusal::kUnpicklable,
             .path = "task[1][0]",
             .type = "sqlite3.Row"});
  ends(kRoot, 1);
  const Finding finding = examine().findings.front();
  EXPECT_THAT(finding, Says("cannot send it back"));
  EXPECT_THAT(finding, AdvisesFirst("Return plain data"));
}

TEST_F(SpawnTest, WhatStandsBelowTheGuardIsToBeMovedOutOfIt) {
  for (const bool has_main : {false, true}) {
    run().start_events.clear();
    run().processes.resize(1);
    started(101);
    tell(101, {.kind = StartEventKind::kRefused,
               .cause = StartRefusal::kNotFoundThere,
               .message = "AttributeError: Can't get attribute 'work'",
               .file = has_main ? "/job/train.py" : ""});
    EXPECT_THAT(examine().findings.front(),
                AdvisesFirst(has_main ? "outside the main guard" : "into a module file"));
  }
}

TEST_F(SpawnTest, WhatAForkedWorkerLacksWasDefinedLater) {
  started(101);
  run().processes.back().start_method = StartMethod::kFork;
  run().start_events.back().file = "/job/nb.py";
  run().start_events.back().line = 4;
  tell(101, {.kind = StartEventKind::kRefused,
             .cause = StartRefusal::kNotFoundThere,
             .message = "AttributeError: Can't get attribute 'work'",
             .file = "/job/nb.py"});
  EXPECT_THAT(examine().findings.front().remedies.front().title.plain(),
              AllOf(HasSubstr("after it is defined"), HasSubstr("at nb.py:4")));
}

TEST_F(SpawnTest, AScriptThatAsksForSpawnItselfIsTheSameUnderAnyDefault) {
  started(101);
  for (const char* method : {"spawn", "fork"}) {
    std::erase_if(run().start_events,
                  [](const StartEvent& event) { return event.kind == StartEventKind::kChosen; });
    tell(kRoot, {.kind = StartEventKind::kChosen, .method = method, .wanted = method});
    ends(kRoot, 0);
    const bool is_fork = std::string_view(method) == "fork";
    EXPECT_THAT(examine().gaps, SizeIs(is_fork ? 1 : 0)) << method;
  }
}

TEST_F(SpawnTest, TheMainModulesOwnWorkCountsNotItsImports) {
  started(101);
  tell(101, {.kind = StartEventKind::kMainImported,
             .file = "/job/train.py",
             .seconds = 3.0,
             .bytes = 5 << 20});
  ends(kRoot, 0);
  EXPECT_THAT(only_finding(examine()), Is(FindingCode::kMainModuleReimported, Severity::kWarning));
}

TEST_F(SpawnTest, AMainModuleThatCannotBeImported) {
  started(101);
  tell(101, {.kind = StartEventKind::kMainNotImported,
             .message = "FileNotFoundError: <stdin>",
             .file = "/job/<stdin>"});
  EXPECT_EQ(examine().findings.front().code, FindingCode::kMainNotImportable);
}

TEST_F(SpawnTest, AnImportThatEndsAtAMissingGuardIsThatAlone) {
  started(101);
  refused(101, {.cause = StartRefusal::kBootstrapping,
                .file = "/job/train.py",
                .line = 12,
                .is_main = true});
  tell(101, {.kind = StartEventKind::kMainNotImported,
             .message = "RuntimeError",
             .file = "/job/train.py"});
  EXPECT_THAT(examine().findings, SizeIs(1));
}

TEST_F(SpawnTest, MpiThatIsInitialisedAgainInAChildThatDiesThere) {
  started(101);
  tell(kRoot, {.kind = StartEventKind::kMpiBegins});
  tell(kRoot, {.kind = StartEventKind::kMpiReady});
  tell(101, {.kind = StartEventKind::kMpiBegins, .file = "/job/train.py", .line = 2});
  ends(101, 1);
  EXPECT_EQ(examine().findings.front().code, FindingCode::kMpiInSpawnedWorker);
}

TEST_F(SpawnTest, MpiThatIsInitialisedInEachProcessWell) {
  started(101);
  for (const int32_t pid : {kRoot, 101}) {
    tell(pid, {.kind = StartEventKind::kMpiBegins});
    tell(pid, {.kind = StartEventKind::kMpiReady});
    ends(pid, 0);
  }
  EXPECT_THAT(examine().findings, IsEmpty());
}

// A command whose child fails, and fails it, under spawn; then, where asked, under fork.
class ControlTest : public SpawnTest {
 protected:
  ControlTest() { ends_with(1); }

  void ends_with(int code) {
    started(101);
    ends(101, code);
    ends(kRoot, code);
    run().end = RunEnd{.at = Scene::at(3),
                       .reason = RunEndReason::kSubjectEnded,
                       .text = "",
                       .wait_status = code << 8};
  }

  void under_fork(int code) {
    recording.runs.emplace_back();
    run().begin = {.at = Scene::at(0), .subject = SubjectKind::kCommand};
    run().begin.trial = Trial{.start_method = StartMethod::kFork};
    process(kRoot, 1, {"python3", "train.py"});
    ends_with(code);
  }
};

TEST_F(ControlTest, AFailureThatNobodyCanExplainIsTriedUnderFork) {
  EXPECT_TRUE(probes::spawn::wants_control(recording));
  EXPECT_THAT(examine().findings, IsEmpty());
  EXPECT_THAT(examine().gaps, Not(IsEmpty()));
}

TEST_F(ControlTest, WhatWorksUnderForkAloneLacksItsParentsState) {
  under_fork(0);
  EXPECT_FALSE(probes::spawn::wants_control(recording));
  const Verdict verdict = examine();
  ASSERT_THAT(verdict.findings, SizeIs(1));
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kStateNotInherited);
  EXPECT_EQ(verdict.findings.front().runs, std::vector<int>({0}));
  EXPECT_THAT(verdict.gaps, IsEmpty());
}

TEST_F(ControlTest, ANameThatTheMainModuleHasIsNamed) {
  tell(kRoot, {.kind = StartEventKind::kFailed,
               .message = "NameError: name 'scale' is not defined",
               .path = "scale"});
  under_fork(0);
  const Finding finding = examine().findings.front();
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
  EXPECT_THAT(finding, Says("lack scale, which their parent has"));
  EXPECT_THAT(finding, AdvisesFirst("Pass scale to the processes"));
}

TEST_F(ControlTest, WhatStandsStillLongAfterItsLastStartFailsAsWell) {
  run().exits.clear();
  for (const double ends_at : {60.0, 12.0, 0.9}) {
    // The control takes 2 s, and the last process was started after 0.5 s.
    recording.runs.resize(1);
    run().end = RunEnd{.at = Scene::at(ends_at),
                       .reason = RunEndReason::kTimeUp,
                       .text = "it was still running; dlprobe ended it"};
    under_fork(0);
    EXPECT_THAT(examine().findings, SizeIs(ends_at > 10 ? 1 : 0)) << ends_at;
  }
}

TEST_F(ControlTest, WhatGoesOnStartingProcessesOnlyTakesLong) {
  run().exits.clear();
  run().end = RunEnd{.at = Scene::at(60),
                     .reason = RunEndReason::kTimeUp,
                     .text = "it was still running; dlprobe ended it"};
  started(102);
  run().start_events.back().at = Scene::at(55);
  under_fork(0);
  EXPECT_THAT(examine().findings, IsEmpty());
}

TEST_F(ControlTest, WhatFailsUnderForkAsWellIsNotTheStartMethodsDoing) {
  under_fork(1);
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_THAT(verdict.gaps, Not(IsEmpty()));
  EXPECT_THAT(verdict.gaps.front().remedy.plain(), HasSubstr("fails under fork too"));
}

TEST_F(ControlTest, ChildrenThatFailUnderForkAsWellAreMeantTo) {
  const auto ends_well = [this] {
    run().end = RunEnd{.at = Scene::at(3), .reason = RunEndReason::kSubjectEnded, .text = ""};
    for (ProcessExit& exit : run().exits)
      if (exit.key.pid == kRoot) exit.wait_status = 0;
  };
  ends_well();
  EXPECT_THAT(examine().gaps, SizeIs(1));
  under_fork(1);
  ends_well();
  EXPECT_THAT(examine().findings, IsEmpty());
  EXPECT_THAT(examine().gaps, IsEmpty());
}

TEST_F(ControlTest, WhatIsExplainedNeedsNoControl) {
  refused(kRoot, {.cause = StartRefusal::kUnpicklable, .path = "target", .type = "lambda"});
  EXPECT_FALSE(probes::spawn::wants_control(recording));
}

TEST_F(ControlTest, WhatFailsBeforeItStartsAnythingFailsByItself) {
  EXPECT_FALSE(probes::spawn::failed_by_itself(run()));
  std::erase_if(run().start_events,
                [](const StartEvent& event) { return event.kind == StartEventKind::kStarted; });
  EXPECT_TRUE(probes::spawn::failed_by_itself(run()));
  EXPECT_FALSE(probes::spawn::wants_control(recording));
}

TEST_F(SpawnTest, GenerationsOfTheSameProgramAreARecursion) {
  for (int32_t pid = 101; pid < 105; ++pid)
    process(pid, pid - 1, {"python3", "/job/train.py"});
  grew(kTooDeep, "had 5 generations of the same process");
  const Finding finding = only_finding(examine());
  EXPECT_THAT(finding, Is(FindingCode::kRecursiveProcessCreation, Confidence::kLikely));
  EXPECT_THAT(finding, Says("5 generations"));
}

TEST_F(SpawnTest, ManyBesideOneAnotherAreNoRecursion) {
  for (int32_t pid = 101; pid < 125; ++pid)
    process(pid, kRoot, {"python3", "train.py"});
  grew(kTooManyProcesses, "had 25 processes");
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_THAT(verdict.gaps, SizeIs(1));
  EXPECT_THAT(verdict.gaps.front().remedy.plain(), HasSubstr("--process-budget"));
}

TEST_F(SpawnTest, AProgramThatStillRunsMayKnowWhatToDo) {
  run().begin.trial.reset();
  refused(kRoot, {.cause = StartRefusal::kUnpicklable, .message = "TypeError: no"});
  EXPECT_EQ(examine().findings.front().severity, Severity::kWarning);
  ends(kRoot, 1);
  run().end = RunEnd{.at = Scene::at(3)};
  EXPECT_EQ(examine().findings.front().severity, Severity::kError);
}

TEST_F(SpawnTest, WhatCannotBeMadeAgainIsNamed) {
  refused(kRoot, {.cause = StartRefusal::kNotRebuilt,
                  .message = "TypeError: Broken.__init__() missing 1 required argument: 'where'"});
  ends(kRoot, 1);
  const Finding finding = only_finding(examine());
  EXPECT_EQ(finding.code, FindingCode::kUnpicklableObject);
  EXPECT_THAT(finding, Says("Broken.__init__()"));
}

TEST_F(SpawnTest, AScriptThatInsistsWasNotTried) {
  tell(kRoot, {.kind = StartEventKind::kChosen,
               .method = "fork",
               .wanted = "fork",
               .file = "/job/train.py",
               .line = 8});
  tell(kRoot, {.kind = StartEventKind::kStarted, .method = "fork", .child_pid = 101});
  ends(kRoot, 0);
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_THAT(verdict.gaps, SizeIs(1));
  EXPECT_THAT(verdict.gaps.front().why.plain(), HasSubstr("train.py:8 asks for fork"));
}

TEST_F(SpawnTest, WithoutAStartNothingIsSaidToBeWell) {
  ends(kRoot, 0);
  EXPECT_THAT(examine().gaps, SizeIs(1));
  run().start_events.clear();
  const Verdict verdict = examine();
  ASSERT_THAT(verdict.gaps, SizeIs(1));
  EXPECT_THAT(verdict.gaps.front().why.plain(), HasSubstr("no Python (3.6 or later)"));
}

TEST_F(SpawnTest, AFailureOfAnotherKindIsNotExplained) {
  started(101);
  ends(kRoot, 1);
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_THAT(verdict.gaps, SizeIs(1));
  EXPECT_THAT(verdict.gaps.front().what.plain(), HasSubstr("why the command failed"));
}

TEST_F(SpawnTest, AChildThatFailsUnseenByItsParentIsNotWell) {
  started(101);
  ends(101, 1);
  ends(kRoot, 0);
  const Verdict verdict = examine();
  EXPECT_THAT(verdict.findings, IsEmpty());
  ASSERT_THAT(verdict.gaps, SizeIs(1));
  EXPECT_THAT(verdict.gaps.front().what.plain(), HasSubstr("worker 101 failed under spawn"));
}

TEST_F(SpawnTest, AJobThatWasCutOffWorksIfBatchesCame) {
  started(101);
  run().end = RunEnd{.at = Scene::at(60),
                     .reason = RunEndReason::kSubjectEnded,
                     .text = "the command ran as long as allowed; dlprobe ended it"};
  EXPECT_THAT(examine().gaps, SizeIs(1));
  tell(kRoot, {.kind = StartEventKind::kFirstBatch, .seconds = 0.5});
  EXPECT_THAT(examine().gaps, IsEmpty());
}

TEST_F(SpawnTest, OfACommandThatIsOnlyWatchedNothingIsMissed) {
  run().begin.trial.reset();
  run().start_events.clear();
  EXPECT_THAT(examine().gaps, IsEmpty());
}

/// The reference loader, which tells of its own starts.
class SpawnOfLoaderTest : public SpawnTest {
 protected:
  SpawnOfLoaderTest() {
    run() = {};
    run().begin = {.at = Scene::at(0), .subject = SubjectKind::kReferenceLoader};
    run().begin.trial =
        Trial{.start_method = StartMethod::kSpawn, .most_processes = 18, .most_depth = 3};
    process(kRoot, 1, {"dlprobe-reference-loader", "--workers", "2"}, Role::kTrainer);
    run().end = RunEnd{.at = Scene::at(2), .reason = RunEndReason::kSubjectEnded, .text = ""};
  }

  void worker(int32_t pid, int32_t parent = kRoot) {
    process(pid, parent, {"dlp-worker", "--internal-role", "worker", std::to_string(pid)},
            Role::kWorker);
    tell(parent, {.kind = StartEventKind::kStarted, .method = "spawn", .child_pid = pid});
  }
};

TEST_F(SpawnOfLoaderTest, OneThatFinishedIsSilent) {
  worker(101);
  run().done = LoaderDone{};
  ends(kRoot, 0);
  EXPECT_THAT(examine().findings, IsEmpty());
  EXPECT_THAT(examine().gaps, IsEmpty());
}

TEST_F(SpawnOfLoaderTest, OneThatWasRefusedIsTheFindingAloneAndItsOwnWordIsTheSource) {
  worker(101);
  refused(101, {.cause = StartRefusal::kBootstrapping,
                .file = "tools/reference_loader/loader.cc",
                .line = 68,
                .is_main = true});
  ends(101, 1);
  ends(kRoot, 1);
  const Verdict verdict = examine();
  ASSERT_THAT(verdict.findings, SizeIs(1));
  EXPECT_THAT(verdict.findings[0], Is(FindingCode::kMissingMainGuard, Severity::kError));
  EXPECT_THAT(verdict.findings[0], Says("loader.cc:68"));
  EXPECT_THAT(verdict.gaps, IsEmpty()) << "that it failed is explained";
  for (const Evidence& fact : verdict.findings[0].evidence)
    EXPECT_THAT(fact.source.plain(), HasSubstr("reference loader")) << fact.name;
}

TEST_F(SpawnOfLoaderTest, ItsGenerationsAreCounted) {
  for (int32_t pid = 101; pid <= 104; ++pid)
    worker(pid, pid - 1);
  grew(kTooDeep, "had 5 generations of the same process");
  const Finding finding = only_finding(examine());
  EXPECT_THAT(finding, Is(FindingCode::kRecursiveProcessCreation, Confidence::kLikely));
  EXPECT_THAT(finding, Says("5 generations"));
}

TEST_F(SpawnOfLoaderTest, AFailureOfAnotherKindAndALoaderWithoutWorkersAreGaps) {
  worker(101);
  run().events.push_back(
      {.at = Scene::at(1), .kind = "loader-error", .text = "no memory", .process = {}});
  ASSERT_THAT(examine().gaps, SizeIs(1));
  EXPECT_EQ(examine().gaps[0].why.plain(), "no memory");
  run().start_events.clear();
  run().done = LoaderDone{};
  ASSERT_THAT(examine().gaps, SizeIs(1));
  EXPECT_THAT(examine().gaps[0].remedy.plain(), HasSubstr("--workers 2"));
}

}  // namespace
}  // namespace dlprobe
