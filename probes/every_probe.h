#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "probes/probe.h"

namespace dlprobe {

/// What several probes say of one recording, put together: errors first, of these causes before
/// their consequences, what others have left on the machine last, and the surer ones before the
/// rest; what two probes say alike is said once.
Verdict merge_verdicts(std::vector<Verdict> verdicts);

/// Who waits for a process that was killed, or for what it held, waits for ever: of such findings
/// in the same run, seen after it, the death is the cause.
void mark_hangs_after_deaths(std::span<Finding> hangs, std::span<const Finding> deaths);

/// All probes at once, under the name of the subcommand, "attach".
const Probe& every_probe();

/// The same of a command that dlprobe starts and watches to its end: "run".
const Probe& command_probe();

/// The probe, every_probe(), command_probe() or tune_probe(), of the name that a recording has;
/// null if there is none.
const Probe* find_examiner(std::string_view name);

}  // namespace dlprobe
