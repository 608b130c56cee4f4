#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "reports/format.h"
#include "reports/merge.h"
#include "tests/support/must.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

TEST(ReportJson, TheSameInputGivesTheSameBytes) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    EXPECT_EQ(text_of_json(make_report(each)), text_of_json(make_report(each)));
  }
}

TEST(ReportJson, ReadBackItRendersToTheSameBytesInEveryFormat) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const AnyReport report = report_of(each);
    const auto read = must(parse_report(render_json(report)));
    EXPECT_EQ(render_json(read), render_json(report)) << each.name;
    for (const int verbosity : {-1, 0, 1}) {
      const TextOptions options = {.color = true, .width = 100, .verbosity = verbosity};
      EXPECT_EQ(render_text(read, options), render_text(report, options)) << each.name;
    }
  }
}

TEST(ReportJson, EndsWithANewlineAndHoldsNoNumberThatIsNone) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const std::string text = text_of_json(make_report(each));
    EXPECT_TRUE(text.ends_with("}\n"));
    EXPECT_EQ(text.find("NaN"), std::string::npos);
  }
}

TEST(ReportJson, OtherTextIsRefusedWithTheReason) {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"", "not JSON"},
      {"{", "not JSON"},
      {"[]", "kind"},
      {"{}", "kind"},
      {R"({"kind":"dlprobe.report"})", "schema_version"},
      {R"({"kind":"dlprobe.report","schema_version":"1.0"})", "the report has no /report_id"},
      {deep, "nested too deeply"},
      {R"(")" + std::string(65U << 20U, 'x') + "\"", "larger than"},
  };
  for (const auto& [text, reason] : wrong) {
    const auto read = parse_report(text);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, ErrorCode::kMalformed);
    EXPECT_THAT(read.error().context, HasSubstr(reason));
  }
}

TEST(ReportJson, AnotherMajorVersionIsRefusedAndANewerMinorRead) {
  Json report = make_report(testing::healthy_case());
  report["schema_version"] = "1.9";
  report["new_section"] = Json::array();
  EXPECT_TRUE(parse_report(text_of_json(report)));
  report["schema_version"] = "2.0";
  const auto read = parse_report(text_of_json(report));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(read.error().context, HasSubstr("2.0"));
}

// What a reader says of a report with that at `pointer`.
std::string complaint(Json report, const char* pointer, const Json& value) {
  report[Json::json_pointer(pointer)] = value;
  const auto read = parse_report(text_of_json(report));
  return read ? "" : read.error().context;
}

TEST(ReportJson, AValueThatTheSchemaDoesNotListIsRefusedWithItsPlace) {
  const Json report = make_report(testing::exhausted_case());
  EXPECT_EQ(
      complaint(report, "/summary/verdict", "fial"),
      "/summary/verdict of the report is \"fial\" (did you mean 'fail'?): it has to be one of "
      "pass, warn, fail, incomplete");
  for (const char* pointer :
       {"/findings/0/severity", "/findings/0/confidence", "/checks/0/status", "/processes/0/role",
        "/subject/kind", "/runs/0/subject", "/invocation/fail_on"}) {
    EXPECT_THAT(complaint(report, pointer, "junk"), HasSubstr(std::string(pointer) + " of"));
    EXPECT_THAT(complaint(report, pointer, 3), HasSubstr(std::string(pointer) + " of"));
    EXPECT_THAT(complaint(report, pointer, Json::array()), HasSubstr("is a list"));
  }
  EXPECT_THAT(complaint(report, "/invocation/exit_code", 7), HasSubstr("0, 1, 3"));
  EXPECT_EQ(complaint(report, "/findings/0/severity", "info"), "");
  EXPECT_EQ(complaint(report, "/findings/0/of_tomorrow", "junk"), "");
}

TEST(ReportJson, ARecordingOrAnotherTextIsRefusedInPlainWords) {
  const auto recording = parse_report(
      "\x89"
      "DLPREC\x01 and so on");
  ASSERT_FALSE(recording);
  EXPECT_THAT(recording.error().context, HasSubstr("dlprobe replay FILE -f json=report.json"));
  const auto other = parse_report("Traceback");
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().context, HasSubstr("the report is not JSON: parse error at line 1"));
}

TEST(ReportJson, AVerdictMustBeThere) {
  Json report = make_report(testing::healthy_case());
  report["summary"].erase("verdict");
  const auto read = parse_report(text_of_json(report));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().context, HasSubstr("/summary/verdict"));
}

TEST(ReportJson, AValueOfALaterMinorVersionIsReadAndNotJudgedBy) {
  Json report = make_report(testing::exhausted_case());
  for (const char* pointer : {"/processes/0/role", "/findings/0/severity", "/checks/0/status",
                              "/summary/verdict", "/findings/0/confidence"})
    report[Json::json_pointer(pointer)] = "of-tomorrow";
  EXPECT_FALSE(parse_report(text_of_json(report)));
  report["schema_version"] = "1.99";
  const auto read = must(parse_report(text_of_json(report)));
  EXPECT_EQ(read.report.summary.verdict, OverallVerdict::kIncomplete);
  EXPECT_EQ(read.report.findings[0].severity, Severity::kInfo);
  EXPECT_TRUE(render_text(read, {.verbosity = 1}).contains("unknown"));
  ReportMerger merger({});
  merger.add("x.json", read);
  EXPECT_EQ(std::move(merger).finish().checks[0].status, CheckStatus::kIncomplete);
}

TEST(ReportJson, AMissingSectionOrFieldIsNamed) {
  const Json report = make_report(testing::exhausted_case());
  for (const char* pointer :
       {"/invocation", "/summary", "/host", "/timeline", "/checks", "/findings", "/runs",
        "/processes", "/limitations", "/findings/0/code", "/processes/0/pid"}) {
    const Json::json_pointer place(pointer);
    Json lacking = report;
    Json& parent = lacking[place.parent_pointer()];
    parent.erase(place.back());
    const auto read = parse_report(text_of_json(lacking));
    ASSERT_FALSE(read) << pointer;
    EXPECT_EQ(read.error().context, std::string("the report has no ") + pointer);
  }
}

TEST(ReportJson, AnEarlierVersionMayLackAListAndColumns) {
  Json report = make_report(testing::hang_case());
  report["schema_version"] = "1.0";
  report["wait_graph"].erase("chain");
  for (Json& row : report["timeline"]["rows"])
    row.erase(row.size() - 1);
  const auto read = must(parse_report(text_of_json(report)));
  EXPECT_EQ(json_of(read)["schema_version"], "1.0");
  EXPECT_EQ(json_of(read)["timeline"]["rows"][0].size(),
            json_of(read)["timeline"]["columns"].size());
}

// Every value of a good report replaced by another, one at a time: a saved report is anybody's
// text. It is refused, or every format can write it. The next value gets the next of the others.
void replace_each(Json& whole, Json& part, size_t& turn) {
  const std::array<Json, 5> others = {Json(), Json(3), Json("x"), Json::array({1}), Json{{"a", 1}}};
  for (Json& child : part) {
    const Json original = child;
    for (const size_t step : {0, 2}) {
      child = others.at((turn + step) % others.size());
      const auto read = parse_report(whole.dump());
      if (!read) continue;
      for (const ReportFormat& format : report_formats())
        static_cast<void>(format.render(*read, {}));
    }
    child = original;
    ++turn;
    if (child.is_structured()) replace_each(whole, child, turn);
  }
}

// Two of each kind are enough.
void shorten(Json& part) {
  while (part.is_array() && part.size() > 2 && part.front().is_structured())
    part.erase(part.size() - 1);
  if (!part.is_structured()) return;
  for (Json& child : part)
    shorten(child);
}

TEST(ReportJson, AReportWithWrongValuesIsRefusedOrWrittenInEveryFormat) {
  for (const testing::ReportCase& each : {testing::exhausted_case(), testing::hang_case()}) {
    Json report = make_report(each);
    shorten(report);
    size_t turn = 0;
    EXPECT_NO_THROW(replace_each(report, report, turn));
  }
}

}  // namespace
}  // namespace dlprobe
