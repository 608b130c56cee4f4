#pragma once

#include <sys/types.h>

#include <string>

#include "lib/os/file_system.h"

namespace dlprobe {

/// Takes away the temporary folders that Python's processes of a trial made and did not live to
/// remove: what its shim wrote into the file `leftovers` of `folder`, as far as multiprocessing
/// names them (pymp-*) and this user owns them.
void remove_leftovers(const std::string& folder);

/// Whether that process is one of multiprocessing's resource trackers, which unlink the named
/// semaphores and segments of the others when those have ended, and then end by themselves.
bool is_resource_tracker(const Directory& proc, pid_t pid);

}  // namespace dlprobe
