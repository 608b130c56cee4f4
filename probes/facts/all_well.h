#pragma once

#include "lib/base/message.h"
#include "lib/model/recording_view.h"

namespace dlprobe {

/// "watched 5 processes for 3.0 s, 4 looks at their stacks".
OwnWords describe_looks(const RecordingView& recording);
/// "watched 5 processes for 3.0 s".
OwnWords describe_watch(const RecordingView& recording);
/// "/dev/shm held 12.0 MiB at its peak".
OwnWords describe_shm_peak(const RecordingView& recording);
/// "2 runs (31 samples)".
OwnWords describe_samples(const RecordingView& recording);

/// How slow a growth may be and not show in so short a watch: of memory, else of descriptors, if
/// the probe looked for these; nothing of a subject that is over.
OwnWords growth_out_of_sight(const RecordingView& recording, bool of_memory, bool of_descriptors);

/// Whether the subject of each run came to its end by itself.
bool is_over(const RecordingView& recording);

/// What was seen where a probe has no words of its own for it.
Message nothing_wrong(const RecordingView& recording);

/// `sentence`, which says that nothing was found, and what keeps it from being read as success: no
/// loader was seen, or the job failed for a reason of its own. `judges_ends`: why processes ended
/// was looked into.
Message with_reservations(Message sentence, const RecordingView& recording, bool judges_ends);

}  // namespace dlprobe
