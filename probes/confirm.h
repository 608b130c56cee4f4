#pragma once

#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"
#include "probes/probe.h"

namespace dlprobe {

/// The finding whose remedies are worth a try: the first, unless it is a mere hint; null if there
/// is none.
const Finding* finding_to_confirm(const Verdict& verdict);

/// What the remedies of `finding` set, each once, the cheapest to change for good first; at most
/// three.
std::vector<std::vector<Setting>> settings_to_try(const Finding& finding);

/// When the finding was there, counted from the beginning of its run, in seconds: a run without it
/// must have come further to prove anything.
double failed_after(const Finding& finding, const Run& first);

/// What one more run of the command, one of Recording::attempts, says about `finding`, which
/// `probe` saw in the run `first`: whether it came again, and if not, whether that proves anything.
/// It does only where what was to be set took effect, and where the command ended with exit code 0
/// or ran clearly longer than it took to fail at first.
AttemptAccount judge_attempt(const Run& attempt, const Recording& recording, const Probe& probe,
                             const Finding& finding);

/// The outcome for a remedy that sets `settings`. `without` holds the run in which the finding was
/// seen and those that were made as it was. It is confirmed only where the failure came again
/// without it, and never with it; where it does not come each time, chance must be an unlikely
/// account (Fisher's exact test, one-sided, 5 %).
Confirmation conclude_attempts(const std::vector<Setting>& settings, const Finding& finding,
                               std::vector<AttemptAccount> with_it,
                               std::vector<AttemptAccount> without);

/// `verdict`, which `probe` gave of `recording`, with the outcome of each remedy that was tried in
/// Recording::attempts.
Verdict with_confirmations(Verdict verdict, const Recording& recording, const Probe& probe);

}  // namespace dlprobe
