#include "probes/merge.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/facts.h"

namespace dlprobe {
namespace {

// The surer of two accounts of one cause stays.
void add_finding(std::vector<Finding>& all, Finding finding) {
  const auto same = std::ranges::find_if(all, [&](const Finding& each) {
    return each.code == finding.code && each.discriminator == finding.discriminator &&
           each.runs == finding.runs;
  });
  if (same == all.end()) {
    all.push_back(std::move(finding));
  } else if (std::pair(finding.severity, finding.confidence) >
             std::pair(same->severity, same->confidence)) {
    *same = std::move(finding);
  }
}

// What others have left on the machine is behind all that the job itself does, and behind the wait
// in which it stands, be that no error.
void order(std::vector<Finding>& findings) {
  const auto rank = [](const Finding& finding) {
    const bool is_of_job = !finding.processes.empty();
    const bool is_of_others = finding.severity == Severity::kWarning && !is_of_job;
    const bool is_noted_wait = finding.severity == Severity::kInfo && is_of_job && is_hang(finding);
    const Severity severity = is_noted_wait ? Severity::kWarning : finding.severity;
    return std::tuple(-static_cast<int>(severity), is_of_others, is_noted_wait,
                      finding.consequence_of.has_value(), -static_cast<int>(finding.confidence));
  };
  std::ranges::stable_sort(findings, {}, rank);
}

bool have_process_in_common(const Finding& a, const Finding& b) {
  return std::ranges::any_of(
      a.processes, [&](const ProcessKey& key) { return std::ranges::count(b.processes, key) > 0; });
}

// Whoever is tired of a job that stands still, or that has failed and does not end (a person,
// timeout(1), a scheduler), ends it. Of a wait that might yet have ended both are told.
void mark_ends_of(const Finding& cause, std::span<Finding> deaths) {
  constexpr BootNs kTiredAfter = 10 * kSecond;
  const bool is_known = is_hang(cause) || cause.severity == Severity::kError;
  if (!is_known || cause.consequence_of || !cause.first_seen) return;
  for (Finding& death : deaths) {
    const bool is_end = death.code == FindingCode::kKilledBySignal && death.runs == cause.runs &&
                        death.first_seen >= *cause.first_seen + kTiredAfter &&
                        (!is_hang(cause) || death.first_seen > cause.last_seen);
    if (!is_end) continue;
    if (cause.severity == Severity::kInfo) {
      death.message += "; until then " + cause.message;
      death.remedies.insert(death.remedies.begin(), cause.remedies.begin(), cause.remedies.end());
      continue;
    }
    death.consequence_of = cause.code;
    death.severity = std::min(death.severity, cause.severity);
  }
}

// What a rank ended by is why the others wait for it.
void mark_dead_ranks(std::span<Finding> hangs, std::span<Finding> deaths) {
  for (Finding& hang : hangs) {
    if (hang.code != FindingCode::kRankDead || hang.consequence_of) continue;
    const auto cause = std::ranges::find_if(deaths, [&](const Finding& death) {
      return death.severity >= Severity::kWarning && death.runs == hang.runs &&
             death.first_seen <= hang.last_seen && have_process_in_common(death, hang);
    });
    if (cause == deaths.end()) continue;
    hang.consequence_of = cause->code;
    // That the others could go on without it was open until then.
    cause->severity = std::max(cause->severity, hang.severity);
  }
}

}  // namespace

void mark_hangs_after_deaths(std::span<Finding> hangs, std::span<Finding> deaths) {
  mark_dead_ranks(hangs, deaths);
  for (Finding& hang : hangs) {
    mark_ends_of(hang, deaths);
    if (!is_hang(hang) || hang.consequence_of) continue;
    const auto cause = std::ranges::find_if(deaths, [&](const Finding& death) {
      // Of an end that may have been an ordinary one the hang is not known to be a consequence, but
      // for that of a thread. Nobody crashes on purpose.
      const bool was_unwanted = death.confidence == Confidence::kCertain ||
                                death.code == FindingCode::kUncaughtException ||
                                death.code == FindingCode::kBusErrorOnFileMapping ||
                                death.code == FindingCode::kWorkerCrashed;
      return death.severity >= Severity::kWarning && was_unwanted && death.runs == hang.runs &&
             death.first_seen <= hang.last_seen;
    });
    if (cause == deaths.end()) continue;
    hang.consequence_of = cause->code;
    // Whether the trainer goes on without the worker was open until then.
    cause->severity = std::max(cause->severity, hang.severity);
  }
}

void mark_what_comes_with_tasks(std::span<Finding> findings, std::span<const Finding> ends) {
  for (Finding& each : findings) {
    const bool are_pipes =
        each.code == FindingCode::kFdLeakInWorker && each.discriminator == "pipe";
    if (each.code != FindingCode::kMemoryMapLimitReached && !are_pipes) continue;
    const bool come_with_tasks = std::ranges::any_of(ends, [&](const Finding& end) {
      return end.code == FindingCode::kProcessLimitReached && end.severity >= each.severity &&
             end.runs == each.runs && (!are_pipes || end.discriminator == "growing-processes");
    });
    if (come_with_tasks) each.consequence_of = FindingCode::kProcessLimitReached;
  }
}

void mark_limits_of_leaks(std::span<Finding> findings, std::span<Finding> ends) {
  const auto mark = [&](Finding& limit) {
    const auto leak = std::ranges::find_if(findings, [&](const Finding& finding) {
      return finding.code == FindingCode::kWorkerMemoryLeak && finding.runs == limit.runs &&
             finding.severity >= Severity::kWarning && have_process_in_common(finding, limit);
    });
    if (leak == findings.end()) return;
    limit.consequence_of = leak->code;
    leak->severity = std::max(leak->severity, limit.severity);
  };
  for (Finding& finding : findings)
    if (finding.code == FindingCode::kMemoryMapLimitReached && !finding.consequence_of)
      mark(finding);
  for (Finding& end : ends)
    if (end.code == FindingCode::kMemoryLimitTooLow && end.severity == Severity::kError) mark(end);
}

void add_gaps(std::vector<Gap>& all, std::vector<Gap> more) {
  for (Gap& gap : more) {
    if (std::ranges::count(all, gap) == 0) all.push_back(std::move(gap));
  }
}

Verdict merge_verdicts(std::vector<Verdict> verdicts) {
  Verdict all;
  for (Verdict& verdict : verdicts) {
    for (Finding& finding : verdict.findings)
      add_finding(all.findings, std::move(finding));
    add_gaps(all.gaps, std::move(verdict.gaps));
    std::ranges::move(verdict.limits, std::back_inserter(all.limits));
    if (all.all_well.empty()) all.all_well = std::move(verdict.all_well);
    std::ranges::move(verdict.wait_graphs, std::back_inserter(all.wait_graphs));
    std::ranges::move(verdict.ranks, std::back_inserter(all.ranks));
  }
  order(all.findings);
  // Where the cause is known, what else might have been looked for does not matter.
  if (!all.findings.empty() && all.findings.front().severity == Severity::kError)
    all.limits.clear();
  return all;
}

}  // namespace dlprobe
