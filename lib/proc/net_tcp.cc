#include "lib/proc/net_tcp.h"

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {

Expected<std::vector<TcpSocket>> parse_net_tcp(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/net/tcp";
  constexpr size_t kFields = 10;  // sl local remote st queues timer retransmits uid timeout inode
  constexpr int kHexadecimal = 16;
  std::vector<TcpSocket> sockets;
  bool is_head = true;
  bool valid = text.ends_with('\n');
  for_each_line(text, [&](std::string_view line) {
    if (is_head) {
      is_head = false;
      return;
    }
    const auto fields = split_fields(line);
    const bool is_whole = fields.size() >= kFields;
    const auto state = is_whole ? parse_int<uint32_t>(fields[3], kHexadecimal) : std::nullopt;
    const auto inode = is_whole ? parse_int<uint64_t>(fields[kFields - 1]) : std::nullopt;
    valid = valid && state && inode;
    if (!state || !inode) return;
    sockets.push_back({.local = std::string(fields[1]),
                       .remote = std::string(fields[2]),
                       .state = *state,
                       .inode = *inode});
  });
  if (!valid) return malformed(kFile, "cut off, or a line that is no socket", text);
  return sockets;
}

}  // namespace dlprobe
