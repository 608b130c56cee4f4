#pragma once

#include <memory>
#include <set>
#include <string>

#include "lib/base/error.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

using NameSet = std::set<std::string, std::less<>>;

/// Whether the process is a resource tracker of Python's multiprocessing.
bool tracks_resources(DeadlineReader& reader, const std::shared_ptr<const Directory>& process);

/// Which of these files of /dev/shm a resource tracker knows: each Python process tells its tracker
/// what it makes or opens, and the tracker removes what is left at their end. So it tells whose a
/// file is that nobody has open. Its list lies in its memory as strings "/NAME" (CPython 3.8 to
/// 3.14: the sets in _CACHE of resource_tracker.main()); pages that are not in memory are left out.
Expected<NameSet> names_tracked(DeadlineReader& reader, const Machine& machine,
                                const std::shared_ptr<const Directory>& process, int32_t pid,
                                NameSet names);

}  // namespace dlprobe
