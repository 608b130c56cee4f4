#pragma once

#include "lib/collect/record_sink.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What /dev/shm looks like to dlprobe itself, and so to a child that it would start now: its
/// mount, its use, a whole ledger, and what could not be looked at.
void look_at_own_shm(const Machine& machine, RecordSink& sink);

}  // namespace dlprobe
