#include <fmt/format.h>

#include <string>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "reports/model/known_values.h"
#include "reports/model/report.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

constexpr size_t kLargestReport = 64U << 20U;
constexpr int kDeepestReport = 32;

// How deep the brackets of a JSON text nest: the parser of nlohmann_json keeps its own stack while
// it reads, but the tree is destroyed and printed by recursion.
int nesting_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

Status check_version(const Json& report) {
  const auto version = report.find("schema_version");
  const std::string text =
      version != report.end() && version->is_string() ? version->get<std::string>() : "";
  const auto major = parse_int<int>(std::string_view(text).substr(0, text.find('.')));
  const int ours =
      parse_int<int>(kReportSchemaVersion.substr(0, kReportSchemaVersion.find('.'))).value_or(0);
  if (!major) return failure(ErrorCode::kMalformed, "the report has no schema_version");
  if (major != ours) {
    return failure(ErrorCode::kUnsupported,
                   fmt::format("the report has schema version {}, and this dlprobe reads {}.x: use "
                               "a dlprobe of that version",
                               text, ours));
  }
  return {};
}

// A later minor version may know more values.
bool is_of_a_later_version(const Json& report) {
  const auto text = report["schema_version"].get<std::string>();
  const auto minor_of = [](std::string_view version) {
    const size_t dot = version.find('.');
    return dot == std::string_view::npos ? 0 : parse_int<int>(version.substr(dot + 1)).value_or(0);
  };
  return minor_of(text) > minor_of(kReportSchemaVersion);
}

// What the renderers rely on. The whole schema is checked by tests, not by every reader.
Status check_shape(const Json& report) {
  const Json kind = report.is_object() ? report.value("kind", Json()) : Json();
  if (kind != kReportKind && kind != kClusterReportKind) {
    return failure(
        ErrorCode::kMalformed,
        "not a dlprobe report: its kind is not dlprobe.report or dlprobe.cluster-report");
  }
  DLP_CHECK(check_version(report));
  for (const char* key : {"invocation", "summary", "host", "timeline"}) {
    if (!report.contains(key) || !report[key].is_object()) {
      return failure(ErrorCode::kMalformed, fmt::format("the report has no object \"{}\"", key));
    }
  }
  for (const char* key : {"checks", "findings", "runs", "processes", "limitations"}) {
    if (!report.contains(key) || !report[key].is_array()) {
      return failure(ErrorCode::kMalformed, fmt::format("the report has no array \"{}\"", key));
    }
  }
  if (!report["summary"].contains("verdict"))
    return failure(ErrorCode::kMalformed, "the report has no /summary/verdict");
  return is_of_a_later_version(report) ? Status() : check_known_values(report);
}

// report[section][key], or null: a report that was read from a file may hold anything.
const Json* member_of(const Json& report, const char* section, const char* key) {
  const auto object = report.find(section);
  if (object == report.end() || !object->is_object()) return nullptr;
  const auto member = object->find(key);
  return member == object->end() ? nullptr : &*member;
}

}  // namespace

Json make_report(const Recording& recording, const Verdict& verdict, const ReportContext& context) {
  return json_of(examination_report(recording, verdict, context));
}

std::string render_json(const Json& report) {
  return report.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

OverallVerdict verdict_of(const Json& report) {
  const Json* name = member_of(report, "summary", "verdict");
  if (name == nullptr || !name->is_string()) return OverallVerdict::kIncomplete;
  return from_string<OverallVerdict>(name->get<std::string>())
      .value_or(OverallVerdict::kIncomplete);
}

int exit_code_of(const Json& report) {
  const Json* code = member_of(report, "invocation", "exit_code");
  return code != nullptr && code->is_number_integer() ? code->get<int>() : 3;
}

Expected<Json> parse_report(std::string_view text) {
  if (text.size() > kLargestReport) {
    return failure(ErrorCode::kMalformed,
                   fmt::format("the report is larger than {}", format_bytes(kLargestReport)));
  }
  if (nesting_of(text) > kDeepestReport) {
    return failure(ErrorCode::kMalformed, "the report is nested too deeply");
  }
  try {
    Json report = Json::parse(text);
    DLP_CHECK(check_shape(report));
    return report;
  } catch (const Json::exception& error) {
    return failure(ErrorCode::kMalformed, std::string("the report is not JSON: ") + error.what());
  }
}

}  // namespace dlprobe
