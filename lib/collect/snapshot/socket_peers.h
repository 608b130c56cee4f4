#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/recording.h"
#include "lib/model/snapshot.h"
#include "lib/os/machine.h"
#include "lib/proc/net_tcp.h"

namespace dlprobe {

/// The TCP sockets of the network namespace of a process, as far as its tables can be read.
std::vector<TcpSocket> tcp_sockets_of(const Machine& machine, int32_t pid);

/// Fills in which socket is at the other end of those that threads of `tree` wait on: UNIX sockets
/// from the kernel's table, TCP ones to the same machine from /proc/PID/net. One look for each
/// network namespace, and none where nobody waits on a socket. What could not be asked is a gap.
void find_socket_peers(const Machine& machine, TreeSnapshot& tree, std::vector<Gap>& gaps);

}  // namespace dlprobe
