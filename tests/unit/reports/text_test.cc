#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "lib/base/units.h"
#include "reports/document/render.h"
#include "reports/document/text_layout.h"
#include "reports/document/text_page.h"
#include "tests/support/escape_lines.h"
#include "tests/support/read_text.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const testing::ReportCase& each, const TextOptions& options) {
  return render_text(report_of(each), options);
}

// All of it, as with -v.
std::string text_of(const testing::ReportCase& each) {
  return text_of(each, {.verbosity = 1});
}

std::string brief_of(const testing::ReportCase& each) {
  return text_of(each, {.width = 80});
}

// DLPROBE_UPDATE_GOLDEN=1 writes the files anew; look at the difference before you commit it.
TEST(TextReport, GoldenFiles) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const std::string stem = DLPROBE_GOLDEN_DIR "/" + std::string(each.name);
    for (const auto& [path, text] : {std::pair(stem + ".txt", text_of(each)),
                                     std::pair(stem + ".brief.txt", brief_of(each))}) {
      // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
      if (std::getenv("DLPROBE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
      EXPECT_EQ(text, read_text(path)) << path;
    }
  }
}

TEST(TextReport, TheFirstLineIsTheVerdict) {
  EXPECT_TRUE(text_of(testing::healthy_case()).starts_with("PASS  "));
  EXPECT_TRUE(text_of(testing::exhausted_case()).starts_with("FAIL  DLP0102 shm-exhausted: "));
  EXPECT_TRUE(text_of(testing::incomplete_case()).starts_with("INCOMPLETE  cannot tell: "));
}

TEST(TextReport, QuietIsOneLine) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const std::string text = text_of(each, {.verbosity = -1});
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  }
}

TEST(TextReport, TheShortReportOffersTheRemedyThatWasSeenToWork) {
  testing::ReportCase each = testing::hang_case();
  Finding& finding = each.verdict.findings.front();
  finding.remedies = {{.title = "Pray"}, {.title = "Use spawn"}};
  EXPECT_THAT(brief_of(each), HasSubstr("Fix     Pray\n"));
  finding.remedies.back().confirmation =
      Confirmation{.outcome = RemedyOutcome::kConfirmed, .text = "confirmed: it is gone"};
  EXPECT_THAT(brief_of(each), HasSubstr("Fix     Use spawn\n          confirmed: it is gone\n"));
}

TEST(TextReport, TheProofIsOneLineAndBeginsWithWhatWasHeldAgainstSomething) {
  testing::ReportCase each = testing::hang_case();
  Finding& finding = each.verdict.findings.front();
  finding.evidence = {
      {.name = "a_long_name", .value = as_text(std::string(80, 'x'))},
      {.name = "growth", .value = 3.0 * (1 << 20), .unit = "bytes/s"},
      {.name = "room", .value = int64_t{0}, .unit = "bytes", .threshold = "< need"}};
  EXPECT_THAT(brief_of(each), HasSubstr("\nProof   room 0 B (< need), growth 3.0 MiB/s\n"));
}

TEST(TextReport, TheShortReportLeavesOutWhatOthersHaveLeftOnTheMachine) {
  testing::ReportCase each = testing::hang_case();
  std::vector<Finding>& findings = each.verdict.findings;
  Finding left = findings.front();
  left.code = FindingCode::kLeakedSemaphores;
  left.severity = Severity::kWarning;
  left.message = "7 semaphores are left";
  left.consequence_of.reset();
  findings.push_back(left);
  EXPECT_THAT(brief_of(each), HasSubstr("Also    DLP0107"));
  findings.back().processes.clear();
  EXPECT_THAT(brief_of(each), Not(HasSubstr("DLP0107")));
  EXPECT_THAT(brief_of(each), HasSubstr("other finding"));
  findings.erase(findings.begin(), std::prev(findings.end()));
  EXPECT_THAT(brief_of(each), HasSubstr("DLP0107"));
}

TEST(TextReport, TheHeadlineNamesTheLineOnce) {
  testing::ReportCase each = testing::hang_case();
  Finding& finding = each.verdict.findings.front();
  finding.places = {{.file = "/srv/job/data.py", .line = 14, .what = "waits in get"}};
  EXPECT_THAT(text_of(each, {.width = 999, .verbosity = -1}),
              HasSubstr("; at /srv/job/data.py:14 (waits in get)\n"));
  finding.message += " (data.py:14)";
  EXPECT_THAT(text_of(each, {.width = 999, .verbosity = -1}), Not(HasSubstr("; at ")));
}

TEST(TextReport, ChecksThatWereNotMadeAreNamedOncePerReason) {
  testing::ReportCase each = testing::healthy_case();
  each.verdict.checks = {{.id = "a.one", .text = "fine"},
                         {.id = "b.one", .status = CheckStatus::kSkipped, .text = "no torch"},
                         {.id = "b.two", .status = CheckStatus::kSkipped, .text = "no torch"},
                         {.id = "c.one", .status = CheckStatus::kSkipped, .text = "no data"}};
  EXPECT_EQ(brief_of(each),
            "PASS  1 check passed; not checked: b.one and 1 more, c.one\n\n"
            "Skipped b.one, b.two: no torch\n        c.one: no data\n");
}

TEST(TextReport, RunsThatWereNotStartedTakeOneLine) {
  testing::ReportCase each = testing::healthy_case();
  dlprobe::Run& run = each.recording.runs.front();
  run.begin.plan = LoaderPlan{};
  run.end = RunEnd{.at = run.begin.at, .reason = RunEndReason::kNotStarted, .text = "no room"};
  each.recording.runs = {run, run, run};
  const std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("  all runs: not started (no room)\n"));
  EXPECT_THAT(text, Not(HasSubstr("shm peak")));
}

TEST(TextReport, HowLongSomethingStoodStillIsOfItsOwnRun) {
  testing::ReportCase each = testing::hang_case();
  dlprobe::Run& run = each.recording.runs.front();
  run.end =
      RunEnd{.at = run.snapshots.back().at, .reason = RunEndReason::kSubjectEnded, .text = {}};
  const std::string alone = text_of(each);
  const auto stuck = alone.substr(alone.find("stuck for "), 14);
  dlprobe::Run later = run;
  later.begin.at = run.end->at + 600 * kSecond;
  later.end->at = later.begin.at + kSecond;
  later.snapshots.clear();
  each.recording.runs.push_back(std::move(later));
  EXPECT_THAT(text_of(each), HasSubstr(stuck));
}

TEST(TextReport, WhyDlprobeEndedWhatItHadStartedIsSaid) {
  testing::ReportCase each = testing::healthy_case();
  dlprobe::Run& run = each.recording.runs.front();
  run.end = RunEnd{.at = run.begin.at + kSecond,
                   .reason = RunEndReason::kSubjectEnded,
                   .text = "no progress; dlprobe ended it"};
  EXPECT_THAT(text_of(each), HasSubstr("  ! no progress; dlprobe ended it\n"));
}

TEST(TextReport, NoLineIsWiderThanAskedFor) {
  for (const int width : {60, 80, 100, 160}) {
    for (const testing::ReportCase& each : testing::all_cases()) {
      const std::string text = text_of(each, {.width = width});
      std::string_view rest = text;
      while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        EXPECT_LE(columns_of(line), static_cast<size_t>(width)) << line;
        rest.remove_prefix(line.size() + 1);
      }
    }
  }
}

TEST(TextReport, HostileTextCannotActOnTheTerminal) {
  const std::string text = text_of(testing::hostile_case(), {.verbosity = 1});
  EXPECT_EQ(escape_lines(text), text);
  EXPECT_THAT(text, HasSubstr("\\x1b]0;owned"));
  EXPECT_THAT(text, HasSubstr("\\u{202e}"));
}

TEST(TextReport, ColourOnlyWhenAskedFor) {
  EXPECT_THAT(text_of(testing::exhausted_case()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(text_of(testing::exhausted_case(), {.color = true}), HasSubstr("\x1b[1;31mFAIL"));
}

TEST(TextReport, WhatCouldNotBeSeenIsToldWithWhatWouldHelp) {
  const std::string text = text_of(testing::incomplete_case());
  EXPECT_THAT(text, HasSubstr("Permission denied (EACCES)"));
  EXPECT_THAT(text, HasSubstr("what would help: run dlprobe as root"));
  EXPECT_THAT(text, Not(HasSubstr("PASS")));
}

TEST(TextReport, AHangShowsItsChainThenWhoDoesWhatThenTheProof) {
  const std::string text = text_of(testing::hang_case());
  EXPECT_THAT(text, HasSubstr("Who waits for whom\n"
                              "  trainer 100, idle, at /srv/job/train.py:21 in main\n"
                              "    waits for a batch of worker 101, stuck for 2.0 s, at "
                              "/srv/job/data.py:14 in Data.__getitem__\n"
                              "      waits for mutex 0x7f1000 (worker 101)\n"
                              "        held by thread 106 of trainer 100 <-- the root cause\n"));
  EXPECT_THAT(text, HasSubstr("\n  workers 102, 103, 107: same as worker 101\n"));
  EXPECT_LT(text.find("Who waits"), text.find("Processes"));
  EXPECT_LT(text.find("Processes"), text.find("Proof"));
  EXPECT_THAT(text, Not(HasSubstr("shm"))) << "the probe did not look at shared memory";
}

TEST(TextReport, ACircleIsMarkedWhereItCloses) {
  testing::ReportCase each = testing::hang_case();
  std::vector<std::string>& chain = each.verdict.wait_graphs.front().chain;
  chain.back() = chain[1];
  EXPECT_THAT(text_of(each), HasSubstr("        then worker 101 <-- again: a circle\n"));
}

TEST(TextReport, AWorkerThatDoesSomethingElseIsNotFoldedAway) {
  testing::ReportCase each = testing::hang_case();
  each.verdict.wait_graphs.front().nodes.back().activity = Activity::kRunning;
  const std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("  workers 102, 103: same as worker 101\n"));
  EXPECT_THAT(text, HasSubstr("107  running for 2.0 s"));
}

TEST(TextReport, WorkersThatWaitForOneAnotherAreBothShown) {
  testing::ReportCase each = testing::hang_case();
  WaitGraph& graph = each.verdict.wait_graphs.front();
  const auto add_edge = [&](std::string from, std::string to, std::string relation) {
    graph.edges.push_back(
        {.from = std::move(from), .to = std::move(to), .relation = std::move(relation)});
  };
  graph.nodes.push_back({.id = "lock 1", .label = "lock 1"});
  graph.nodes.push_back({.id = "lock 2", .label = "lock 2"});
  add_edge("thread 102/102", "lock 1", "waits for");
  add_edge("lock 1", "thread 103/103", "held by");
  add_edge("thread 103/103", "lock 2", "waits for");
  const std::string folded = text_of(each);
  EXPECT_THAT(folded, HasSubstr("  workers 102, 103, 107: same as worker 101\n"));
  add_edge("lock 2", "thread 102/102", "held by");
  const std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("  worker 107: same as worker 101\n"));
  EXPECT_THAT(text, HasSubstr("102  stuck"));
  EXPECT_THAT(text, HasSubstr("103  stuck"));
}

// What `probe` says of two workers whose memory and descriptors were looked into.
std::string text_of_probe(std::string_view probe) {
  testing::ReportCase each = testing::healthy_case();
  each.recording.header.invocation.probe = probe;
  Sample& last = each.recording.runs.back().samples.back();
  for (ProcessSample& process : last.processes) {
    process.private_bytes = 40 << 20;
    process.fds = FdKinds{.files = 1, .sockets = 2, .pipes = 3};
  }
  last.host = HostMemory{.total_bytes = 8ULL << 30, .available_bytes = 400 << 20};
  return text_of(each);
}

TEST(TextReport, MemorySaysWhatEachHoldsAndWhatThereIsRoomFor) {
  const std::string text = text_of_probe("memory");
  EXPECT_THAT(text, HasSubstr("  trainer 100  400.0 MiB  40.0 MiB  50.0 MiB  400.0 MiB\n"));
  EXPECT_THAT(text, HasSubstr("  left of the machine's memory: 400.0 MiB of 8.0 GiB\n"));
  EXPECT_THAT(text, HasSubstr("one more like worker 101: 40.0 MiB of its own, room for 10"));
  EXPECT_THAT(text, Not(HasSubstr("Open descriptors")));
}

TEST(TextReport, FdSaysWhatEachHasOpen) {
  const std::string text = text_of_probe("fd");
  EXPECT_THAT(text, HasSubstr("file  socket  pipe\n"));
  EXPECT_THAT(text, HasSubstr("     1       2     3\n"));
  EXPECT_THAT(text, Not(HasSubstr("room for")));
}

TEST(TextReport, RunsOfALockProbeSayWhatWasFoundInEach) {
  testing::ReportCase each = testing::healthy_case();
  each.recording.header.invocation.probe = "deadlock";
  each.verdict.findings = {testing::hang_case().verdict.findings.front()};
  const std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("fork        file_descriptor  fork-inherited-lock"));
  EXPECT_THAT(text, HasSubstr("forkserver  file_system      nothing"));
}

// As `dlprobe spawn-recursion` makes them: of one run after the other it was tried what breaks.
testing::ReportCase tried_loader() {
  testing::ReportCase each = testing::healthy_case();
  each.recording.header.invocation.probe = "spawn-recursion";
  for (Run& run : each.recording.runs) {
    run.begin.trial = Trial{.start_method = run.begin.plan.value().start_method,
                            .sharing_strategy = run.begin.plan.value().sharing_strategy,
                            .workers = 2,
                            .most_processes = 18,
                            .most_depth = 3};
    run.start_events = {{.at = run.begin.at + kSecond / 2,
                         .kind = StartEventKind::kStarted,
                         .method = std::string(to_string(run.begin.trial->start_method)),
                         .child_pid = 101}};
  }
  return each;
}

TEST(TextReport, StartMethodsOfTheReferenceLoaderAreSideBySide) {
  testing::ReportCase each = tried_loader();
  std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("nothing was refused under fork"));
  EXPECT_THAT(text, HasSubstr("Start methods\n"));
  EXPECT_THAT(text, HasSubstr("works    nothing        1  500 ms"));
  EXPECT_THAT(text, HasSubstr("started: workers;"));
  EXPECT_THAT(text, Not(HasSubstr("multiprocessing started")));
  each.recording.runs.back().done.reset();
  each.verdict.findings = {testing::hang_case().verdict.findings.front()};
  text = text_of(each);
  EXPECT_THAT(text, HasSubstr("breaks   fork-inherited-lock"));
  EXPECT_THAT(text, HasSubstr("unknown  nothing"));
}

}  // namespace
}  // namespace dlprobe
