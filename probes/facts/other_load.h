#pragma once

#include <optional>

#include "lib/model/recording_view.h"

namespace dlprobe {

/// What the speeds of these runs are not: those of a machine that the loader has to itself. Of the
/// run that suffered most; nothing where CPUs were left over, or the job itself had them.
std::optional<Gap> gap_of_other_load(const RecordingView& recording);

}  // namespace dlprobe
