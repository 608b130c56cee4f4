#include "reports/format.h"

namespace dlprobe {
namespace {

std::string json(const AnyDocument& document, const TextOptions& /*options*/) {
  return render_json(document);
}

std::string human(const AnyDocument& document, const TextOptions& options) {
  return render_text(std::get<AnyReport>(document), options);
}

template <std::string (*Render)(const AnyReport&)>
std::string plain(const AnyDocument& document, const TextOptions& /*options*/) {
  return Render(std::get<AnyReport>(document));
}

template <std::string (*Render)(const report::Report&)>
std::string plain(const AnyDocument& document, const TextOptions& /*options*/) {
  return Render(std::get<AnyReport>(document).report);
}

std::string human_stacks(const AnyDocument& document, const TextOptions& options) {
  return render_stacks(std::get<report::Stacks>(document), options);
}

constexpr std::array<ReportFormat, 13> kReportFormats = {{
    {"human", "for people at a terminal", human},
    {"json", "the report itself, source of all other formats", json},
    {"jsonl", "the report on one line", plain<render_jsonl>},
    {"html", "a self-contained page, to hand over", plain<render_html>},
    {"markdown", "for a ticket", plain<render_markdown>},
    {"junit", "test results for CI", plain<render_junit>},
    {"sarif", "SARIF 2.1.0, for code scanning", plain<render_sarif>},
    {"github", "annotations of GitHub Actions", plain<render_github>},
    {"gitlab", "code quality report of GitLab", plain<render_gitlab>},
    {"prometheus", "gauges for node_exporter's textfile collector", plain<render_prometheus>},
    {"nagios", "a line with performance data", plain<render_nagios>},
    {"npd", "a line of 80 bytes for node-problem-detector", plain<render_npd>},
    {"dot", "the wait-for graph, for graphviz", plain<render_dot>},
}};

constexpr auto kStacksFormats = text_and_json(human_stacks);

}  // namespace

std::span<const ReportFormat> report_formats() {
  return kReportFormats;
}

std::span<const ReportFormat> stacks_formats() {
  return kStacksFormats;
}

}  // namespace dlprobe
