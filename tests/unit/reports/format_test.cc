#include "reports/format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/document/markup.h"
#include "reports/exports/code_place.h"
#include "tests/support/escape_lines.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string with_format(std::string_view name, const Json& report) {
  const auto format = std::ranges::find(report_formats(), name, &ReportFormat::name);
  return format->render(typed(report), {});
}

TEST(Formats, EveryOneWritesEveryReportWithoutControlCharacters) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const AnyReport report = report_of(each);
    for (const ReportFormat& format : report_formats()) {
      if (format.name.starts_with("json")) continue;  // JSON has escapes of its own
      const std::string text = format.render(report, {});
      EXPECT_FALSE(text.empty()) << format.name << " " << each.name;
      EXPECT_EQ(escape_lines(text), text) << format.name << " " << each.name;
      EXPECT_EQ(text.back(), '\n') << format.name << " " << each.name;
    }
  }
}

TEST(Formats, ASavedReportGivesTheSameBytes) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const AnyReport report = report_of(each);
    const AnyReport saved = parse_report(render_json(report)).value();
    for (const ReportFormat& format : report_formats())
      EXPECT_EQ(format.render(report, {}), format.render(saved, {})) << format.name << each.name;
  }
}

TEST(Html, HostileNamesAreInert) {
  for (const testing::ReportCase& each : {testing::hostile_case(), testing::hostile_hang_case()}) {
    Json report = make_report(each);
    report["summary"]["headline"] = "</title><script>alert(1)</script>\"'&";
    report["processes"][0]["comm"] = "<img src=x onerror=alert(2)>";
    report["processes"][0]["cmdline"] = {"\" onmouseover=\"alert(3)"};
    const std::string html = with_format("html", report);
    EXPECT_THAT(html, Not(HasSubstr("<script>alert")));
    EXPECT_THAT(html, Not(HasSubstr("<img")));
    EXPECT_THAT(html, Not(HasSubstr("\" onmouseover=")));
    EXPECT_THAT(html, HasSubstr("&lt;script&gt;alert(1)"));
  }
}

TEST(Html, NothingIsFetchedAndOnlyItsOwnScriptMayRun) {
  const std::string html = with_format("html", make_report(testing::hang_case()));
  EXPECT_THAT(html, HasSubstr("default-src 'none'; style-src 'sha256-"));
  for (const char* word :
       {"unsafe-inline", "http:", "https:", " src=", "@import", "url(h", " style="})
    EXPECT_THAT(html, Not(HasSubstr(word)));
}

TEST(Html, TheChainIsDrawnAndSaidInWords) {
  const std::string html = with_format("html", make_report(testing::hang_case()));
  EXPECT_THAT(html, HasSubstr("class=\"node chain\""));
  EXPECT_THAT(html, HasSubstr("marker-end=\"url(#tip-chain)\""));
  EXPECT_THAT(html, HasSubstr("<strong>trainer 100</strong>"));
}

TEST(Markdown, TextCannotBecomeMarkup) {
  EXPECT_EQ(escape_markdown("a|b *c* __d__ e_f <b> [x](y) `z`"),
            "a\\|b \\*c\\* \\_\\_d\\_\\_ e_f &lt;b&gt; \\[x\\](y) \\`z\\`");
  EXPECT_EQ(escape_markdown("https://x\ny"), "https&#58;//x y");
  EXPECT_EQ(markdown_code("a`b"), "``a`b``");
  EXPECT_EQ(markdown_code("`a"), "`` `a ``");
  EXPECT_EQ(markdown_cell("a|b"), "`a\\|b`");
}

TEST(Npd, EightyBytesOfAsciiWhateverTheReportSays) {
  Json report = make_report(testing::exhausted_case());
  report["findings"][0]["message"] = "\xc3\xa4" + std::string(500, 'x');
  const std::string line = with_format("npd", report);
  EXPECT_LE(line.size(), 80U);
  EXPECT_TRUE(
      std::ranges::all_of(line, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  EXPECT_EQ(std::ranges::count(line, '\n'), 1);
}

TEST(Nagios, OneBarBeforeThePerformanceData) {
  Json report = make_report(testing::exhausted_case());
  report["findings"][0]["message"] = "a|b";
  const std::string line = with_format("nagios", report);
  EXPECT_THAT(line, StartsWith("DLPROBE CRITICAL - DLP"));
  EXPECT_EQ(std::ranges::count(line, '|'), 1);
  EXPECT_THAT(line, HasSubstr("| errors=1;;0;0;"));
}

TEST(Github, AnnotationsAreEscapedAndNoMoreThanItShows) {
  Json report = make_report(testing::exhausted_case());
  const Json finding = report["findings"][0];
  report["findings"] = Json::array();
  for (int i = 0; i < 30; ++i)
    report["findings"].push_back(finding);
  report["findings"][0]["message"] = "100%\nnext::error::x";
  report["findings"][0]["locations"] = {{{"path", "/w/a,b.py"}, {"line", 3}, {"what", "w"}}};
  report["invocation"]["working_folder"] = "/w";
  const std::string text = with_format("github", report);
  EXPECT_THAT(text, StartsWith("::error file=a%2Cb.py,line=3,title="));
  EXPECT_THAT(text, HasSubstr("::100%25\\x0anext"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 10);
  EXPECT_THAT(text, HasSubstr("21 more like these"));
}

TEST(Gitlab, FingerprintsAreOfOneIssueEach) {
  Json report = make_report(testing::exhausted_case());
  const Json finding = report["findings"][0];
  report["findings"] = Json::array({finding, finding});
  const Json issues = Json::parse(with_format("gitlab", report));
  ASSERT_EQ(issues.size(), 2U);
  EXPECT_NE(issues[0]["fingerprint"], issues[1]["fingerprint"]);
  EXPECT_EQ(issues[0]["severity"], "critical");
}

TEST(Sarif, RulesResultsAndThePlaceInTheCode) {
  Json report = make_report(testing::exhausted_case());
  report["findings"][0]["locations"] = {{{"path", "/w/my train.py"}, {"line", 12}, {"what", "it"}}};
  const Json sarif = Json::parse(with_format("sarif", report));
  const Json& run = sarif["runs"][0];
  const Json& result = run["results"][0];
  EXPECT_EQ(run["tool"]["driver"]["rules"][result["ruleIndex"].get<size_t>()]["id"],
            result["ruleId"]);
  const Json& place = result["locations"][0]["physicalLocation"];
  EXPECT_EQ(place["artifactLocation"]["uri"], "file:///w/my%20train.py");
  EXPECT_EQ(place["region"]["startLine"], 12);
  EXPECT_EQ(run["invocations"][0]["exitCode"], 1);
}

// GitHub refuses the whole file for one result without a place, and shows a pass as an alert.
TEST(Sarif, EachResultIsAFindingWithAPlace) {
  const Json sarif = Json::parse(with_format("sarif", make_report(testing::exhausted_case())));
  const Json& run = sarif["runs"][0];
  ASSERT_FALSE(run["results"].empty());
  EXPECT_GT(run["tool"]["driver"]["rules"].size(), run["results"].size());
  for (const Json& result : run["results"]) {
    EXPECT_EQ(result["kind"], "fail");
    EXPECT_FALSE(result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].empty());
  }
}

TEST(CodePlace, WithoutALineTheProgram) {
  report::Report report;
  const report::Finding finding;
  EXPECT_EQ(code_place(report, finding).path, "dlprobe");
  report.subject.command = {"python", "-u", "./train.py", "--epochs"};
  EXPECT_EQ(code_place(report, finding).path, "train.py");
  EXPECT_FALSE(code_place(report, finding).is_known);
  report.subject.command = {"python", "-m", "train"};
  EXPECT_EQ(code_place(report, finding).path, "python");
}

}  // namespace
}  // namespace dlprobe
