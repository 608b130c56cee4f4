#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>

#include "reports/document/render.h"

namespace dlprobe {

/// A form in which a report can be written. Each is a function of the report alone (and, for
/// people at a terminal, of its colours and width): a saved report gives the same bytes.
struct ReportFormat {
  std::string_view name;  ///< as in -f NAME
  std::string_view what;  ///< for whom, in a few words
  std::string (*render)(const AnyDocument& document, const TextOptions& options);
};

/// All of them, in the order of the help.
std::span<const ReportFormat> report_formats();

/// Those of the document that `dlprobe stacks` makes (stacks.h).
std::span<const ReportFormat> stacks_formats();

/// The formats of a document that is for people and programs alone: text and JSON.
constexpr std::array<ReportFormat, 2> text_and_json(
    std::string (*text)(const AnyDocument& document, const TextOptions& options)) {
  return {{{"human", "for people at a terminal", text},
           {"json", "the document that the text is made from",
            [](const AnyDocument& document, const TextOptions& /*options*/) {
              return render_json(document);
            }}}};
}

/// JUnit: a test case for each check; what could not be said is an error, a warning is a property.
std::string render_junit(const report::Report& report);

/// SARIF 2.1.0 (OASIS): a rule for each code of the registry, a result for each finding.
std::string render_sarif(const report::Report& report);

/// Gauges for the textfile collector of Prometheus' node_exporter: no time stamps, no pids; also
/// valid OpenMetrics.
std::string render_prometheus(const report::Report& report);

/// One line with performance data, as the Monitoring Plugins development guidelines want it.
std::string render_nagios(const report::Report& report);

/// That line without the performance data: "DLPROBE UNKNOWN - why".
std::string nagios_line(OverallVerdict verdict, std::string_view text);

/// One ASCII line of at most 80 bytes: what node-problem-detector keeps of a plugin's output
/// (`max_output_length`).
std::string render_npd(const report::Report& report);

/// Workflow commands of GitHub Actions: an annotation for each finding.
std::string render_github(const report::Report& report);

/// GitLab's code quality report: an issue for each finding.
std::string render_gitlab(const report::Report& report);

/// The wait-for graph for graphviz: `dot -Tsvg`. A box for each thread, an ellipse for each object
/// that is waited for, the chain to the root cause in red. All hostile text escaped.
std::string render_dot(const report::Report& report);

/// The whole report on one line: for logs, and for `dlprobe report merge` of many nodes' output.
std::string render_jsonl(const AnyReport& report);

}  // namespace dlprobe
