#include "reports/model/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/format.h"
#include "reports/model/report.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two findings of severity error: shm-exhausted, and a consequence of it.
Json report_with(const FindingPolicy& policy) {
  return make_report(testing::exhausted_case(), {.policy = policy});
}

FindingPolicy::Suppression known(FindingCode code) {
  return {.code = code, .reason = "known, ticket 12", .until = "2025-11-20", .source = "f.toml:3"};
}

// All that the case has found.
FindingPolicy all_known() {
  FindingPolicy policy;
  for (const Finding& finding : testing::exhausted_case().verdict.findings)
    policy.suppressions.push_back(known(finding.code));
  return policy;
}

TEST(FindingPolicy, NothingChangesWithoutOne) {
  EXPECT_EQ(report_with({}), report_with({}));
  EXPECT_FALSE(report_with({}).contains("suppressed"));
}

TEST(FindingPolicy, ASuppressedFindingIsListedAndDoesNotCount) {
  const Json report = report_with(all_known());
  EXPECT_EQ(verdict_of(report), OverallVerdict::kPass);
  EXPECT_EQ(exit_code_of(report), 0);
  EXPECT_TRUE(report["findings"].empty());
  EXPECT_EQ(report["summary"]["counts"]["error"], 0);
  ASSERT_EQ(report["suppressed"].size(), report_with({})["findings"].size());
  EXPECT_EQ(report["suppressed"][0]["suppressed"]["reason"], "known, ticket 12");
  EXPECT_EQ(report["suppressed"][0]["suppressed"]["until"], "2025-11-20");
  const auto skipped = std::ranges::count_if(
      report["checks"], [](const Json& check) { return check["status"] == "skipped"; });
  EXPECT_EQ(static_cast<size_t>(skipped), report["suppressed"].size());
}

TEST(FindingPolicy, EveryFormatForPeopleListsItWithItsReason) {
  const Json report = report_with(all_known());
  for (const ReportFormat& format : report_formats()) {
    const std::string text = format.render(typed(report), {});
    const std::string_view name = format.name;
    const bool lists = name == "human" || name == "html" || name == "markdown" || name == "sarif" ||
                       name == "json" || name == "jsonl" || name == "junit";
    EXPECT_EQ(text.contains("known, ticket 12"), lists) << name;
    const bool counts = name == "github" || name == "nagios" || name == "npd" || name == "gitlab" ||
                        name == "prometheus";
    if (!counts) continue;
    EXPECT_THAT(text, Not(HasSubstr(std::string(report["suppressed"][0]["code"])))) << name;
  }
}

TEST(FindingPolicy, TheDayAfterItsLastOneItCountsAgainAndTheReportSaysSo) {
  FindingPolicy policy = all_known();
  for (FindingPolicy::Suppression& each : policy.suppressions)
    each.until = "2025-11-19";
  const Json report = report_with(policy);
  EXPECT_EQ(verdict_of(report), OverallVerdict::kFail);
  EXPECT_EQ(report["findings"], report_with({})["findings"]);
  EXPECT_THAT(report["limitations"].dump(), HasSubstr("it ended on 2025-11-19"));
}

TEST(FindingPolicy, OneThatIsAboutAnotherNodeOrFindingDoesNothing) {
  FindingPolicy policy = all_known();
  policy.suppressions.resize(1);
  policy.suppressions.front().node = "login*";
  EXPECT_EQ(report_with(policy), report_with({}));
  policy.suppressions.front().node = "";
  policy.suppressions.front().fingerprint = "v1:0";
  EXPECT_EQ(report_with(policy), report_with({}));
  policy.suppressions.front().fingerprint = report_with({})["findings"][0]["fingerprint"];
  EXPECT_EQ(report_with(policy)["suppressed"].size(), 1U);
}

TEST(FindingPolicy, TheLastSeverityCounts) {
  FindingPolicy policy;
  for (const Finding& finding : testing::exhausted_case().verdict.findings) {
    policy.severities.push_back({finding.code, Severity::kInfo, "far.toml:1"});
    policy.severities.push_back({finding.code, Severity::kWarning, "near.toml:1"});
  }
  const Json report = report_with(policy);
  EXPECT_EQ(verdict_of(report), OverallVerdict::kWarn);
  EXPECT_EQ(exit_code_of(report), 0);
  EXPECT_EQ(report["findings"][0]["severity"], "warning");
  EXPECT_EQ(report["findings"][0]["severity_source"], "near.toml:1");
}

TEST(FindingPolicy, AThresholdIsHeldAgainstTheEvidence) {
  const Finding finding = testing::exhausted_case().verdict.findings.front();
  const auto evidence = std::ranges::find_if(finding.evidence, [](const Evidence& each) {
    return std::holds_alternative<int64_t>(each.value);
  });
  ASSERT_NE(evidence, finding.evidence.end());
  const auto value = static_cast<double>(std::get<int64_t>(evidence->value));
  FindingPolicy policy;
  policy.thresholds.push_back({.code = finding.code,
                               .evidence = evidence->name,
                               .value = value + 1,
                               .text = "more",
                               .source = "f.toml:1"});
  Json report = report_with(policy);
  ASSERT_EQ(report["suppressed"].size(), 1U);
  EXPECT_THAT(report["suppressed"][0]["suppressed"]["reason"], HasSubstr("counts from more"));
  policy.thresholds.front().value = value;
  EXPECT_FALSE(report_with(policy).contains("suppressed"));
  policy.thresholds.front().is_upper = true;
  EXPECT_FALSE(report_with(policy).contains("suppressed"));
  policy.thresholds.front().value = value - 1;
  EXPECT_TRUE(report_with(policy).contains("suppressed"));
  policy.thresholds.front().evidence = "of_another_kind";
  report = report_with(policy);
  EXPECT_FALSE(report.contains("suppressed"));
  EXPECT_THAT(report["limitations"].dump(), HasSubstr("no number 'of_another_kind'"));
  EXPECT_THAT(report["limitations"].dump(), HasSubstr(evidence->name));
  EXPECT_EQ(exit_code_of(report), exit_code_of(report_with({})));
}

TEST(FindingPolicy, AThresholdThatFitsOrIsOfAFindingThatIsNotThereIsNoLimitation) {
  const Finding finding = testing::exhausted_case().verdict.findings.front();
  FindingPolicy policy;
  policy.thresholds.push_back({.code = FindingCode::kMixedCondaPip,
                               .evidence = "limit",
                               .text = "1",
                               .source = "f.toml:1"});
  for (const Evidence& each : finding.evidence) {
    if (std::holds_alternative<Message>(each.value)) continue;
    policy.thresholds.push_back(
        {.code = finding.code, .evidence = each.name, .text = "0", .source = "f.toml:2"});
  }
  EXPECT_EQ(report_with(policy)["limitations"], report_with({})["limitations"]);
}

TEST(FindingPolicy, ANamedCheckSaysWhatItsFindingsSayNow) {
  testing::ReportCase each = testing::exhausted_case();
  const FindingCode code = each.verdict.findings.front().code;
  each.verdict.checks = {
      {.id = "a.b", .title = "t", .status = CheckStatus::kFail, .text = "x", .codes = {code}},
      {.id = "c.d", .title = "t", .status = CheckStatus::kPass, .text = "y"}};
  FindingPolicy policy{.severities = {{code, Severity::kWarning, "f.toml:1"}}};
  Json report = make_report(each, {.policy = policy});
  EXPECT_EQ(report["checks"][0]["status"], "warn");
  policy = {.suppressions = {known(code)}};
  report = make_report(each, {.policy = policy});
  EXPECT_EQ(report["checks"][0]["status"], "skipped");
  EXPECT_THAT(report["checks"][0]["text"], HasSubstr("known, ticket 12"));
  EXPECT_EQ(report["checks"][1]["status"], "pass");
}

}  // namespace
}  // namespace dlprobe
