#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Finding finding_of(Severity severity) {
  Finding finding = {.code = FindingCode::kShmStaleFiles, .severity = severity};
  finding.message = "m";
  finding.evidence = {{"n", int64_t{1}, "1", "s", {}, {}}};
  return finding;
}

Json report_with(const std::vector<Finding>& findings, const std::vector<Gap>& gaps,
                 Severity fail_on) {
  testing::ReportCase healthy = testing::healthy_case();
  return make_report(healthy.recording, {.findings = findings, .gaps = gaps}, {.fail_on = fail_on});
}

TEST(ReportNames, HasEachForeignPieceOnce) {
  Finding finding = finding_of(Severity::kError);
  finding.message = "worker 7 opens " + as_path("/data/a.bin") + " as " + as_name("feed");
  finding.evidence.front().source = "stat of " + as_path("/data/a.bin");
  finding.remedies = {{.title = "Look at it", .commands = {"ls " + as_path("/data")}}};
  const Json report = report_with({finding}, {}, Severity::kError);
  EXPECT_EQ(report.at("findings").at(0).at("message"), "worker 7 opens /data/a.bin as feed");
  EXPECT_EQ(report.at("names"), Json::parse(R"([{"kind": "path", "text": "/data/a.bin"},
                                                {"kind": "name", "text": "feed"},
                                                {"kind": "path", "text": "/data"}])"));
  EXPECT_EQ(report_with({}, {}, Severity::kError).at("names"), Json::array());
}

struct ExitCase {
  std::vector<Severity> severities;
  bool has_gap;
  Severity fail_on;
  OverallVerdict verdict;
  int exit_code;
};

TEST(ReportVerdict, ExitCodes) {
  using enum Severity;
  using enum OverallVerdict;
  const std::vector<ExitCase> cases = {
      {{}, false, kError, kPass, 0},
      {{}, true, kError, kIncomplete, 3},
      {{kInfo}, false, kError, kPass, 0},
      {{kInfo}, false, kInfo, kPass, 1},
      {{kWarning}, false, kError, kWarn, 0},
      {{kWarning}, false, kWarning, kWarn, 1},
      {{kWarning}, true, kError, kIncomplete, 3},
      {{kWarning}, true, kWarning, kIncomplete, 1},
      {{kError}, false, kError, kFail, 1},
      {{kError}, true, kError, kFail, 1},
      {{kWarning, kError, kError, kError, kError, kError}, false, kInfo, kFail, 1},
  };
  for (const ExitCase& each : cases) {
    std::vector<Finding> findings;
    for (const Severity severity : each.severities)
      findings.push_back(finding_of(severity));
    const std::vector<Gap> gaps(each.has_gap ? 1 : 0, Gap{.what = "w", .why = "y", .effect = "e"});
    const Json report = report_with(findings, gaps, each.fail_on);
    EXPECT_EQ(verdict_of(report), each.verdict);
    EXPECT_EQ(exit_code_of(report), each.exit_code);
  }
}

TEST(ReportVerdict, WhatWasFoundComesBeforeWhatCouldNotBeSeen) {
  const std::vector<Gap> gaps = {{.what = "whether it was killed", .why = "y", .effect = "e"}};
  const auto headline = [&](Severity severity) {
    return report_with({finding_of(severity)}, gaps, Severity::kError)["summary"]["headline"]
        .get<std::string>();
  };
  EXPECT_THAT(headline(Severity::kWarning), ::testing::StartsWith("DLP"));
  EXPECT_THAT(headline(Severity::kInfo),
              ::testing::HasSubstr("cannot tell: whether it was killed"));
}

TEST(ReportVerdict, WhereNothingWasSeenNothingIsHealthy) {
  for (const testing::ReportCase& each : {testing::incomplete_case(), testing::empty_case()}) {
    const Json report = make_report(each);
    EXPECT_EQ(verdict_of(report), OverallVerdict::kIncomplete) << each.name;
    EXPECT_EQ(exit_code_of(report), 3);
    for (const Json& check : report["checks"])
      EXPECT_EQ(check["status"], "incomplete");
  }
}

TEST(Report, TimesAreUtcWithMillisecondsAndTheMonotonicClockBeside) {
  const Json report = make_report(testing::exhausted_case());
  EXPECT_EQ(report["invocation"]["started_at"], "2025-11-20T21:47:44.120Z");
  EXPECT_EQ(report["invocation"]["started_boottime_ns"], 5'000'000'000);
  EXPECT_EQ(report["findings"][0]["first_seen_at"], "2025-11-20T21:47:46.120Z");
  EXPECT_EQ(report["findings"][0]["evidence"][0]["seen_boottime_ns"], 7'000'000'000);
}

TEST(Report, TheRemedyForWhereItRunsComesFirst) {
  testing::ReportCase each = testing::exhausted_case();
  Json report = make_report(each);
  EXPECT_EQ(report["findings"][0]["remediation"][0]["applies_to"][0], "docker");
  each.recording.header.host.container = "";
  report = make_report(each);
  EXPECT_EQ(report["findings"][0]["remediation"][0]["applies_to"][0], "bare-host");
}

TEST(Report, ARemedyInTheCodeKeepsItsPlace) {
  testing::ReportCase each = testing::exhausted_case();
  std::vector<Remedy>& remedies = each.verdict.findings[0].remedies;
  remedies.insert(remedies.begin(), {.title = "Keep copies", .applies_to = {"code"}});
  const Json report = make_report(each);
  EXPECT_EQ(report["findings"][0]["remediation"][0]["title"], "Keep copies");
  EXPECT_EQ(report["findings"][0]["remediation"][1]["applies_to"][0], "docker");
}

TEST(Report, TheFingerprintForgetsPidHostAndNumbersButNotTheCase) {
  testing::ReportCase each = testing::exhausted_case();
  const auto fingerprint = [&] { return make_report(each)["findings"][0]["fingerprint"]; };
  const Json before = fingerprint();
  EXPECT_EQ(before, "v1:830d606277791a97fce8efb00da02c3a");
  each.recording.header.host.name = "other";
  each.recording.header.recording_id = "x";
  each.verdict.findings[0].message = "other numbers";
  each.verdict.findings[0].processes[0].pid = 102;
  EXPECT_EQ(fingerprint(), before);
  each.verdict.findings[0].discriminator = "reservation";
  EXPECT_NE(fingerprint(), before);
}

TEST(Report, TheForecastStandsBesideTheMeasuredPeak) {
  const Json report = make_report(testing::healthy_case());
  const Json& run = report["runs"][0];
  const auto peak = run["shm_peak_bytes"].get<double>();
  EXPECT_DOUBLE_EQ(run["shm_peak_over_forecast"].get<double>(),
                   peak / run["forecast"]["shm_bytes"].get<double>());
  EXPECT_NEAR(run["loader"]["wait_share"].get<double>(), 0.25, 1e-9);
  EXPECT_NEAR(run["loader"]["images_per_s"].get<double>(), 160, 1e-9);
}

TEST(Report, TheLedgerAddsUp) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const Json report = make_report(each);
    for (const Json& run : report["runs"]) {
      for (const Json& ledger : run["shm_ledgers"]) {
        int64_t sum = 0;
        for (const char* part :
             {"named_bytes", "unlinked_open_bytes", "unlinked_mapped_bytes", "unexplained_bytes"}) {
          sum += ledger[part].get<int64_t>();
        }
        EXPECT_EQ(sum, ledger["used_bytes"].get<int64_t>());
      }
    }
  }
}

TEST(Report, ASumThatLacksAProcessIsAbsentNotSmaller) {
  const Json report = make_report(testing::hostile_case());
  EXPECT_FALSE(report["runs"][0].contains("rss_sum_peak_bytes"));
  EXPECT_TRUE(report["timeline"]["rows"][0][3].is_null());
}

TEST(Report, ALongTimelineIsBoundedAndKeepsItsPeak) {
  RecordingBuilder builder{RecordingHeader{}};
  builder.add(RunBegin{});
  for (int i = 0; i < 100'000; ++i) {
    Sample sample;
    sample.at = i * int64_t{1'000'000};
    const uint64_t used = i == 54'321 ? 777 : 5;
    sample.shm.emplace_back(ShmUse{.at = sample.at, .device = 1, .used_bytes = used});
    builder.add(sample);
  }
  const Json report = make_report(builder.recording(), {}, {});
  const Json& rows = report["timeline"]["rows"];
  EXPECT_LE(rows.size(), 600U);
  EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [](const Json& row) { return row[2] == 777; }));
  EXPECT_EQ(report["timeline"]["downsampled_from_rows"], 100'000);
}

TEST(Report, ALongTimelineKeepsSpikesAndDipsOfEveryColumn) {
  RecordingBuilder builder{RecordingHeader{}};
  builder.add(RunBegin{});
  constexpr uint64_t kUsual = 100;
  for (int i = 0; i < 6000; ++i) {
    ProcessSample process{.key = {.pid = 1, .start_ticks = 1}, .state = 'S'};
    process.rss_bytes = kUsual + (i == 1000 ? 50 : 0) - (i == 3001 ? 60 : 0);
    process.fd_count = kUsual + (i == 2002 ? 7 : 0) - (i == 4003 ? 8 : 0);
    Sample sample{.at = i * int64_t{10'000'000}, .processes = {process}};
    builder.add(sample);
  }
  const Json report = make_report(builder.recording(), {}, {});
  const Json& rows = report["timeline"]["rows"];
  EXPECT_LE(rows.size(), 600U);
  const auto has = [&rows](size_t column, uint64_t value) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const Json& row) { return row[column] == value; });
  };
  EXPECT_TRUE(has(3, kUsual + 50) && has(3, kUsual - 60));
  EXPECT_TRUE(has(4, kUsual + 7) && has(4, kUsual - 8));
}

TEST(Report, HeadlinesNameTheCauseWithItsNumbers) {
  const Json report = make_report(testing::exhausted_case());
  EXPECT_THAT(report["summary"]["headline"].get<std::string>(),
              HasSubstr("DLP0102 shm-exhausted: /dev/shm (64.0 MiB) had 1.2 MiB left"));
}

TEST(ReportVerdict, APassSaysFirstThatTheJobEndedDuringTheWatch) {
  testing::ReportCase each = testing::hang_case();
  const Verdict hang = std::exchange(each.verdict, {.all_well = "nothing was stuck"});
  dlprobe::Run& run = each.recording.runs.front();
  run.begin.subject = SubjectKind::kPid;
  const ProcessKey root = run.processes.front().key;
  run.begin.root = root;
  run.end = RunEnd{.at = run.begin.at + 5 * kSecond, .reason = RunEndReason::kTimeUp};
  const auto headline = [&] { return make_report(each)["summary"]["headline"].get<std::string>(); };
  EXPECT_EQ(headline(), "nothing was stuck");
  run.end->reason = RunEndReason::kSubjectEnded;
  EXPECT_EQ(headline(), "the job ended 5.0 s into the watch; nothing was stuck");
  run.exits.push_back({.key = root, .at = run.begin.at + 3 * kSecond, .wait_status = 9});
  EXPECT_EQ(headline(),
            "the job ended 3.0 s into the watch (killed by signal 9 (SIGKILL)); nothing was stuck");
  run.begin.subject = SubjectKind::kCommand;
  EXPECT_THAT(headline(), StartsWith("nothing was stuck")) << "a command is waited for";
  run.begin.subject = SubjectKind::kPid;
  each.verdict = hang;
  EXPECT_THAT(headline(), StartsWith("DLP")) << "a cause comes first";
}

std::string pass_headline_of(const char* probe) {
  testing::ReportCase each = testing::hang_case();
  each.recording.header.invocation.probe = probe;
  each.verdict = {};
  return make_report(each)["summary"]["headline"];
}

TEST(Report, APassSpeaksOfWhatWasLookedAt) {
  EXPECT_EQ(pass_headline_of("deadlock"),
            "nothing is stuck: watched 5 processes for 2.1 s, 2 looks at their stacks");
  EXPECT_EQ(pass_headline_of("attach"),
            "nothing is stuck, and nothing is wrong with shared memory: watched 5 processes for "
            "2.1 s, 2 looks at their stacks; /dev/shm held 0 B at its peak; a leak shows only "
            "after 15 s (--for 15s)");
  EXPECT_THAT(pass_headline_of("shm"), HasSubstr("saw nothing wrong in 1 run (1 sample)"));
}

TEST(Report, TheWaitGraphIsTheVerdictsOwn) {
  const Json graph = make_report(testing::hang_case())["wait_graph"];
  EXPECT_EQ(graph["nodes"].size(), 7U);
  EXPECT_EQ(graph["edges"][0]["relation"], "waits for a batch of");
  EXPECT_EQ(graph["chain"],
            Json({"thread 100/100", "thread 101/101", "mutex 101:0x7f1000", "thread 106"}));
  const Json& worker = graph["nodes"][1];
  EXPECT_EQ(worker["activity"], "stuck");
  EXPECT_EQ(worker["since_at"], "2025-11-20T21:47:44.220Z");
  EXPECT_EQ(worker["in_code"]["line"], 14);
}

TEST(Report, AProcessHasWhatItsMainThreadDoesAndTheLongestPause) {
  const Json report = make_report(testing::hang_case());
  const Json& trainer = report["processes"][0];
  EXPECT_EQ(trainer["activity"], "idle");
  EXPECT_EQ(trainer["waits_for"], "pipe 81234, which worker 101 writes");
  EXPECT_EQ(trainer["in_code"]["function"], "main");
  EXPECT_NEAR(trainer["pause_s"].get<double>(), 400e-6, 1e-12) << "of the first of two looks";
  EXPECT_EQ(trainer["threads"].size(), 3U);
  EXPECT_EQ(trainer["python"], "3.11.2");
  EXPECT_EQ(trainer["sem_locks"][0]["inode"], 7);
  EXPECT_EQ(trainer["sem_locks"][0]["last_tid"], 100);
}

TEST(Report, GraphsOfOtherRunsAreInTheirRuns) {
  testing::ReportCase each = testing::hang_case();
  each.recording.runs.push_back(each.recording.runs.front());
  WaitGraph healthy = each.verdict.wait_graphs.front();
  healthy.run = 0;
  healthy.chain.clear();
  each.verdict.wait_graphs.front().run = 1;
  each.verdict.wait_graphs.insert(each.verdict.wait_graphs.begin(), healthy);
  const Json report = make_report(each);
  EXPECT_EQ(report["wait_graph"]["run"], 1);
  EXPECT_EQ(report["runs"][0]["wait_graph"]["run"], 0);
  EXPECT_FALSE(report["runs"][1].contains("wait_graph"));
}

TEST(Report, ChecksOfSeveralProbesAreNamedAfterTheirOwn) {
  testing::ReportCase each = testing::hang_case();
  each.recording.header.invocation.probe = "attach";
  each.recording.runs.front().shm_use.push_back({.device = 1, .size_bytes = 64 << 20});
  const Json report = make_report(each);
  EXPECT_EQ(report["checks"][0]["id"], "shm.shm-too-small");
  const auto lock = std::ranges::find_if(
      report["checks"], [](const Json& check) { return check["code"] == "DLP0301"; });
  EXPECT_EQ((*lock)["id"], "deadlock.fork-inherited-lock");
}

TEST(Report, ALimitIsSaidAndLeavesTheVerdict) {
  testing::ReportCase each = testing::healthy_case();
  each.verdict.limits = {{.what = "w", .why = "y", .effect = "e"}};
  const Json report = make_report(each);
  EXPECT_EQ(verdict_of(report), OverallVerdict::kPass);
  EXPECT_EQ(report["limitations"][0]["what"], "w");
  EXPECT_EQ(report["limitations"][0]["required"], false);
}

TEST(Charts, AnEndBySignalStandsOutAndTheWordDoesNot) {
  report::Report report;
  report.timeline.rows = {{.t = 0}, {.t = 1}};
  report.timeline.events = {{.t_s = 0.5, .kind = "note", .text = "a signal"},
                            {.t_s = 0.6, .kind = "exit", .pid = 7}};
  report.processes.resize(1);
  report.processes[0].pid = 7;
  report.processes[0].exit = report::ProcessExit{.signal = 9};
  const document::Charts charts = document::charts_of(report);
  ASSERT_EQ(charts.events.size(), 2U);
  EXPECT_FALSE(charts.events[0].is_bad);
  EXPECT_TRUE(charts.events[1].is_bad);
}

}  // namespace
}  // namespace dlprobe
