#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "reports/model/examination.h"

namespace dlprobe {

/// A report keeps its keys in the order in which a person reads them.
using Json = nlohmann::ordered_json;

/// The report of one examination as JSON.
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
