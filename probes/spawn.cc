#include <algorithm>
#include <iterator>

#include "probes/facts.h"
#include "probes/probe.h"
#include "probes/spawn_facts.h"
#include "probes/spawn_rules.h"
#include "probes/spawn_script.h"
#include "probes/spawn_trial.h"

namespace dlprobe {
namespace {

bool has_error(const std::vector<Finding>& findings) {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.severity == Severity::kError; });
}

std::optional<Gap> gap_of_loader(const Run& run) {
  if (!events_of(run, StartEventKind::kStarted).empty() || !run.done) return std::nullopt;
  return Gap{.what = "how workers start under " + method_of(run),
             .why = "the reference loader was asked for none",
             .effect = "nothing can be said of " + method_of(run),
             .remedy = "dlprobe spawn-recursion --workers 2"};
}

// Many processes beside one another: more than the trial allowed, and nothing wrong with that.
std::optional<Gap> gap_of_budget(const Run& run) {
  const auto event = std::ranges::find(run.events, kTooManyProcesses, &Event::kind);
  if (event == run.events.end()) return std::nullopt;
  return Gap{.what = "the command under " + method_of(run),
             .why = event->text + ", more than the " + std::to_string(allowed_processes(run)) +
                    " that were allowed, and was ended",
             .effect = "whether it would have worked is not known",
             .remedy = "dlprobe spawn-recursion --process-budget N -- COMMAND"};
}

void add(std::vector<Gap>& gaps, std::optional<Gap> gap) {
  if (gap && std::ranges::count(gaps, *gap) == 0) gaps.push_back(std::move(*gap));
}

void examine_run(const Recording& recording, size_t position, Verdict& verdict) {
  const Run& run = recording.runs[position];
  const auto index = static_cast<int>(position);
  std::vector<Finding> findings = findings_of_starts(run);
  if (auto recursion = recursion_of(run)) {
    if (has_error(findings)) recursion->consequence_of = findings.front().code;
    findings.push_back(std::move(*recursion));
  }
  if (auto lacks = state_not_inherited(run, recording)) findings.push_back(std::move(*lacks));
  const bool is_explained = has_error(findings);
  for (Finding& finding : findings) {
    finding.runs = {index};
    merge_finding(verdict.findings, std::move(finding));
  }
  if (is_explained) return;
  if (auto gap = gap_of_budget(run)) return add(verdict.gaps, std::move(gap));
  if (!run.begin.trial) return;
  if (run.begin.subject == SubjectKind::kReferenceLoader) {
    add(verdict.gaps, gap_of_failed_loader(run));
    return add(verdict.gaps, gap_of_loader(run));
  }
  for (Gap& gap : gaps_of_trial(run, recording))
    add(verdict.gaps, std::move(gap));
}

Verdict examine(const Recording& recording) {
  Verdict verdict;
  for (size_t index = 0; index < recording.runs.size(); ++index)
    examine_run(recording, index, verdict);
  find_in_script(recording, verdict);
  std::ranges::stable_sort(verdict.findings, std::ranges::greater{}, &Finding::severity);
  return verdict;
}

}  // namespace

extern const Probe k_spawn;
const Probe k_spawn = {.name = "spawn-recursion",
                       .summary = "start methods: what breaks under spawn, where, how to mend it",
                       .examine = examine,
                       .tries_start_methods = true};

}  // namespace dlprobe
