#pragma once

#include <string>

#include "lib/os/machine.h"

namespace dlprobe {

/// The file of a cgroup, v1 or v2, which says that the processes in it are frozen, of the process
/// whose /proc directory is `process`; empty: none says so.
std::string frozen_by(const Machine& machine, const Directory& process);

}  // namespace dlprobe
