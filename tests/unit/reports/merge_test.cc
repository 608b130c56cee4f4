#include "reports/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/format.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

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

// A node of a job whose ranks wait: for one of its own, or for those of other nodes.
Json node_of_ranks(const std::string& node, bool waits_for_others) {
  Json report = of_node(testing::exhausted_case(), node);
  Json finding = report["findings"][0];
  finding["code"] = "DLP0702";
  finding["severity"] = "warning";
  finding["fingerprint"] = "v1:" + std::string(32, waits_for_others ? '1' : '2');
  finding["evidence"][0]["name"] = waits_for_others ? "missing_ranks" : "waiting_ranks";
  report["findings"] = Json::array({finding});
  return report;
}

TEST(Merge, ARankThatIsBehindComesBeforeTheNodesThatWaitForIt) {
  const std::vector<Json> waiting = {node_of_ranks("n1", true), node_of_ranks("n2", true)};
  EXPECT_EQ(merged(waiting)["findings"][0]["severity"], "warning") << "nobody says for which";
  const Json report = merged({waiting[0], waiting[1], node_of_ranks("n3", false)});
  EXPECT_EQ(report["findings"][0]["nodes"], "n3");
  EXPECT_EQ(report["findings"][0]["severity"], "warning");
  EXPECT_EQ(report["findings"][1]["nodes"], "n[1-2]");
  EXPECT_EQ(report["findings"][1]["severity"], "info");
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
  EXPECT_EQ(report["findings"][0]["evidence"][0]["value"], "6.1.0-18-amd64 on 2 nodes; 5.4 on n3");
  EXPECT_EQ(verdict_of(report), OverallVerdict::kWarn);
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
