#pragma once

#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "reports/policy.h"

namespace dlprobe {

/// A report keeps its keys in the order in which a person reads them.
using Json = nlohmann::ordered_json;

/// MAJOR.MINOR of the report; readers reject another major and ignore unknown fields.
inline constexpr std::string_view kReportSchemaVersion = "1.1";

/// What `kind` of a document says: one examination; many nodes' reports as one (merge.h).
inline constexpr std::string_view kReportKind = "dlprobe.report";
inline constexpr std::string_view kClusterReportKind = "dlprobe.cluster-report";

/// "pass", "warn", "fail", "incomplete": what the exit code is made of.
enum class OverallVerdict { kPass, kWarn, kFail, kIncomplete };
std::string_view to_string(OverallVerdict verdict);

/// A value of an option that a configuration file or the environment has set.
struct SettingFromElsewhere {
  std::string name;    ///< "--level"
  std::string value;   ///< secrets masked
  std::string source;  ///< "dlprobe.toml:12", "DLPROBE_GATE_LEVEL"
};

/// What the run of dlprobe decided beside the findings.
struct ReportContext {
  Severity fail_on = Severity::kError;
  FindingPolicy policy;
  /// Of this invocation's options those that no command line shows.
  std::vector<SettingFromElsewhere> settings;
};

/// The report of one examination: the model that every format is made from. Depends on its
/// arguments alone (no clock, no environment), so a replay gives the same bytes.
Json make_report(const Recording& recording, const Verdict& verdict, const ReportContext& context);

/// The overall verdict that `report` states.
OverallVerdict verdict_of(const Json& report);

/// 0 pass or warn below fail_on, 1 a finding at or above fail_on, 3 incomplete.
int exit_code_of(const Json& report);

/// The JSON text of a report: two blanks of indentation, UTF-8 (invalid bytes replaced), newline at
/// the end.
std::string render_json(const Json& report);

/// A report from its JSON text. kMalformed with the place; kUnsupported for another major version.
Expected<Json> parse_report(std::string_view text);

/// The JSON schema (draft 2020-12) of the report, as shipped.
std::string_view report_schema();

struct TextOptions {
  bool color = false;
  int width = 100;    ///< columns
  int verbosity = 0;  ///< -1: the verdict line only; 1: all evidence
};

/// For people: the verdict first, then cause, proof, remedy, then the tables. All hostile text
/// escaped.
std::string render_text(const Json& report, const TextOptions& options);

/// The wait-for graph for graphviz: `dot -Tsvg`. A box for each thread, an ellipse for each object
/// that is waited for, the chain to the root cause in red. All hostile text escaped.
std::string render_dot(const Json& report);

/// The page of a finding (docs/findings/<name>.md), compiled in.
std::string_view finding_page(FindingCode code);

}  // namespace dlprobe
