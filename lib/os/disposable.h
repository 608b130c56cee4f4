#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>

#include "lib/base/error.h"

namespace dlprobe {

/// What `job` gives, which a child of this process runs that nobody has to wait for: in a session
/// of its own, with nothing of ours open, so that one that is stuck in the kernel holds neither us
/// nor who reads our output. kTimeout after `limit`: it is sent SIGKILL, and goes when the kernel
/// lets it. An empty answer: it died. `job` must not start threads, nor need any of ours.
Expected<std::string> run_disposable(const std::string& what,
                                     const std::function<std::string()>& job,
                                     std::chrono::nanoseconds limit);

/// Waits for a child that is about to end. How it ended, as wait(2) encodes it.
int reap(pid_t child);

}  // namespace dlprobe
