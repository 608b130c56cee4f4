#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A line of /proc/PID/net/tcp or tcp6.
struct TcpSocket {
  std::string local;   ///< address and port as the file has them: "0100007F:1F90"
  std::string remote;  ///< as `local`
  uint32_t state = 0;  ///< TCP_ESTABLISHED (1), TCP_LISTEN (10) ... of netinet/tcp.h
  uint64_t inode = 0;  ///< 0: no process has it any more

  bool operator==(const TcpSocket&) const = default;
};

/// proc_net_tcp of the kernel's Documentation/networking: tcp and tcp6 differ in the length of
/// their addresses only.
Expected<std::vector<TcpSocket>> parse_net_tcp(std::string_view text);

/// "127.0.0.1:8080" of "0100007F:1F90", "[::1]:8080" of IPv6; the kernel writes each four bytes as
/// one number of its own byte order. Empty if it is no such text.
std::string text_of_address(std::string_view hexadecimal);

}  // namespace dlprobe
