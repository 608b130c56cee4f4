#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A UNIX socket as the kernel's table has it (linux/unix_diag.h).
struct UnixSocket {
  uint64_t inode = 0;
  uint64_t peer = 0;  ///< inode of the socket at its other end; 0: none, or not accepted yet
  /// Of a listening one: inodes of the clients that wait to be accepted.
  std::vector<uint64_t> waiting_clients;
  bool listens = false;

  bool operator==(const UnixSocket&) const = default;
};

/// Adds the sockets of one datagram of the kernel's answer to a dump of UNIX sockets (netlink(7),
/// sock_diag(7)); what is cut off is left out. True: it was the last one. The kernel's error where
/// it holds one.
Expected<bool> parse_unix_sockets(std::span<const std::byte> bytes,
                                  std::vector<UnixSocket>& sockets);

/// What only a live kernel tells about sockets. The base class says kUnsupported: a recorded
/// machine.
class SocketTable {
 public:
  virtual ~SocketTable() = default;
  SocketTable() = default;
  SocketTable(const SocketTable&) = delete;
  SocketTable& operator=(const SocketTable&) = delete;

  /// All UNIX sockets of the network namespace of process `pid`, in no order. kForbidden: that is
  /// another one than dlprobe's, and CAP_SYS_ADMIN is missing to ask there.
  virtual Expected<std::vector<UnixSocket>> unix_sockets(pid_t pid) const;
};

/// The live machine's: one dump by NETLINK_SOCK_DIAG (sock_diag(7)).
class SystemSocketTable final : public SocketTable {
 public:
  Expected<std::vector<UnixSocket>> unix_sockets(pid_t pid) const override;
};

}  // namespace dlprobe
