#include <fmt/format.h>

#include <string>
#include <string_view>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "reports/model/read_json.h"
#include "reports/model/report.h"
#include "reports/model/write_json.h"

namespace dlprobe {
namespace {

constexpr size_t kLargestReport = 64U << 20U;
constexpr int kDeepestReport = 32;
constexpr std::string_view kRecordingBegins =
    "\x89"
    "DLPREC";

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

Expected<AnyReport> read_report(const Json& json) {
  const Json kind = json.is_object() ? json.value("kind", Json()) : Json();
  if (kind != kReportKind && kind != kClusterReportKind) {
    return failure(
        ErrorCode::kMalformed,
        "not a dlprobe report: its kind is not dlprobe.report or dlprobe.cluster-report");
  }
  DLP_CHECK(check_version(json));
  const ReadMode mode = is_of_a_later_version(json) ? ReadMode::kLaterVersion : ReadMode::kStrict;
  if (kind == kClusterReportKind) {
    report::Cluster many;
    DLP_CHECK(read_json(json, cluster_shape(), &many, mode));
    return AnyReport(std::move(many));
  }
  report::Report one;
  DLP_CHECK(read_json(json, report_shape(), &one, mode));
  return AnyReport(std::move(one));
}

}  // namespace

AnyReport::AnyReport(report::Cluster many) : cluster(std::move(many)) {
  // A merged report has the sections of a report, so that every format can write it.
  // A part that cannot be read would be a fault of the shapes, which a test goes through.
  [[maybe_unused]] const Status done =
      read_json(json_of(*this), report_shape(), &report, ReadMode::kPart);
}

std::string render_json(const AnyDocument& document) {
  struct Writer {
    Json operator()(const AnyReport& report) { return json_of(report); }
    Json operator()(const report::Stacks& stacks) { return json_of(stacks_shape(), &stacks); }
    Json operator()(const report::Catalog& list) { return json_of(catalog_shape(), &list); }
    Json operator()(const report::Doctor& doctor) { return json_of(doctor_shape(), &doctor); }
    Json operator()(const report::Jobs& jobs) { return json_of(jobs_shape(), &jobs); }
  };
  return text_of_json(std::visit(Writer(), document));
}

Expected<AnyReport> parse_report(std::string_view text, WithStacks stacks) {
  if (text.size() > kLargestReport) {
    return failure(ErrorCode::kMalformed,
                   fmt::format("the report is larger than {}", format_bytes(kLargestReport)));
  }
  if (text.starts_with(kRecordingBegins)) {
    return failure(ErrorCode::kMalformed,
                   "this is a recording (--record), not a report: dlprobe replay FILE -f "
                   "json=report.json makes a report from it");
  }
  if (nesting_of(text) > kDeepestReport) {
    return failure(ErrorCode::kMalformed, "the report is nested too deeply");
  }
  try {
    // A list that is missing within a section is an empty one.
    const auto is_wanted = [](int /*depth*/, Json::parse_event_t event, const Json& parsed) {
      return event != Json::parse_event_t::key || parsed != "threads";
    };
    return read_report(stacks == WithStacks::kYes ? Json::parse(text)
                                                  : Json::parse(text, is_wanted));
  } catch (const Json::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...".
    const std::string_view words = error.what();
    const size_t tag = words.find("] ");
    return failure(ErrorCode::kMalformed,
                   "the report is not JSON: " +
                       std::string(tag == std::string_view::npos ? words : words.substr(tag + 2)));
  }
}

}  // namespace dlprobe
