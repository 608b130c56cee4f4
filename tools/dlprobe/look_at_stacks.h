#pragma once

#include "lib/collect/snapshot/snapshot.h"
#include "lib/model/ids.h"
#include "lib/os/machine.h"
#include "reports/model/stacks.h"

namespace dlprobe {

/// Whose stacks are looked at.
enum class StacksOf { kTree, kProcess };

/// One look at the tree below `root`, or at `root` alone.
StacksLook look_at_stacks(const Machine& machine, const ProcessKey& root, StacksOf whose,
                          const SnapshotOptions& options);

}  // namespace dlprobe
