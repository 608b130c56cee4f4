#pragma once

#include <string>
#include <vector>

#include "lib/session/examination.h"
#include "probes/probe.h"

namespace dlprobe {

/// Judges by a probe, and by the rules about trials and remedies.
class ProbeJudge final : public Judge {
 public:
  explicit ProbeJudge(const Probe& probe) : probe_(probe) {}

  Verdict examine(const RecordingView& recording) const override;
  bool is_stuck(const RecordingView& last_run) const override;
  std::string what_is_asked(const RecordingView& last_run) const override;
  std::optional<BootNs> in_vain_since(const Run& run) const override;
  std::string_view why_watch_longer(const RecordingView& last_run) const override;
  size_t allowed_processes(const Run& run) const override;
  size_t generations(const Run& run) const override;
  bool failed_by_itself(const Run& run) const override;
  bool wants_control(const RecordingView& recording) const override;
  std::string what_won_over(const Run& run, const Setting& setting) const override;
  bool is_worth_a_try(const Finding& finding) const override;
  std::vector<PlannedAttempt> plan_attempts(const Verdict& verdict) const override;
  bool seems_to_help(const PlannedAttempt& planned, const Run& attempt, const Verdict& verdict,
                     const Recording& recording) const override;

 private:
  const Probe& probe_;
};

/// A request that has what the probe wants to see; all else is the caller's to set.
ExamineRequest request_for(const Probe& probe, std::vector<std::string> arguments);

}  // namespace dlprobe
