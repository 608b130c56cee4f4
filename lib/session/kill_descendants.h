#pragma once

#include <cstddef>

#include "lib/os/machine.h"
#include "lib/session/process_control.h"

namespace dlprobe {

/// Kills all processes that descend from dlprobe, which adopts the orphans of what it starts. They
/// are stopped first, from the oldest on, until none is found that was not stopped: nobody can
/// start another one meanwhile. multiprocessing's resource trackers are spared: they take away the
/// semaphores of the others, and end by themselves. Returns how many were killed; it does not reap
/// them.
size_t kill_descendants(ProcessControl& control, const Machine& machine);

}  // namespace dlprobe
