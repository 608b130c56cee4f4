#include "lib/proc/net_tcp.h"

#include <arpa/inet.h>

#include <array>
#include <optional>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr int kHexadecimal = 16;

}  // namespace

Expected<std::vector<TcpSocket>> parse_net_tcp(std::string_view text) {
  constexpr std::string_view kFile = "/proc/PID/net/tcp";
  constexpr size_t kFields = 10;  // sl local remote st queues timer retransmits uid timeout inode
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

std::string text_of_address(std::string_view hexadecimal) {
  constexpr size_t kDigits = 8;  // of four bytes
  constexpr std::string_view kMapped = "::ffff:";
  const size_t colon = hexadecimal.find(':');
  const auto port = colon == std::string_view::npos
                        ? std::nullopt
                        : parse_int<uint16_t>(hexadecimal.substr(colon + 1), kHexadecimal);
  const bool is_v4 = colon == kDigits;
  if (!port || (!is_v4 && colon != 4 * kDigits)) return "";
  std::array<uint32_t, 4> words = {};
  for (size_t i = 0; i * kDigits < colon; ++i) {
    const auto word = parse_int<uint32_t>(hexadecimal.substr(i * kDigits, kDigits), kHexadecimal);
    if (!word) return "";
    words.at(i) = *word;
  }
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (inet_ntop(is_v4 ? AF_INET : AF_INET6, words.data(), text.data(), text.size()) == nullptr)
    return "";
  std::string address = text.data();
  if (address.starts_with(kMapped) && address.contains('.')) address.erase(0, kMapped.size());
  if (address.contains(':')) address = "[" + address + "]";
  return address + ":" + std::to_string(*port);
}

}  // namespace dlprobe
