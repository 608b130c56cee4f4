#pragma once

#include "lib/os/machine.h"
#include "reports/doctor.h"

namespace dlprobe {

/// Tries each thing that dlprobe may want to do, on processes, cgroups and namespaces of its own
/// making, and undoes it; reads who dlprobe is. Nothing of anybody else is touched. `loader` is the
/// path that DLPROBE_REFERENCE_LOADER names, or empty.
report::Doctor look_at_abilities(const Machine& machine, const std::string& loader);

}  // namespace dlprobe
