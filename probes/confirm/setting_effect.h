#pragma once

#include "lib/base/message.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"

namespace dlprobe::probes::confirm {

/// What the program did otherwise than `setting`, which it was run with, asks for, as a sentence;
/// empty: nothing shows that it did.
Message what_won_over(const Run& run, const Setting& setting);

/// Why what was to be set for `attempt`, one of Recording::attempts, did not all take effect, as a
/// sentence; empty: it did. What the kernel sees to (limits, /dev/shm, the environment) does,
/// unless the command line itself sets it anew.
Message why_not_set(const Run& attempt);

}  // namespace dlprobe::probes::confirm
