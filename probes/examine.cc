// How probes are asked: each run by itself, then all together, then what that says of others.

#include <algorithm>
#include <cassert>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "probes/facts/all_well.h"
#include "probes/facts/facts.h"
#include "probes/facts/other_load.h"
#include "probes/merge.h"
#include "probes/probe.h"

namespace dlprobe {
namespace {

using Probes = std::vector<const Probe*>;

Probes probes_of_use(ProbeUse use) {
  Probes found;
  std::ranges::copy_if(all_probes(), std::back_inserter(found),
                       [use](const Probe* probe) { return probe->use == use; });
  return found;
}

// What one run told becomes a part of what all of them tell.
void add_run(Verdict& all, Verdict of_run, int index, bool is_kept_apart) {
  for (Finding& finding : of_run.findings) {
    finding.runs = {index};
    if (is_kept_apart) {
      all.findings.push_back(std::move(finding));
    } else {
      merge_finding(all.findings, std::move(finding));
    }
  }
  for (WaitGraph& graph : of_run.wait_graphs) {
    graph.run = index;
    all.wait_graphs.push_back(std::move(graph));
  }
  // Of several runs the last one counts.
  if (!of_run.ranks.empty()) all.ranks = std::move(of_run.ranks);
  add_gaps(all.gaps, std::move(of_run.gaps));
  add_gaps(all.limits, std::move(of_run.limits));
  if (all.all_well.empty()) all.all_well = std::move(of_run.all_well);
}

Gap gap_of_no_run() {
  return {.what = "the subject",
          .why = "the recording holds no run",
          .effect = "dlprobe cannot tell anything"};
}

/// Whether the findings say why a run ended as it did: of a standstill a warning does, too.
bool explains_end(const Run& run, std::span<const Finding> findings) {
  const Severity least = was_ended_by_dlprobe(run) ? Severity::kWarning : Severity::kError;
  return std::ranges::any_of(findings,
                             [least](const Finding& finding) { return finding.severity >= least; });
}

/// What is said to a probe beside the recording.
struct Asked {
  bool alone = true;
  std::span<const Finding> known;
};

Verdict ask(const Probe& probe, const RecordingView& recording, const Asked& asked) {
  Verdict verdict;
  if (probe.examine_run != nullptr && recording.runs.empty())
    verdict.gaps.push_back(gap_of_no_run());
  for (size_t index = 0; probe.examine_run != nullptr && index < recording.runs.size(); ++index) {
    const RunCase run = {.recording = recording,
                         .run = recording.runs[index],
                         .index = static_cast<int>(index),
                         .known = asked.known,
                         .is_asked_alone = asked.alone};
    Verdict of_run = probe.examine_run(run);
    // A loader that failed for no cause that is known is not one in which nothing was wrong.
    if (probe.use == ProbeUse::kSubject && !explains_end(run.run, of_run.findings)) {
      if (auto gap = gap_of_failed_loader(run.run)) of_run.gaps.push_back(std::move(*gap));
    }
    add_run(verdict, std::move(of_run), run.index, probe.keeps_runs_apart);
  }
  if (probe.conclude != nullptr && probe.use != ProbeUse::kAll) probe.conclude(recording, verdict);
  // Worse first; of equal ones a cause before its consequence.
  std::ranges::stable_sort(verdict.findings, [](const Finding& a, const Finding& b) {
    if (a.severity != b.severity) return a.severity > b.severity;
    return !a.consequence_of && b.consequence_of;
  });
  return verdict;
}

// All that have a part in what `probe` says, itself first.
Probes parts_of(const Probe& probe) {
  Probes parts = {&probe};
  if (probe.use == ProbeUse::kAll)
    std::ranges::copy(probes_of_use(ProbeUse::kSubject), std::back_inserter(parts));
  if (probe.judges_ends)
    std::ranges::copy(probes_of_use(ProbeUse::kEnds), std::back_inserter(parts));
  return parts;
}

Verdict ask_all(const RecordingView& recording) {
  std::vector<Verdict> verdicts;
  for (const Probe* part : probes_of_use(ProbeUse::kSubject))
    verdicts.push_back(ask(*part, recording, {.alone = false}));
  return merge_verdicts(std::move(verdicts));
}

Verdict with_ends(const RecordingView& recording, Verdict so_far) {
  const std::vector<Finding> known = so_far.findings;
  // What a process could not make again it will not answer.
  std::vector<Finding> of_starts;
  std::ranges::copy_if(known, std::back_inserter(of_starts), [](const Finding& finding) {
    return info(finding.code).code.starts_with("DLP04");
  });
  mark_hangs_after_deaths(so_far.findings, of_starts);
  std::vector<Verdict> verdicts;
  for (const Probe* ends : probes_of_use(ProbeUse::kEnds)) {
    verdicts.push_back(ask(*ends, recording, {.alone = false, .known = known}));
    mark_hangs_after_deaths(so_far.findings, verdicts.back().findings);
    mark_what_comes_with_tasks(so_far.findings, verdicts.back().findings);
    mark_limits_of_leaks(so_far.findings, verdicts.back().findings);
  }
  verdicts.insert(verdicts.begin(), std::move(so_far));
  return merge_verdicts(std::move(verdicts));
}

/// Whether it is the examination of `run` and `attach` seen from one side: what it fails on is its
/// own, what it knows is all. Of a trial only who tried knows what was wanted.
bool is_view(const Probe& probe, const RecordingView& recording) {
  return probe.use == ProbeUse::kSubject &&
         std::ranges::none_of(recording.runs,
                              [](const Run& run) { return run.begin.trial.has_value(); });
}

/// Whether it declares the cause, or judges the ends and one of those who do declares it.
bool is_own(const Probe& probe, const Finding& finding) {
  return std::ranges::any_of(parts_of(probe), [&](const Probe* part) {
    return std::ranges::count(part->causes, finding.code, &Cause::code) > 0;
  });
}

/// What the others find is worth knowing, and nothing that `probe` fails on. What they could not
/// see does not matter to it.
Verdict ask_from_one_side(const Probe& probe, const RecordingView& recording) {
  std::vector<Verdict> verdicts = {ask(probe, recording, {})};
  for (const Probe* other : probes_of_use(ProbeUse::kSubject)) {
    if (other == &probe) continue;
    Verdict told = ask(*other, recording, {.alone = false});
    std::erase_if(told.findings,
                  [](const Finding& finding) { return finding.severity == Severity::kInfo; });
    if (told.findings.empty()) continue;
    verdicts.push_back(
        {.findings = std::move(told.findings), .wait_graphs = std::move(told.wait_graphs)});
  }
  Verdict verdict = merge_verdicts(std::move(verdicts));
  Verdict all = with_ends(recording, verdict);
  if (probe.judges_ends) return all;
  verdict.findings = std::move(all.findings);
  return verdict;
}

/// How bad it is for the job what the others found is not for this report to judge. Returns the
/// worst of it in words; empty: nothing.
Message set_others_aside(const Probe& probe, Verdict& verdict) {
  const Finding* worst = nullptr;
  for (Finding& finding : verdict.findings) {
    if (is_own(probe, finding) || finding.severity == Severity::kInfo) continue;
    finding.severity = Severity::kInfo;
    if (worst == nullptr) worst = &finding;
  }
  if (worst == nullptr) return "";
  const FindingInfo& known = info(worst->code);
  Message words = say("{} {}: ", own(known.code), own(known.name)) + worst->message;
  std::ranges::stable_sort(verdict.findings, std::ranges::greater(), &Finding::severity);
  return words;
}

void add_cause(std::vector<LookedFor>& all, LookedFor cause) {
  const auto same = std::ranges::find(all, cause.code, &LookedFor::code);
  if (same == all.end()) {
    all.push_back(std::move(cause));
  } else if (cause.was_seen && !same->was_seen) {
    *same = std::move(cause);
  }
}

void add_table(std::vector<ReportTable>& all, std::optional<ReportTable> table) {
  if (table && std::ranges::count(all, *table) == 0) all.push_back(*table);
}

}  // namespace

Verdict Probe::examine(const RecordingView& recording) const {
  Verdict verdict;
  Message beside;
  if (is_view(*this, recording)) {
    verdict = ask_from_one_side(*this, recording);
    beside = set_others_aside(*this, verdict);
  } else {
    verdict = use == ProbeUse::kAll ? ask_all(recording) : ask(*this, recording, {});
    if (judges_ends) verdict = with_ends(recording, std::move(verdict));
    if (use == ProbeUse::kAll && conclude != nullptr) conclude(recording, verdict);
    // What it does not declare would be told of as if it had not looked for it.
    assert(std::ranges::all_of(verdict.findings,
                               [&](const Finding& finding) { return is_own(*this, finding); }));
  }
  const bool is_about_speed =
      measures_speed || std::ranges::any_of(verdict.findings, [](const Finding& finding) {
        return finding.code == FindingCode::kSlowSample ||
               finding.code == FindingCode::kSlowestRank;
      });
  if (is_about_speed) {
    if (auto gap = gap_of_other_load(recording)) verdict.limits.push_back(std::move(*gap));
  }
  declare(recording, verdict);
  if (!beside.empty()) verdict.all_well += ". Found beside: " + beside;
  return verdict;
}

void Probe::declare(const RecordingView& recording, Verdict& verdict) const {
  add_table(verdict.tables, table);
  for (const Probe* part : parts_of(*this)) {
    const bool applies = part->applies_to == nullptr || part->applies_to(recording);
    for (const Cause& cause : part->causes) {
      if (applies) {
        add_cause(verdict.looked_for,
                  {.code = cause.code,
                   .probe = std::string(use == ProbeUse::kAll ? part->name : name),
                   .was_seen = cause.was_visible(recording)});
      }
      if (std::ranges::count(verdict.findings, cause.code, &Finding::code) > 0)
        add_table(verdict.tables, cause.table);
    }
  }
  std::ranges::sort(verdict.tables);
  const auto words = all_well != nullptr ? all_well : nothing_wrong;
  if (verdict.all_well.empty()) verdict.all_well = words(recording);
  const auto looked_for = [&](FindingCode code) {
    return std::ranges::count(verdict.looked_for, code, &LookedFor::code) > 0;
  };
  verdict.all_well += growth_out_of_sight(recording, looked_for(FindingCode::kWorkerMemoryLeak),
                                          looked_for(FindingCode::kFdLeakInWorker));
  verdict.all_well = with_reservations(std::move(verdict.all_well), recording, judges_ends);
}

}  // namespace dlprobe
