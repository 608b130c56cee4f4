#pragma once

#include <vector>

#include "lib/model/recording.h"
#include "lib/model/snapshot.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Fills in which socket is at the other end of those that threads of `tree` wait on: UNIX sockets
/// from the kernel's table, TCP ones to the same machine from /proc/PID/net. One look for each
/// network namespace, and none where nobody waits on a socket. What could not be asked is a gap.
void find_socket_peers(const Machine& machine, TreeSnapshot& tree, std::vector<Gap>& gaps);

}  // namespace dlprobe
