#pragma once

#include "lib/session/examination.h"

namespace dlprobe {

/// `--static`: reads the program of `request.command` with its own interpreter; the recording's one
/// run has what its text says, and the end "not-started". Refused where that is no Python program
/// that can be read.
Examination read_statically(const ExamineRequest& request, const Surroundings& surroundings);

}  // namespace dlprobe
