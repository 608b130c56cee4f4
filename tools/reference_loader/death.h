#pragma once

#include <sys/types.h>

#include <chrono>

#include "lib/base/error.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {

/// Before a worker ends: by then whoever watches has seen which process is a worker. A real one
/// seldom ends in the tenth of a second in which it has started.
inline constexpr std::chrono::milliseconds kTimeToBeKnown{400};

/// What a worker does in its first batch from FaultEffects::after on, if it is the one and is
/// to end of itself (Death): it crashes, exits, or takes memory until the kernel ends
/// it. Returns where that did not happen: an error if nobody wants its memory back, else nothing.
Status die_in_worker(const FaultEffects& effects);

/// Has another process, neither the main process nor a worker, send `signal` to process `pid`;
/// returns when it is sent. Returns the pid of the sender, which is gone by then.
Expected<pid_t> have_another_process_kill(pid_t pid, int signal);

}  // namespace dlprobe::loader
