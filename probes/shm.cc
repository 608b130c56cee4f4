#include <algorithm>
#include <iterator>

#include "probes/facts.h"
#include "probes/probe.h"
#include "probes/shm_facts.h"
#include "probes/shm_rules.h"

namespace dlprobe {
namespace {

void add(std::vector<Finding>& findings, std::optional<Finding> finding) {
  if (finding) findings.push_back(std::move(*finding));
}

// Whatever failed is a consequence of what took the space.
void mark_consequence(std::optional<Finding>& finding, const std::optional<ShmBlame>& blame) {
  if (finding && blame) finding->consequence_of = blame->code;
}

std::optional<Finding> what_failed(const ShmFacts& facts,
                                   const std::optional<ShmShortage>& observed) {
  if (!observed) return std::nullopt;
  const std::optional<LoaderStall> stall = find_stall(facts);
  const bool lost = stall && observed->how == ShmShortage::How::kReservation;
  return lost ? batch_lost(facts, *observed, *stall) : exhausted(facts, *observed);
}

Verdict examine_run(const Recording& recording, const Run& run) {
  const ShmFacts facts = shm_facts(recording, run);
  Verdict verdict;
  verdict.gaps = shm_gaps(facts);
  if (facts.mount == nullptr) return verdict;

  const std::optional<ShmShortage> observed = observed_shortage(facts);
  const std::optional<ShmShortage> foretold = foretold_shortage(facts);
  const std::optional<ShmShortage>& shortage = observed ? observed : foretold;
  const std::optional<ShmBlame> blame =
      shortage ? blame_for(facts, *shortage) : std::optional<ShmBlame>();
  const ShmBlame* cause = blame ? &*blame : nullptr;

  std::optional<Finding> failure = what_failed(facts, observed);
  mark_consequence(failure, blame);

  // What was to be known beforehand is the cause of what then happened.
  std::optional<Finding> forecast;
  const bool never_fits = foretold && foretold->wanted_bytes > foretold->use.size_bytes;
  if (cause == nullptr && (!observed || never_fits)) {
    forecast = too_small(facts, foretold ? &*foretold : nullptr);
    if (failure && forecast) failure->consequence_of = forecast->code;
  }

  const Finding* failed = failure ? &*failure : nullptr;
  add(verdict.findings, held_by_another_job(facts, cause));
  add(verdict.findings, stale_files(facts, cause, failed));
  add(verdict.findings, leak(facts, cause, observed ? &*observed : nullptr, failed));
  add(verdict.findings, std::move(forecast));
  add(verdict.findings, std::move(failure));
  add(verdict.findings, inodes_exhausted(facts));
  add(verdict.findings, leaked_semaphores(facts));
  const bool is_explained = std::ranges::any_of(verdict.findings, [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
  if (!is_explained) {
    if (std::optional<Gap> gap = gap_of_failed_loader(run)) verdict.gaps.push_back(std::move(*gap));
    if (std::optional<Gap> limit = limit_of_short_watch(run)) verdict.limits.push_back(*limit);
  }
  return verdict;
}

// Worse first; of equal ones a cause before its consequence.
void order(std::vector<Finding>& findings) {
  std::ranges::stable_sort(findings, [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return !a.consequence_of && b.consequence_of;
  });
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
    std::ranges::move(of_run.limits, std::back_inserter(verdict.limits));
  }
  if (recording.runs.empty()) {
    verdict.gaps.push_back({.what = "shared memory",
                            .why = "the recording holds no run",
                            .effect = "nothing can be said of it",
                            .remedy = ""});
  }
  order(verdict.findings);
  return verdict;
}

}  // namespace

extern const Probe k_shm;
const Probe k_shm = {.name = "shm",
                     .summary = "shared memory: too small, full, leaked, or held by others",
                     .examine = examine};

}  // namespace dlprobe
