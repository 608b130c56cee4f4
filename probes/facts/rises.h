#pragma once

#include "lib/model/recording.h"

namespace dlprobe {

/// Whether descriptors, mappings, threads, memory, processes or named files of the run have risen
/// in each third of a watch of seconds. A cache that fills does so, too: it is a reason to watch
/// for longer, and nothing else. Files are the machine's: they count while the job runs in the
/// kernel.
bool rises(const Run& run);

}  // namespace dlprobe
