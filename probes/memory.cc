#include <algorithm>
#include <iterator>

#include "probes/every_probe.h"
#include "probes/exits.h"
#include "probes/facts.h"
#include "probes/memory_facts.h"
#include "probes/memory_rules.h"
#include "probes/probe.h"

namespace dlprobe {
namespace {

void add(std::vector<Finding>& findings, std::optional<Finding> finding) {
  if (finding) findings.push_back(std::move(*finding));
}

// What makes the group's memory grow is the cause of its limit being too low, and of swapping.
void mark_consequences(std::vector<Finding>& findings) {
  const auto is_cause = [](const Finding& finding) {
    return finding.code == FindingCode::kCopyOnWriteGrowth ||
           finding.code == FindingCode::kWorkerMemoryLeak ||
           finding.code == FindingCode::kPrefetchBacklog;
  };
  const auto cause = std::ranges::find_if(findings, is_cause);
  if (cause == findings.end()) return;
  const FindingCode code = cause->code;
  for (Finding& finding : findings) {
    if (!is_cause(finding)) finding.consequence_of = code;
  }
}

Verdict examine_run(const Recording& recording, const Run& run) {
  const MemoryFacts facts = memory_facts(recording, run);
  Verdict verdict;
  verdict.gaps = memory_gaps(facts);
  verdict.limits = memory_limits(facts);
  add(verdict.findings, copy_on_write_growth(facts));
  std::ranges::move(growing_processes(facts), std::back_inserter(verdict.findings));
  auto backlog = prefetch_backlog(facts);
  // What waits for the training loop is not kept for good.
  if (!backlog) add(verdict.findings, shared_memory_growth(facts));
  add(verdict.findings, std::move(backlog));
  add(verdict.findings, swap_thrash(facts));
  add(verdict.findings, limit_too_low(facts));
  mark_consequences(verdict.findings);
  const bool has_error = std::ranges::any_of(verdict.findings, [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
  if (!has_error) {
    if (std::optional<Gap> gap = gap_of_failed_loader(run)) verdict.gaps.push_back(std::move(*gap));
  }
  return verdict;
}

Verdict examine_growth(const Recording& recording) {
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
    for (Gap& limit : of_run.limits) {
      if (std::ranges::count(verdict.limits, limit) == 0)
        verdict.limits.push_back(std::move(limit));
    }
  }
  std::ranges::stable_sort(verdict.findings, [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return !a.consequence_of && b.consequence_of;
  });
  return verdict;
}

// Growth, and who was killed for it or for something else. A SIGBUS of a full /dev/shm is no matter
// of memory.
Verdict examine(const Recording& recording) {
  Verdict growth = examine_growth(recording);
  std::vector<Finding> known = find_probe("shm")->examine(recording).findings;
  known.insert(known.end(), growth.findings.begin(), growth.findings.end());
  Verdict exits = examine_exits(recording, known);
  std::vector<Verdict> verdicts;
  verdicts.push_back(std::move(growth));
  verdicts.push_back(std::move(exits));
  return merge_verdicts(std::move(verdicts));
}

}  // namespace

extern const Probe k_memory;
const Probe k_memory = {.name = "memory",
                        .summary = "memory: leaks, copy-on-write, swap, limits, OOM kills",
                        .examine = examine,
                        .watch_of_pid_s = 30};

}  // namespace dlprobe
