#pragma once

#include <sys/types.h>

#include "lib/collect/tree/record_sink.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What /dev/shm looks like to process `pid`, and to a child that it would start now: its mount,
/// its use, a whole ledger, and what could not be looked at. `pid` is dlprobe itself, or a child
/// that has not become the command yet.
void look_at_shm_of(pid_t pid, const Machine& machine, RecordSink& sink);

}  // namespace dlprobe
