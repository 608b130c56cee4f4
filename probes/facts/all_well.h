#pragma once

#include <string>

#include "lib/model/recording_view.h"

namespace dlprobe {

/// "watched 5 processes for 3.0 s, 4 looks at their stacks".
std::string describe_looks(const RecordingView& recording);
/// "watched 5 processes for 3.0 s".
std::string describe_watch(const RecordingView& recording);
/// "/dev/shm held 12.0 MiB at its peak".
std::string describe_shm_peak(const RecordingView& recording);
/// "2 runs (31 samples)".
std::string describe_samples(const RecordingView& recording);

/// Whether the subject of each run came to its end by itself.
bool is_over(const RecordingView& recording);

/// What was seen where a probe has no words of its own for it.
std::string nothing_wrong(const RecordingView& recording);

/// `sentence`, which says that nothing was found, and what keeps it from being read as success: no
/// loader was seen, or the job failed for a reason of its own. `judges_ends`: why processes ended
/// was looked into.
std::string with_reservations(std::string sentence, const RecordingView& recording,
                              bool judges_ends);

}  // namespace dlprobe
