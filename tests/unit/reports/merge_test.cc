#include "reports/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/format.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Json of_node(const testing::ReportCase& each, const std::string& node,
             const std::string& started = "2026-01-01T00:00:00.000Z") {
  Json report = make_report(each);
  report["host"]["name"] = node;
  report["report_id"] = node + started;
  report["invocation"]["started_at"] = started;
  return report;
}

Json merged(const std::vector<Json>& reports, std::vector<std::string> expected = {},
            const std::string& damaged = "") {
  ReportMerger merger({.expected_hosts = std::move(expected), .version = "0.1.0"});
  for (const Json& report : reports)
    merger.add("file-of-" + report["host"]["name"].get<std::string>(), typed(report));
  if (!damaged.empty()) merger.add_damaged(damaged, "it is empty");
  return json_of(AnyReport(std::move(merger).finish()));
}

TEST(Merge, TheSameFindingOfManyNodesIsOne) {
  const Json report =
      merged({of_node(testing::exhausted_case(), "n1"), of_node(testing::exhausted_case(), "n2"),
              of_node(testing::exhausted_case(), "n3")});
  EXPECT_EQ(report["findings"][0]["nodes"], "n[1-3]");
  EXPECT_EQ(report["findings"][0]["occurrences"], 3);
  EXPECT_EQ(verdict_of(report), OverallVerdict::kFail);
  EXPECT_EQ(exit_code_of(report), 1);
  EXPECT_THAT(report["summary"]["headline"].get<std::string>(), HasSubstr("3 nodes: DLP"));
}

// The rules are a probe's: whoever sleeps is behind.
std::vector<RankFinding> who_sleeps(std::span<const RankState> job) {
  std::vector<RankFinding> found;
  for (size_t i = 0; i < job.size(); ++i) {
    if (job[i].doing != RankDoing::kSleeps) continue;
    Finding finding{.code = FindingCode::kRankBehind, .severity = Severity::kWarning};
    finding.message = say("rank {} sleeps on {}", job[i].id->rank, as_host(job[i].node));
    finding.processes = {job[i].process};
    finding.evidence = {{.name = "waiting_ranks", .value = int64_t{1}}};
    found.push_back({.finding = finding, .ranks = {i}});
  }
  return found;
}

Json rank_of(int32_t rank, const std::string& job, const char* doing = "waits for ranks") {
  return {{"job", job},
          {"rank", rank},
          {"world_size", 4},
          {"pid", 100 + rank % 2},
          {"start_ticks", 1},
          {"doing", doing},
          {"lasts_s", 40},
          {"meeting", "collective"},
          {"operation", "gather"},
          {"motion", "still"},
          {"stands", true},
          {"overdue", true},
          {"workers", Json::array()}};
}

// A node that has two ranks of a job of four, and says that they wait for those of other nodes.
Json node_of_ranks(const std::string& node, const std::string& job, int32_t first,
                   bool sleeps = false) {
  Json report = of_node(testing::exhausted_case(), node);
  Json finding = report["findings"][0];
  finding["code"] = "DLP0702";
  finding["severity"] = "warning";
  finding["fingerprint"] = "v1:" + std::string(32, '1');
  finding["evidence"][0]["name"] = "missing_ranks";
  finding["subject"]["processes"][0]["pid"] = 100;
  report["findings"] = Json::array({finding});
  report["ranks"] = Json::array(
      {rank_of(first, job), rank_of(first + 1, job, sleeps ? "sleeps" : "waits for ranks")});
  return report;
}

Json joined(const std::vector<Json>& reports) {
  ReportMerger merger({.version = "0.1.0", .judge_ranks = who_sleeps});
  for (const Json& report : reports)
    merger.add("file", typed(report));
  return json_of(AnyReport(std::move(merger).finish()));
}

TEST(MergeRanks, OneVerdictForTheJobReplacesWhatItsNodesSay) {
  const Json report =
      joined({node_of_ranks("n1", "10.0.0.1:5", 0), node_of_ranks("n2", "10.0.0.1:5", 2, true)});
  ASSERT_EQ(report["findings"].size(), 1U);
  EXPECT_EQ(report["findings"][0]["message"], "rank 3 sleeps on n2");
  EXPECT_EQ(report["findings"][0]["nodes"], "n2");
  EXPECT_EQ(report["summary"]["headline"], "DLP0702 rank-behind: rank 3 sleeps on n2");
  EXPECT_EQ(report["ranks"].size(), 4U);
  EXPECT_EQ(report["ranks"][2]["node"], "n2");
  EXPECT_TRUE(report["limitations"].empty());
}

TEST(MergeRanks, KeepWhatTheirDumpsSay) {
  Json node = node_of_ranks("n1", "10.0.0.1:5", 0);
  const Json record = Json::parse(R"({"age_s": 20.0, "groups": [
      {"name": "0", "enqueued": 12, "completed": 11, "operation": "all_reduce",
       "tensors": "Float [8]", "at": {"kind": "python", "function": "main", "file": "train.py", "line": 41},
       "gives_up_in_s": 1400.0},
      {"name": "5", "enqueued": 1, "completed": 1}]})");
  node["ranks"][0]["flight_record"] = record;
  const Json report = joined({node, node_of_ranks("n2", "10.0.0.1:5", 2)});
  EXPECT_EQ(report["ranks"][0]["flight_record"], record);
  EXPECT_FALSE(report["ranks"][1].contains("flight_record"));
}

TEST(MergeRanks, WhereAllWaitNobodyIsWaitedForElsewhere) {
  const Json report =
      joined({node_of_ranks("n1", "10.0.0.1:5", 0), node_of_ranks("n2", "10.0.0.1:5", 2)});
  EXPECT_TRUE(report["findings"].empty()) << "each node's ranks are in the other's report";
}

TEST(MergeRanks, ACauseOfTheRanksOwnKeepsItsSeverityAndComesFirst) {
  Json late = node_of_ranks("n2", "10.0.0.1:5", 2, true);
  Json cause = late["findings"][0];
  cause["code"] = "DLP0301";
  cause["severity"] = "error";
  cause["fingerprint"] = "v1:" + std::string(32, '3');
  late["findings"].push_back(cause);
  late["ranks"][1]["explained_by"] = "DLP0301";
  ReportMerger merger({.judge_ranks = [](std::span<const RankState> job) {
    std::vector<RankFinding> found = who_sleeps(job);
    EXPECT_EQ(job[3].cause.value_or(RankCause()).severity, Severity::kError);
    found.front().finding.severity = Severity::kError;
    found.front().finding.consequence_of = FindingCode::kForkInheritedLock;
    return found;
  }});
  merger.add("a", typed(node_of_ranks("n1", "10.0.0.1:5", 0)));
  merger.add("b", typed(late));
  const Json report = json_of(AnyReport(std::move(merger).finish()));
  ASSERT_EQ(report["findings"].size(), 2U);
  EXPECT_EQ(report["findings"][0]["code"], "DLP0301");
  EXPECT_EQ(report["findings"][1]["consequence_of"], "DLP0301");
}

TEST(MergeRanks, JobsStayApart) {
  const Json report =
      joined({node_of_ranks("n1", "10.0.0.1:5", 0), node_of_ranks("n2", "10.0.0.2:5", 2, true)});
  EXPECT_EQ(report["findings"][0]["nodes"], "n[1-2]") << "each is left to its node";
  EXPECT_EQ(report["limitations"].size(), 2U) << "of each job there are ranks that no report shows";
  // Each machine has a 127.0.0.1 of its own.
  const Json local =
      joined({node_of_ranks("n1", "127.0.0.1:5", 0), node_of_ranks("n2", "127.0.0.1:5", 2, true)});
  EXPECT_EQ(local["findings"][0]["nodes"], "n[1-2]");
  EXPECT_TRUE(local["limitations"].empty());
}

TEST(MergeRanks, LooksAtTwoJobsOfOneNodeBothCount) {
  Json stands = node_of_ranks("n1", "127.0.0.1:5", 0, true);
  Json moves = node_of_ranks("n1", "127.0.0.1:6", 0);
  moves["findings"] = Json::array();
  moves["invocation"]["started_at"] = "2026-01-01T01:00:00.000Z";
  for (Json* each : {&stands, &moves})
    (*each)["invocation"]["probe"] = "attach";
  Json report = joined({stands, moves});
  ASSERT_EQ(report["findings"].size(), 1U);
  EXPECT_EQ(report["ranks"].size(), 4U);
  EXPECT_TRUE(report["cluster"]["duplicates"].empty());
  moves["ranks"] = stands["ranks"];
  report = joined({stands, moves});
  EXPECT_TRUE(report["findings"].empty()) << "the later look at one job counts";
  EXPECT_EQ(report["ranks"].size(), 2U);
}

TEST(MergeRanks, WhatOthersLeftOnAMachineIsBehindWhatAJobDoes) {
  Json report = node_of_ranks("n1", "127.0.0.1:5", 0, true);
  Json left = report["findings"][0];
  left["code"] = "DLP0103";
  left["fingerprint"] = "v1:" + std::string(32, '0');
  left["subject"]["processes"] = Json::array();
  report["findings"].insert(report["findings"].begin(), left);
  const Json together = joined({report});
  ASSERT_EQ(together["findings"].size(), 2U);
  EXPECT_EQ(together["findings"][0]["code"], "DLP0702");
}

TEST(MergeRanks, RanksThatNoReportShowsAreNamedWithWhatIsNotKnown) {
  const Json report = joined({node_of_ranks("n1", "10.0.0.1:5", 0)});
  ASSERT_EQ(report["limitations"].size(), 1U);
  EXPECT_EQ(report["limitations"][0]["what"], "ranks 2, 3 of job 10.0.0.1:5");
  EXPECT_EQ(report["limitations"][0]["effect"],
            "dlprobe cannot tell whether one of them is behind or has ended");
  EXPECT_EQ(exit_code_of(report), 3);
}

// A gate looks at one rank of each node, and nobody waits for another.
TEST(MergeRanks, WhereNobodyWaitsNoRankIsMissed) {
  Json gate = node_of_ranks("n1", "10.0.0.1:5", 0);
  gate["ranks"] = Json::array({rank_of(0, "10.0.0.1:5", "ended")});
  EXPECT_TRUE(joined({gate})["limitations"].empty());
}

// Each of them is judged by its node, and why is said.
TEST(MergeRanks, WhatDoesNotFitTogetherIsNotJoined) {
  const Json first = node_of_ranks("n1", "10.0.0.1:5", 0);
  const auto why_not = [&](const Json& second) {
    const Json report = joined({first, second});
    EXPECT_EQ(report["findings"][0]["nodes"], "n[1-2]");
    EXPECT_EQ(report["limitations"].size(), 1U);
    return report["limitations"][0]["why"].get<std::string>();
  };
  EXPECT_EQ(why_not(node_of_ranks("n2", "10.0.0.1:5", 1, true)),
            "n1 (pid 101) and n2 (pid 101) both say that they are rank 1");
  Json other = node_of_ranks("n2", "10.0.0.1:5", 2, true);
  other["ranks"][0]["world_size"] = 8;
  EXPECT_EQ(why_not(other), "n1 (pid 100) says that it has 4 ranks, n2 (pid 100) says 8");
  other["ranks"][0]["world_size"] = 4;
  other["ranks"][0]["rank"] = 2147483647;
  EXPECT_EQ(why_not(other), "n2 (pid 100) says that it is rank 2147483647 of 4");
}

TEST(MergeRanks, AProcessThatTwoReportsOfItsNodeShowIsThereOnce) {
  Json again = node_of_ranks("n1", "10.0.0.1:5", 0);
  again["context"]["rank"] = "1";
  const Json report = joined(
      {node_of_ranks("n1", "10.0.0.1:5", 0), again, node_of_ranks("n2", "10.0.0.1:5", 2, true)});
  EXPECT_EQ(report["ranks"].size(), 4U);
  EXPECT_EQ(report["findings"].size(), 1U);
}

TEST(Merge, NamesOfSentencesAreThoseOfAllNodes) {
  Json one = of_node(testing::healthy_case(), "n1");
  Json other = of_node(testing::healthy_case(), "n2");
  one["names"] = Json::parse(R"([{"kind": "path", "text": "/data"}])");
  other["names"] = Json::parse(R"([{"kind": "name", "text": "feed"},
                                   {"kind": "path", "text": "/data"}])");
  EXPECT_EQ(merged({one, other}).at("names"), Json::parse(R"([{"kind": "path", "text": "/data"},
                                                              {"kind": "name", "text": "feed"}])"));
  // A report of an older version does not say.
  other.erase("names");
  EXPECT_FALSE(merged({one, other}).contains("names"));
}

TEST(Merge, WhatANodeHasSuppressedStaysSo) {
  testing::ReportCase each = testing::exhausted_case();
  FindingPolicy policy;
  for (const Finding& finding : each.verdict.findings)
    policy.suppressions.push_back({.code = finding.code, .reason = "known", .source = "f:1"});
  Json quiet = make_report(each, {.policy = policy});
  quiet["host"]["name"] = "n1";
  const Json report = merged({quiet, of_node(testing::healthy_case(), "n2")});
  EXPECT_EQ(exit_code_of(report), 0);
  EXPECT_EQ(report["suppressed"].size(), each.verdict.findings.size());
  EXPECT_EQ(report["suppressed"][0]["nodes"], "n1");
  // On another node the same one counts.
  const Json both = merged({quiet, of_node(testing::exhausted_case(), "n2")});
  EXPECT_EQ(both["findings"][0]["nodes"], "n2");
  EXPECT_EQ(both["suppressed"][0]["nodes"], "n1");
}

TEST(Merge, ThePolicyHoldsForWhatIsSeenOfAllNodesTogether) {
  Json other = of_node(testing::healthy_case(), "n2");
  other["host"]["kernel"] = "another";
  const Json one = of_node(testing::healthy_case(), "n1");
  const auto with = [&](FindingPolicy policy) {
    ReportMerger merger({.policy = std::move(policy)});
    merger.add("a", typed(one));
    merger.add("b", typed(other));
    return json_of(AnyReport(std::move(merger).finish()));
  };
  using enum FindingCode;
  EXPECT_EQ(verdict_of(with({})), OverallVerdict::kWarn);
  const Json strict = with({.severities = {{kNodesDiffer, Severity::kError, "f:1"}}});
  EXPECT_EQ(exit_code_of(strict), 1);
  const Json quiet = with({.suppressions = {{.code = kNodesDiffer, .reason = "on purpose"}}});
  EXPECT_EQ(verdict_of(quiet), OverallVerdict::kPass);
  EXPECT_EQ(quiet["suppressed"][0]["suppressed"]["reason"], "on purpose");
}

TEST(Merge, AGateThatPassesDoesNotAnswerALookThatFailed) {
  const Json hang = of_node(testing::hang_case(), "n1");
  Json gate = of_node(testing::healthy_case(), "n1", "2026-01-02T00:00:00.000Z");
  gate["invocation"]["probe"] = "gate";
  const Json report = merged({hang, gate});
  EXPECT_EQ(verdict_of(report), OverallVerdict::kFail);
  EXPECT_EQ(report["host"]["name"], "1 node");
  EXPECT_TRUE(report["duplicates"].empty());
}

TEST(Merge, AMergedReportIsNoNode) {
  const Json report = merged({merged({of_node(testing::exhausted_case(), "n1")})});
  EXPECT_EQ(report["damaged"].size(), 1U);
  EXPECT_EQ(exit_code_of(report), 3);
}

TEST(Merge, HealthyNodesPass) {
  const Json report =
      merged({of_node(testing::healthy_case(), "n1"), of_node(testing::healthy_case(), "n2")},
             {"n1", "n2.cluster.example"});
  EXPECT_EQ(verdict_of(report), OverallVerdict::kPass);
  EXPECT_EQ(exit_code_of(report), 0);
  EXPECT_TRUE(report["missing"].empty());
}

TEST(Merge, ANodeThatSaidNothingIsNoPass) {
  const Json missing = merged({of_node(testing::healthy_case(), "n1")}, {"n1", "n2", "n3"});
  EXPECT_EQ(verdict_of(missing), OverallVerdict::kIncomplete);
  EXPECT_EQ(exit_code_of(missing), 3);
  EXPECT_THAT(missing["summary"]["headline"].get<std::string>(), HasSubstr("n[2-3]"));
  EXPECT_EQ(exit_code_of(merged({of_node(testing::healthy_case(), "n1")}, {}, "n2.json")), 3);
  EXPECT_EQ(exit_code_of(merged({})), 3);
  // What fails weighs more.
  EXPECT_EQ(exit_code_of(merged({of_node(testing::exhausted_case(), "n1")}, {"n2"})), 1);
}

TEST(Merge, AnIncompleteNodeMakesItIncomplete) {
  const Json report =
      merged({of_node(testing::healthy_case(), "n1"), of_node(testing::incomplete_case(), "n2")});
  EXPECT_EQ(exit_code_of(report), 3);
}

TEST(Merge, TheLaterReportOfANodeCountsAndTheOtherIsNamed) {
  const Json early = of_node(testing::exhausted_case(), "n1", "2026-01-01T00:00:00.000Z");
  const Json late = of_node(testing::healthy_case(), "n1", "2026-01-02T00:00:00.000Z");
  for (const auto& reports : {std::vector{early, late}, std::vector{late, early}}) {
    const Json report = merged(reports);
    EXPECT_EQ(verdict_of(report), OverallVerdict::kPass);
    ASSERT_EQ(report["duplicates"].size(), 1U);
    EXPECT_EQ(report["duplicates"][0]["node"], "n1");
  }
}

TEST(Merge, RanksOfOneNodeAreSeveralReports) {
  Json first = of_node(testing::healthy_case(), "n1");
  Json second = first;
  first["context"]["rank"] = "0";
  second["context"]["rank"] = "1";
  const Json report = merged({first, second});
  EXPECT_TRUE(report["duplicates"].empty());
  EXPECT_EQ(report["nodes"].size(), 2U);
}

TEST(Merge, NodesThatDifferAreAWarningWithTheOddOnesNamed) {
  Json odd = of_node(testing::healthy_case(), "n3");
  odd["host"]["kernel"] = "5.4";
  const Json report =
      merged({of_node(testing::healthy_case(), "n1"), of_node(testing::healthy_case(), "n2"), odd});
  ASSERT_EQ(report["findings"].size(), 1U);
  EXPECT_EQ(report["findings"][0]["code"], "DLP0701");
  EXPECT_EQ(report["findings"][0]["evidence"][0]["value"],
            "n3 has 5.4, the other 2 have 6.1.0-18-amd64");
  EXPECT_EQ(verdict_of(report), OverallVerdict::kWarn);
}

TEST(Merge, EachValueOfADifferenceHasTheNumberOfItsOwnNodes) {
  std::vector<Json> nodes;
  for (int i = 0; i < 12; ++i) {
    nodes.push_back(of_node(testing::healthy_case(), "n" + std::to_string(10 + i)));
    if (i >= 6) nodes.back()["host"]["kernel"] = i == 11 ? "5.10" : "5.4";
  }
  EXPECT_EQ(merged(nodes)["findings"][0]["evidence"][0]["value"],
            "6.1.0-18-amd64 on 6 nodes; 5.4 on 5 nodes; 5.10 on n21");
}

Json with_limit(Json report, const std::string& value) {
  report["host"]["limits"] = Json::array({{{"name", "open files of a process"}, {"value", value}}});
  return report;
}

Json as_descriptors_exhausted(Json report) {
  report["findings"][0]["code"] = "DLP0202";
  report["findings"][0]["message"] = "worker 101 has 1024 of 1024 descriptors";
  return report;
}

TEST(Merge, ALimitThatOneNodeHasAloneIsNamedInItsOwnFindingToo) {
  const auto report = merged(
      {with_limit(of_node(testing::healthy_case(), "n1"), "65536"),
       with_limit(of_node(testing::healthy_case(), "n2"), "65536"),
       with_limit(as_descriptors_exhausted(of_node(testing::exhausted_case(), "n3")), "1024")});
  const Json& own = report["findings"][0];
  EXPECT_EQ(own["code"], "DLP0202");
  EXPECT_THAT(own["message"].get<std::string>(),
              HasSubstr("(open files of a process: n3 has 1024, the other 2 have 65536)"));
  EXPECT_EQ(own["evidence"].back()["value"], "n3 has 1024, the other 2 have 65536");
  const Json& differ = report["findings"].back();
  EXPECT_EQ(differ["code"], "DLP0701");
  EXPECT_THAT(differ["message"].get<std::string>(),
              HasSubstr("open files of a process: n3 has 1024, the other 2 have 65536"));
}

TEST(Merge, ALimitThatAllNodesHaveExplainsNothing) {
  const auto report = merged(
      {with_limit(of_node(testing::healthy_case(), "n1"), "1024"),
       with_limit(as_descriptors_exhausted(of_node(testing::exhausted_case(), "n2")), "1024")});
  EXPECT_THAT(report["findings"].dump(), Not(HasSubstr("open files of a process")));
  EXPECT_EQ(report["findings"][0]["message"], "worker 101 has 1024 of 1024 descriptors");
}

TEST(Merge, AnOrdinaryLimitIsNotTheCauseOfAFinding) {
  const auto report = merged(
      {with_limit(of_node(testing::healthy_case(), "n1"), "1024"),
       with_limit(as_descriptors_exhausted(of_node(testing::exhausted_case(), "n2")), "65536"),
       with_limit(of_node(testing::healthy_case(), "n3"), "65536")});
  EXPECT_EQ(report["findings"][0]["message"], "worker 101 has 1024 of 1024 descriptors");
}

TEST(Merge, EveryFormatCanWriteIt) {
  const Json report =
      merged({of_node(testing::hostile_case(), "<b>"), of_node(testing::exhausted_case(), "n2")},
             {"n9"}, "bad.json");
  for (const ReportFormat& format : report_formats())
    EXPECT_FALSE(format.render(typed(report), {}).empty()) << format.name;
}

}  // namespace
}  // namespace dlprobe
