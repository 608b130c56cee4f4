#pragma once

#include <string_view>

#include "probes/probe.h"

namespace dlprobe {

/// All probes at once, under the name of the subcommand, "attach". Errors come first, the surer
/// ones before the others, causes before their consequences; what two probes say alike is said
/// once.
const Probe& every_probe();

/// The probe, or every_probe(), of the name that a recording has; null if there is none.
const Probe* find_examiner(std::string_view name);

}  // namespace dlprobe
