#pragma once

#include "lib/model/snapshot.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Fills in who has the ends of the pipes, and the locks of the files, that threads of `tree` wait
/// on. Looks at the processes of the tree; where nobody in it could end a wait, at every process
/// of the machine. Not for another pid namespace's /proc.
void find_channel_ends(const Machine& machine, TreeSnapshot& tree);

}  // namespace dlprobe
