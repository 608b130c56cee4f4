#pragma once

#include <vector>

#include "lib/model/finding.h"
#include "lib/model/planned_attempt.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"
#include "probes/probe.h"

namespace dlprobe::probes::confirm {

/// A finding whose remedies are worth a try: it is more than a hint.
bool is_worth_a_try(const Finding& finding);

/// What is to be tried: what the remedies of all findings that are more than hints set, each once,
/// the first finding's before the second's, and of each the cheapest to change for good before the
/// others; at most six.
std::vector<PlannedAttempt> plan_attempts(const Verdict& verdict);

/// When the finding was there, counted from the beginning of its run, in seconds: a run without it
/// must have come further to prove anything.
double failed_after(const Finding& finding, const Run& first);

/// What `probe` says of one of Recording::attempts, which are no part of its own verdict.
Verdict verdict_of_attempt(const Run& attempt, const Recording& recording, const Probe& probe);

/// What an attempt, of which the probe says `seen`, tells about `finding`, one of `verdict`, which
/// is of `recording`: whether it came again, and if not, whether that proves anything. It does only
/// where what was to be set took effect, where nothing else failed, and where the command ended
/// with exit code 0 or ran, and moved, clearly longer than it took to fail at first.
AttemptAccount judge_attempt(const Run& attempt, const Verdict& seen, const Recording& recording,
                             const Verdict& verdict, const Finding& finding);

/// The outcome for a remedy that sets `settings`. `without` holds the run in which the finding was
/// seen and those that were made as it was. It is confirmed only where the failure came again
/// without it, and never with it; where it does not come each time, chance must be an unlikely
/// account (Fisher's exact test, one-sided, 5 %).
Confirmation conclude_attempts(const std::vector<Setting>& settings, const Finding& finding,
                               std::vector<AttemptAccount> with_it,
                               std::vector<AttemptAccount> without);

/// `verdict`, which `probe` gave of `recording`, with the outcome of each remedy that could be
/// tried. Nothing is said where nothing was (Recording::attempts is empty).
Verdict with_confirmations(Verdict verdict, const Recording& recording, const Probe& probe);

}  // namespace dlprobe::probes::confirm
