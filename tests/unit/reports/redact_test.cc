#include "reports/redact/redact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kHome = "/home";
const std::set<std::string> kAll = {"hosts", "users", "paths", "addresses"};

Json report_with(const std::string& text) {
  Json report = make_report(testing::exhausted_case());
  report["host"]["name"] = "gpu-node-7";
  report["summary"]["headline"] = text;
  report["processes"][0]["cmdline"] = {"python3", kHome + "/alice/secret-project/run_me.py",
                                       "--data", "/srv/patients/2026"};
  return report;
}

Json redacted(Redactor& redactor, const Json& report) {
  return json_of(redactor.redact(typed(report)));
}

/// With a headline that has these of others.
Json report_with_pieces(const std::string& text,
                        const std::vector<std::pair<std::string, std::string>>& pieces) {
  Json report = report_with(text);
  report["names"] = Json::array();
  for (const auto& [kind, piece] : pieces)
    report["names"].push_back({{"kind", kind}, {"text", piece}});
  return report;
}

std::string headline(const Json& report) {
  return report["summary"]["headline"].get<std::string>();
}

TEST(Redact, AWordOfDlprobesOwnStaysThoughSomebodyElseUsedItAlone) {
  Redactor redactor(kAll);
  const Json report = redacted(
      redactor,
      report_with_pieces("2 tensors of zebrafish", {{"text", "tensors"}, {"text", "zebrafish"}}));
  EXPECT_THAT(headline(report), HasSubstr("2 tensors of "));
  EXPECT_THAT(headline(report), Not(HasSubstr("zebrafish")));
}

TEST(Redact, HostsUsersPathsAndAddresses) {
  Redactor redactor(kAll);
  redactor.keeps_names();
  const Json report = redacted(
      redactor,
      report_with_pieces(
          "gpu-node-7 (10.1.2.3, fe80::1:2:3): run_me.py:12 reads /srv/patients/2026/a.png; see "
          "/usr/lib/python3/x.py and gpu-node-77, 6.1.0 at 18:06:50",
          {{"text", "10.1.2.3"},
           {"text", "fe80::1:2:3"},
           {"path", "run_me.py"},
           {"path", "/srv/patients/2026/a.png"},
           {"path", "/usr/lib/python3/x.py"}}));
  const std::string text = text_of_json(report);
  for (const char* name : {"alice", "secret-project", "run_me", "patients", "10.1.2.3", "fe80"})
    EXPECT_THAT(text, Not(HasSubstr(name))) << name;
  EXPECT_THAT(headline(report), HasSubstr("host-1 (address-1, address-2): path-"));
  EXPECT_THAT(headline(report), HasSubstr("/usr/lib/python3/x.py"));
  EXPECT_THAT(headline(report), HasSubstr("gpu-node-77, 6.1.0 at 18:06:50"));
  EXPECT_THAT(text, HasSubstr(kHome + "/user-1/path-"));
  EXPECT_EQ(report["redaction"]["policy"], "pseudonyms");
  EXPECT_TRUE(parse_report(text));
}

TEST(Redact, PseudonymsOfTwoRedactionsDifferUnlessTheyAreKept) {
  Json other = report_with("gpu-node-7");
  other["report_id"] = "0123456789abcdef0123456789abcdef";
  Redactor first(kAll);
  Redactor second(kAll);
  const std::string name = redacted(first, report_with("gpu-node-7"))["host"]["name"];
  EXPECT_NE(name, redacted(second, other)["host"]["name"].get<std::string>());
  EXPECT_EQ(name, redacted(first, other)["host"]["name"].get<std::string>());
}

TEST(Redact, WhatIsNotAskedForStays) {
  Redactor redactor({"hosts"});
  const std::string text = text_of_json(redacted(redactor, report_with("gpu-node-7")));
  EXPECT_THAT(text, HasSubstr(kHome + "/alice/secret-project/run_me.py"));
  EXPECT_THAT(text, Not(HasSubstr("gpu-node-7")));
}

TEST(Redact, TheSameNameHasTheSamePseudonymInEveryReport) {
  Redactor first(kAll);
  const std::vector<std::pair<std::string, std::string>> paths = {
      {"path", "/data/a"}, {"path", "/data/b"}, {"path", "/data/c"}};
  const Json before = redacted(first, report_with_pieces("/data/a /data/b", paths));
  Redactor second(kAll);
  ASSERT_TRUE(second.use_map(first.to_map()));
  const Json after = redacted(second, report_with_pieces("/data/b /data/a /data/c", paths));
  const std::string text = headline(before);
  const size_t blank = text.find(' ');
  EXPECT_THAT(headline(after),
              ::testing::StartsWith(text.substr(blank + 1) + " " + text.substr(0, blank)));
}

TEST(Redact, WhatPythonPutsIntoAQualifiedNameStays) {
  Redactor redactor(kAll);
  const std::string name = "zebrafish.<locals>.<genexpr>.__getitem__";
  const Json report = redacted(redactor, report_with_pieces("waits in " + name, {{"name", name}}));
  EXPECT_THAT(headline(report), HasSubstr(".<locals>.<genexpr>.__getitem__"));
  EXPECT_THAT(headline(report), Not(HasSubstr("zebrafish")));
}

TEST(Redact, LibrariesKeepTheirNames) {
  Redactor redactor(kAll);
  const std::string file = kHome + "/alice/env/lib/python3.11/site-packages/torch/x.py";
  const Json report = redacted(redactor, report_with_pieces(file, {{"path", file}}));
  EXPECT_THAT(headline(report), HasSubstr("/lib/python3.11/site-packages/torch/x.py"));
  EXPECT_THAT(headline(report), Not(HasSubstr("alice")));
}

TEST(Redact, AMapThatIsNoneIsRefused) {
  Redactor redactor(kAll);
  EXPECT_FALSE(redactor.use_map("[1"));
  EXPECT_FALSE(redactor.use_map(R"({"colours": {"a": "b"}})"));
  EXPECT_FALSE(redactor.use_map(R"({"hosts": {"a": 3}})"));
}

TEST(Redact, FoldedNodesOfAMergedReport) {
  report::Cluster merged;
  merged.summary.headline = "n[1-3] are wrong";
  merged.nodes = {{.node = "n1"}, {.node = "n2"}, {.node = "n3"}};
  merged.findings.emplace_back().nodes = "n[1-3]";
  Redactor redactor(kAll);
  redactor.keeps_names();
  const AnyReport report = redactor.redact(merged);
  EXPECT_EQ(report.report.summary.headline, "host-[1-3] are wrong");
  EXPECT_EQ(report.cluster->nodes[2].node, "host-3");
}

}  // namespace
}  // namespace dlprobe
