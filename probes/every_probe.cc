#include "probes/every_probe.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "probes/exits.h"
#include "probes/gate.h"
#include "probes/printed.h"
#include "probes/tune.h"

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

void order(std::vector<Finding>& findings) {
  const auto rank = [](const Finding& finding) {
    // A risk that others have left on the machine.
    const bool is_of_others = finding.severity == Severity::kWarning && finding.processes.empty();
    return std::tuple(-static_cast<int>(finding.severity), finding.consequence_of.has_value(),
                      is_of_others, -static_cast<int>(finding.confidence));
  };
  std::ranges::stable_sort(findings, {}, rank);
}

bool is_hang(const Finding& finding) {
  return finding.code == FindingCode::kBatchLostInWorker ||
         info(finding.code).code.starts_with("DLP03");
}

// A command that runs well has its open files counted, not compared.
void add_what_run_leaves_out(const Recording& recording, Verdict& verdict) {
  const bool never_looked = std::ranges::any_of(recording.runs, [](const Run& run) {
    return run.begin.looks_when_quiet && run.snapshots.empty();
  });
  const bool is_explained =
      !verdict.findings.empty() && verdict.findings.front().severity == Severity::kError;
  if (!never_looked || is_explained) return;
  verdict.limits.push_back(
      {.what = "files that several processes read by one position (DLP0205)",
       .why = "of a command that does not hang open files are counted, not compared",
       .effect = "samples that are mixed up by a handle shared over fork are not explained",
       .remedy = "dlprobe fd -- COMMAND"});
}

Verdict examine(const Recording& recording) {
  std::vector<Verdict> verdicts;
  for (const Probe* probe : all_probes())
    verdicts.push_back(probe->examine(recording));
  Verdict all = merge_verdicts(std::move(verdicts));
  Verdict exits = examine_exits(recording, all.findings);
  mark_hangs_after_deaths(all.findings, exits.findings);
  verdicts.clear();
  verdicts.push_back(std::move(all));
  verdicts.push_back(std::move(exits));
  all = merge_verdicts(std::move(verdicts));
  add_printed_lines(recording, all);
  add_what_run_leaves_out(recording, all);
  return all;
}

}  // namespace

void mark_hangs_after_deaths(std::span<Finding> hangs, std::span<const Finding> deaths) {
  for (Finding& hang : hangs) {
    if (!is_hang(hang) || hang.consequence_of) continue;
    const auto cause = std::ranges::find_if(deaths, [&](const Finding& death) {
      return death.severity == Severity::kError && death.runs == hang.runs &&
             death.first_seen <= hang.last_seen;
    });
    if (cause != deaths.end()) hang.consequence_of = cause->code;
  }
}

Verdict merge_verdicts(std::vector<Verdict> verdicts) {
  Verdict all;
  for (Verdict& verdict : verdicts) {
    for (Finding& finding : verdict.findings)
      add_finding(all.findings, std::move(finding));
    for (Gap& gap : verdict.gaps) {
      if (std::ranges::count(all.gaps, gap) == 0) all.gaps.push_back(std::move(gap));
    }
    std::ranges::move(verdict.limits, std::back_inserter(all.limits));
    std::ranges::move(verdict.wait_graphs, std::back_inserter(all.wait_graphs));
  }
  order(all.findings);
  // Where the cause is known, what else might have been looked for does not matter.
  if (!all.findings.empty() && all.findings.front().severity == Severity::kError)
    all.limits.clear();
  return all;
}

const Probe& every_probe() {
  static constexpr Probe kEvery = {.name = "attach",
                                   .summary = "every probe on a live process tree; a verdict",
                                   .examine = examine,
                                   .needs_snapshots = true};
  return kEvery;
}

const Probe& command_probe() {
  static constexpr Probe kRun = {.name = "run",
                                 .summary = "watch a command; report if it dies, hangs or leaks",
                                 .examine = examine,
                                 .needs_snapshots = true};
  return kRun;
}

const Probe* find_examiner(std::string_view name) {
  for (const Probe* probe : {&every_probe(), &command_probe(), &tune_probe(), &gate_probe()})
    if (name == probe->name) return probe;
  return find_probe(name);
}

}  // namespace dlprobe
