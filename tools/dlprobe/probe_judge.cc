#include "tools/dlprobe/probe_judge.h"

#include <algorithm>
#include <utility>

#include "probes/confirm/probe.h"
#include "probes/confirm/setting_effect.h"
#include "probes/deadlock/may_be_stuck.h"
#include "probes/facts/rises.h"
#include "probes/facts/shared_handles.h"
#include "probes/facts/starts.h"
#include "probes/facts/vain_starts.h"
#include "probes/spawn/trial.h"

namespace dlprobe {

Verdict ProbeJudge::examine(const RecordingView& recording) const {
  return probe_.examine(recording);
}

bool ProbeJudge::is_stuck(const RecordingView& last_run) const {
  const Verdict verdict = probes::deadlock::kProbe.examine(last_run);
  return std::ranges::any_of(verdict.findings, [](const Finding& finding) {
    return finding.severity >= Severity::kWarning;
  });
}

std::string ProbeJudge::what_is_asked(const RecordingView& last_run) const {
  return probes::deadlock::what_is_asked(last_run).plain();
}

std::optional<BootNs> ProbeJudge::in_vain_since(const Run& run) const {
  return dlprobe::in_vain_since(run);
}

std::string_view ProbeJudge::why_watch_longer(const RecordingView& last_run) const {
  if (std::ranges::any_of(last_run.runs, [](const Run& run) { return rises(run); }))
    return "something rises";
  const bool may_share = std::ranges::any_of(last_run.runs, [&](const Run& run) {
    return may_share_handles(run, last_run.header.host.machine);
  });
  if (may_share) return "a file is read by a position that processes share";
  return probes::deadlock::may_be_stuck(last_run) ? "something stands still" : "";
}

size_t ProbeJudge::allowed_processes(const Run& run) const {
  return dlprobe::allowed_processes(run);
}

size_t ProbeJudge::generations(const Run& run) const {
  return deepest_descent(run).chain.size();
}

bool ProbeJudge::failed_by_itself(const Run& run) const {
  return probes::spawn::failed_by_itself(run);
}

bool ProbeJudge::wants_control(const RecordingView& recording) const {
  return probes::spawn::wants_control(recording);
}

std::string ProbeJudge::what_won_over(const Run& run, const Setting& setting) const {
  return probes::confirm::what_won_over(run, setting).plain();
}

bool ProbeJudge::is_worth_a_try(const Finding& finding) const {
  return probes::confirm::is_worth_a_try(finding);
}

std::vector<PlannedAttempt> ProbeJudge::plan_attempts(const Verdict& verdict) const {
  return probes::confirm::plan_attempts(verdict);
}

bool ProbeJudge::seems_to_help(const PlannedAttempt& planned, const Run& attempt,
                               const Verdict& verdict, const Recording& recording) const {
  const Verdict seen = probes::confirm::verdict_of_attempt(attempt, recording, probe_);
  return std::ranges::any_of(planned.findings, [&](size_t index) {
    return probes::confirm::judge_attempt(attempt, seen, recording, verdict,
                                          verdict.findings.at(index))
        .has_ended_well;
  });
}

ExamineRequest request_for(const Probe& probe, std::vector<std::string> arguments) {
  return {.probe = std::string(probe.name),
          .looks = {.snapshots = probe.needs_snapshots,
                    .shared_files = probe.needs_shared_files,
                    .containers = probe.needs_containers},
          .arguments = std::move(arguments)};
}

}  // namespace dlprobe
