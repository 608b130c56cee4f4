#pragma once

#include <cstdint>
#include <string>

#include "lib/base/own_words.h"
#include "lib/model/ids.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What is to be watched when a user names one process.
struct ClimbResult {
  ProcessKey key;
  OwnWords reason;  ///< for a person: why this one and not the one that was named; never empty
};

/// From any process of a loader (a worker, its forkserver, a resource tracker, a shm manager) to
/// the trainer; any other process is itself the answer. Climbs only from what is by its own facts a
/// part of a loader (see roles.h), so never into a shell, a login, an init or a CI runner; but from
/// a rank of a distributed job (job_rank_of) to the launcher below which all of its ranks on this
/// machine are, unless that is the shell of a terminal or init. A helper that was orphaned is its
/// own answer. kVanished: no such process. kInvalid: a thread of the kernel.
Expected<ClimbResult> climb_to_trainer(const Machine& machine, int32_t pid);

}  // namespace dlprobe
