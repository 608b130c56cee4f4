#pragma once

#include <string_view>
#include <vector>

#include "probes/probe.h"

namespace dlprobe {

/// What several probes say of one recording, put together: errors first, of these causes before
/// their consequences and the surer ones before the others; what two probes say alike is said once.
Verdict merge_verdicts(std::vector<Verdict> verdicts);

/// All probes at once, under the name of the subcommand, "attach".
const Probe& every_probe();

/// The probe, or every_probe(), of the name that a recording has; null if there is none.
const Probe* find_examiner(std::string_view name);

}  // namespace dlprobe
