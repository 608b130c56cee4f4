#pragma once

#include <memory>
#include <vector>

#include "lib/model/process.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Where the threads of a process are in the kernel, its main thread first, at most `limit` of
/// them, with the files that they wait on. May wait for the target's mmap lock: run it by
/// DeadlineReader.
Observed<std::vector<ThreadWait>> read_thread_waits(const ProcessAccess& processes,
                                                    const Directory& process, int32_t pid,
                                                    size_t limit);

}  // namespace dlprobe
