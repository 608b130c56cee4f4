#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "lib/model/finding.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

// Pages show the cause first; a terminal ends with what is longest.
enum Weight {
  kNamedChecks,
  kCause,
  kRanks,
  kSuppressed,
  kNodes,
  kRecommendation,
  kSettings,
  kWaits,
  kTime,
  kProcesses,
  kStacks,
  kTrials,
  kRuns,
  kLedger,
  kMemory,
  kDescriptors,
  kUnseen,
  kChecks,
  kAbout,
  kAgain,
};

Span verdict_span(OverallVerdict verdict) {
  switch (verdict) {
    case OverallVerdict::kPass:
      return {.text = "PASS", .mark = Mark::kPass};
    case OverallVerdict::kWarn:
      return {.text = "WARN", .mark = Mark::kWarn};
    case OverallVerdict::kFail:
      return {.text = "FAIL", .mark = Mark::kFail};
    case OverallVerdict::kIncomplete:
      break;
  }
  return {.text = "INCOMPLETE", .mark = Mark::kUnsure};
}

std::string where_text(const AnyReport& any) {
  const report::Host& host = any.report.host;
  std::string where = shown(host.name);
  if (!any.cluster) where += fmt::format(", {}, Linux {}", shown(host.os), shown(host.kernel));
  return fmt::format("{}; {}; dlprobe {}", where, shown(any.report.invocation.started.at),
                     shown(any.report.tool.version));
}

std::string first_code(const report::Report& report) {
  return report.findings.empty() ? "" : shown(report.findings.front().code);
}

// Whether the verdict wants that table. A report of an older version does not say: it has each.
bool wants(const report::Report& report, ReportTable table) {
  return !report.tables || std::ranges::count(*report.tables, table) > 0;
}

Section again_of(const report::Report& report) {
  Section section = {.id = "again", .title = "Reproduce this report", .readers = Readers::kHtml};
  Spans text = spans("The JSON report makes this page again (",
                     code("dlprobe report render report.json -f html=report.html"),
                     ") and every other format.");
  if (!report.runs.empty()) {
    text = spans(text, " A recording (", code("--record FILE"),
                 ") can be diagnosed again on any machine: ", code("dlprobe replay FILE"), ".");
  }
  if (const std::string cause = first_code(report); !cause.empty())
    text = spans(text, " More on the cause: ", code("dlprobe explain " + cause), ".");
  section.blocks.say(text);
  return section;
}

class Builder {
 public:
  explicit Builder(const AnyReport& any) : any_(any), report_(any.report) {
    document_.verdict = verdict_span(report_.summary.verdict);
    document_.headline = shown(report_.summary.headline);
    document_.where = spans(where_text(any));
    if (const std::string code = first_code(report_); !code.empty()) {
      document_.more = fmt::format(
          "More: dlprobe explain {}. To keep the evidence: --record FILE, and dlprobe replay FILE "
          "on any machine.",
          code);
    }
  }

  // In the order of a terminal.
  Document build() && {
    Section named_checks = named_checks_of(report_);
    const Weight checks = named_checks.blocks.empty() ? kChecks : kNamedChecks;
    add(std::move(named_checks), checks);
    add(ranks_of(report_), kRanks);
    add(waits_of(report_), kWaits);
    const bool are_active = has_activities(report_);
    if (are_active) add(processes_of(report_), kProcesses);
    add(findings_of(report_), kCause);
    add(suppressed_of(report_), kSuppressed);
    if (any_.cluster) add(nodes_of(*any_.cluster), kNodes);
    add(checks_of(any_), checks);
    add(recommendation_of(report_), kRecommendation);
    add(settings_of(report_), kSettings);
    add_resources();
    if (!are_active) add(processes_of(report_), kProcesses);
    add(timeline_of(report_), kTime);
    Section stacks = stacks_of(report_);
    stacks.readers = Readers::kHtml;
    add(std::move(stacks), kStacks);
    add(limitations_of(gaps(), /*is_all=*/true), kUnseen);
    add(about_of(any_), kAbout);
    add(again_of(report_), kAgain);
    return std::move(document_);
  }

 private:
  void add_resources() {
    const bool is_of_shm = wants(report_, ReportTable::kSharedMemory);
    Section trials = trials_of(report_);
    if (is_of_shm) {
      trials.readers = Readers::kPages;
      add(runs_of(report_), kRuns);
      add(ledger_of(report_), kLedger);
    } else if (trials.blocks.empty()) {
      add(runs_by_finding_of(report_), kRuns);
    }
    add(std::move(trials), kTrials);
    if (wants(report_, ReportTable::kMemory)) add(memory_of(report_), kMemory);
    if (wants(report_, ReportTable::kOpenFiles)) add(descriptors_of(report_), kDescriptors);
  }

  std::vector<report::Gap> gaps() const {
    std::vector<report::Gap> gaps;
    std::ranges::transform(report_.limitations, std::back_inserter(gaps), &report::Limitation::gap);
    return gaps;
  }

  void add(Section section, Weight weight) {
    if (section.blocks.empty()) return;
    section.weight = weight;
    document_.sections.push_back(std::move(section));
  }

  const AnyReport& any_;
  const report::Report& report_;
  Document document_;
};

}  // namespace

Document document_of(const AnyReport& report) {
  return Builder(report).build();
}

Document document_of(const report::Stacks& stacks, bool is_all) {
  Document document;
  for (Section section : {stacks_of(stacks, is_all), limitations_of(stacks.limitations, is_all)}) {
    if (!section.blocks.empty()) document.sections.push_back(std::move(section));
  }
  return document;
}

std::string or_dash(std::string text) {
  return text.empty() ? "-" : std::move(text);
}

std::string process_name(const report::Process& process) {
  return process_name(process.role, process.rank, process.pid);
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string all;
  for (const std::string& text : texts) {
    if (!all.empty()) all += between;
    all += shown(text);
  }
  return all;
}

}  // namespace dlprobe::document
