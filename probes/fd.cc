#include <algorithm>
#include <iterator>

#include "probes/facts.h"
#include "probes/fd_facts.h"
#include "probes/fd_rules.h"
#include "probes/probe.h"
#include "probes/shared_positions.h"

namespace dlprobe {
namespace {

void add(std::vector<Finding>& findings, std::optional<Finding> finding) {
  if (finding) findings.push_back(std::move(*finding));
}

// What filled the table is the cause of its being full.
std::optional<FindingCode> cause_of_exhaustion(const std::vector<Finding>& findings,
                                               const Finding& exhausted) {
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    const bool same = finding.processes.empty() ||
                      std::ranges::find_first_of(finding.processes, exhausted.processes) !=
                          finding.processes.end();
    if (same) return finding.code;
  }
  return std::nullopt;
}

Verdict examine_run(const Recording& recording, const Run& run) {
  const FdFacts facts = fd_facts(recording, run);
  Verdict verdict;
  verdict.gaps = fd_gaps(facts);
  const auto exhaustions = find_exhaustions(facts);
  const auto leaks = find_leaks(facts, exhaustions);
  add(verdict.findings, kept_batches(facts, leaks));
  std::ranges::move(leaks_by_kind(facts, leaks), std::back_inserter(verdict.findings));
  add(verdict.findings, limit_too_low(facts, exhaustions, leaks));
  auto exhausted = descriptors_exhausted(facts, exhaustions);
  if (exhausted) exhausted->consequence_of = cause_of_exhaustion(verdict.findings, *exhausted);
  add(verdict.findings, std::move(exhausted));
  add(verdict.findings, mappings_exhausted(facts));
  std::ranges::move(find_shared_positions(run, recording.header.host.machine),
                    std::back_inserter(verdict.findings));
  std::ranges::stable_sort(verdict.findings, [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return !a.consequence_of && b.consequence_of;
  });
  const bool is_explained = std::ranges::any_of(verdict.findings, [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
  if (!is_explained) {
    if (auto gap = gap_of_failed_loader(run)) verdict.gaps.push_back(std::move(*gap));
  }
  return verdict;
}

Verdict examine(const Recording& recording) {
  Verdict verdict;
  for (size_t index = 0; index < recording.runs.size(); ++index) {
    Verdict of_run = examine_run(recording, recording.runs[index]);
    for (Finding& finding : of_run.findings) {
      finding.runs = {static_cast<int>(index)};
      merge_finding(verdict.findings, std::move(finding));
    }
    for (Gap& gap : of_run.gaps) {
      if (std::ranges::count(verdict.gaps, gap) == 0) verdict.gaps.push_back(std::move(gap));
    }
  }
  if (recording.runs.empty()) {
    verdict.gaps.push_back({.what = "open descriptors",
                            .why = "the recording holds no run",
                            .effect = "nothing can be said of them",
                            .remedy = ""});
  }
  std::ranges::stable_sort(verdict.findings, std::ranges::greater{}, &Finding::severity);
  return verdict;
}

}  // namespace

extern const Probe k_fd;
const Probe k_fd = {.name = "fd",
                    .summary = "file descriptors and mappings: limits, leaks, kept batches",
                    .examine = examine,
                    .needs_shared_files = true};

}  // namespace dlprobe
