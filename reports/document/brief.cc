// The short report: what happened, the chain to it, the proof in a line, the first remedy.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <string>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr int kLeadColumns = 8;
constexpr size_t kProofColumns = 70;  ///< a line of 80 columns, less its lead
constexpr size_t kMostFindings = 4;   ///< those that come after the first
constexpr size_t kMostCommands = 3;   ///< each with the lines of its block
constexpr size_t kMostUnseen = 3;

void add_line(Blocks& blocks, std::string lead, Spans text) {
  blocks.add(
      Paragraph{.text = std::move(text), .lead = std::move(lead), .lead_columns = kLeadColumns});
}

std::string words_of_name(std::string_view name) {
  std::string words = shown(name);
  std::ranges::replace(words, '_', ' ');
  return words;
}

// As much of the evidence as a line holds. What was held against something proves the most.
std::string proof_line(const report::Finding& finding) {
  std::vector<const report::Evidence*> order;
  order.reserve(finding.evidence.size());
  for (const report::Evidence& fact : finding.evidence)
    order.push_back(&fact);
  std::ranges::stable_partition(
      order, [](const report::Evidence* fact) { return !shown(fact->threshold).empty(); });
  std::string line;
  for (const report::Evidence* fact : order) {
    const std::string held = shown(fact->threshold);
    std::string text = words_of_name(fact->name) + " " + value_text(*fact);
    if (!held.empty()) text += " (" + words_of_name(held) + ")";
    if (line.size() + text.size() + 2 > kProofColumns) continue;
    line += (line.empty() ? "" : ", ") + text;
  }
  return line;
}

// The one that was tried and worked; else the first.
const report::Remedy& best_remedy(const std::vector<report::Remedy>& remedies) {
  const auto worked = std::ranges::find_if(remedies, [](const report::Remedy& remedy) {
    return remedy.confirmed && remedy.confirmed->outcome == RemedyOutcome::kConfirmed;
  });
  return worked == remedies.end() ? remedies.front() : *worked;
}

void add_remedy(Blocks& blocks, const report::Finding& finding) {
  if (finding.remediation.empty()) return;
  const report::Remedy& remedy = best_remedy(finding.remediation);
  List list;
  Item& item = list.add(shown(remedy.title));
  Code commands = {.is_shell = std::ranges::count(remedy.applies_to, "code") == 0};
  size_t begun = 0;
  for (const std::string& command : remedy.commands) {
    begun += command.starts_with(' ') ? 0 : 1;
    if (begun > kMostCommands) break;
    commands.lines.push_back(shown(command));
  }
  if (!commands.lines.empty()) item.blocks.add(std::move(commands));
  if (remedy.confirmed) item.blocks.say(strong(shown(remedy.confirmed->text)));
  Field fix = {.name = spans("Fix"), .columns = kLeadColumns};
  fix.blocks.add(std::move(list));
  blocks.add(std::move(fix));
}

// Beside what is wrong with the job, what others have left on the machine is for -v.
bool is_of_the_machine(const report::Finding& finding) {
  return finding.severity != Severity::kError && finding.subject.processes.empty() &&
         !finding.consequence_of;
}

void add_others(Blocks& blocks, const std::vector<report::Finding>& findings) {
  size_t shown_so_far = 0;
  for (const report::Finding& finding : findings | std::views::drop(1)) {
    const bool is_left_out = is_of_the_machine(finding) && !is_of_the_machine(findings.front());
    if (is_left_out || shown_so_far == kMostFindings) continue;
    ++shown_so_far;
    const std::string follows = finding.consequence_of ? "Then" : "Also";
    add_line(blocks, follows,
             spans(strong(shown(finding.code) + " " + shown(finding.name)),
                   ": " + shown(finding.message)));
  }
  if (const size_t more = findings.size() - std::min(findings.size(), shown_so_far + 1); more > 0)
    add_line(blocks, " ", spans(counted(more, "other finding") + ", with -v"));
}

// Two groups of ranks are in the headline: one waits for the other.
bool has_many_groups(const Section& ranks) {
  return std::ranges::any_of(ranks.blocks, [](const Block& block) {
    const List* list = std::get_if<List>(&block.content);
    return list != nullptr && list->items.size() > 2;
  });
}

// The tables alone, without their legends.
Section tables_of(Section section) {
  std::erase_if(section.blocks,
                [](const Block& block) { return !std::holds_alternative<Table>(block.content); });
  return section;
}

// A line for each thread of the chain, with what it waits for; of a long one the start and the
// steps before the root cause.
void add_chain(Blocks& blocks, const report::WaitGraph& graph) {
  constexpr size_t kLast = 3;
  std::vector<Spans> lines = short_chain(graph);
  if (lines.size() < 2) return;
  if (lines.size() > kLast + 2) {
    const auto first = lines.begin() + 1;
    const auto last = lines.end() - kLast;
    *first = spans(fmt::format("... {} more steps ...", last - first));
    lines.erase(first + 1, last);
  }
  for (size_t i = 0; i < lines.size(); ++i)
    add_line(blocks, i == 0 ? "Waits" : " ", lines[i]);
}

// Checks with names of their own that were not made, those with one reason together. What failed is
// a finding.
void add_skipped(Blocks& blocks, const std::vector<report::Check>& checks) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const report::Check& check : checks) {
    if (!check.text || check.status != CheckStatus::kSkipped) continue;
    const std::string why = shown(check.text);
    auto reason = std::ranges::find(reasons, why, &decltype(reasons)::value_type::first);
    if (reason == reasons.end()) reason = reasons.insert(reasons.end(), {why, {}});
    reason->second.push_back(check.id);
  }
  for (const auto& [why, names] : reasons)
    add_line(blocks, &why == &reasons.front().first ? "Skipped" : " ",
             spans(joined(names) + ": " + why));
}

// What keeps the verdict from being more; of an incomplete one whatever was not seen. What the
// headline has said is not said again.
void add_unseen(Blocks& blocks, const report::Report& report) {
  const bool is_incomplete = report.summary.verdict == OverallVerdict::kIncomplete;
  size_t count = 0;
  for (const report::Limitation& each : report.limitations) {
    if ((!each.required && !is_incomplete) || ++count > kMostUnseen) continue;
    const report::Gap& gap = each.gap;
    const std::string why = shown(gap.why);
    if (!shown(report.summary.headline).contains(why))
      add_line(blocks, "Unseen", spans(strong(shown(gap.what)), ": " + why));
    if (const std::string remedy = shown(gap.remedy); !remedy.empty())
      add_line(blocks, "Help", spans(remedy));
  }
  if (count > kMostUnseen)
    add_line(blocks, " ", spans(counted(count - kMostUnseen, "other gap") + ", with -v"));
}

// The findings, or what was found instead: numbers of the runs.
void add_cause(Blocks& blocks, const report::Report& report) {
  if (report.findings.empty()) return;
  const report::Finding& first = report.findings.front();
  const std::string headline = shown(report.summary.headline);
  if (const std::string message = shown(first.message); !headline.contains(message))
    add_line(blocks, "Found",
             spans(strong(shown(first.code) + " " + shown(first.name)), ": " + message));
  if (const std::string nodes = shown(first.nodes); !nodes.empty())
    add_line(blocks, "On", spans(nodes));
  if (const std::string proof = proof_line(first); !proof.empty())
    add_line(blocks, "Proof", spans(proof));
  add_remedy(blocks, first);
  add_others(blocks, report.findings);
}

std::string more_of(const report::Report& report) {
  if (report.findings.empty()) return "";
  return fmt::format("More: -v, or dlprobe explain {}", shown(report.findings.front().code));
}

class BriefBuilder {
 public:
  explicit BriefBuilder(const AnyReport& any) : report_(any.report) {
    const Document whole = document_of(any);
    document_.verdict = whole.verdict;
    document_.headline = whole.headline;
    document_.more = more_of(report_);
  }

  Document build() && {
    if (Section ranks = ranks_of(report_); has_many_groups(ranks)) add(std::move(ranks));
    Section cause = {.is_titled_in_text = false};
    add_chain(cause.blocks, report_.wait_graph);
    add_cause(cause.blocks, report_);
    add_skipped(cause.blocks, report_.checks);
    add_unseen(cause.blocks, report_);
    add(std::move(cause));
    add(recommendation_of(report_));
    add(tables_of(settings_of(report_)));
    add(tables_of(trials_of(report_)));
    // A gate's checks say what its runs showed.
    if (!report_.tune && !has_trials() && !has_named_checks(report_))
      add(tables_of(runs_by_finding_of(report_)));
    return std::move(document_);
  }

 private:
  bool has_trials() const { return !report_.runs.empty() && report_.runs.front().trial; }

  void add(Section section) {
    if (!section.blocks.empty()) document_.sections.push_back(std::move(section));
  }

  const report::Report& report_;
  Document document_;
};

}  // namespace

Document brief_of(const AnyReport& any) {
  return BriefBuilder(any).build();
}

}  // namespace dlprobe::document
