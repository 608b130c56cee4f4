#include "lib/collect/snapshot/socket_peers.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace dlprobe {
namespace {

/// The sockets of one network namespace, as far as somebody waits on them.
// UDP's tables have the columns of TCP's.
std::vector<TcpSocket> sockets_in(const Machine& machine, int32_t pid,
                                  std::initializer_list<const char*> tables) {
  constexpr size_t kTableLimit = size_t{16} << 20;
  std::vector<TcpSocket> sockets;
  for (const char* name : tables) {
    const std::string path = "proc/" + std::to_string(pid) + "/net/" + name;
    auto table = chain(machine.root->read(path, kTableLimit), parse_net_tcp);
    if (!table) continue;  // not every kernel has IPv6
    std::ranges::move(*table, std::back_inserter(sockets));
  }
  return sockets;
}

class SocketPeers {
 public:
  SocketPeers(const Machine& machine, int32_t pid) : machine_(machine), pid_(pid) {}

  void complete(WaitedFile& file) {
    if (!std::exchange(unix_was_read_, true)) read_unix();
    if (const auto found = unix_.find(file.inode); found != unix_.end()) {
      put(found->second, file);
      return;
    }
    if (!std::exchange(tcp_was_read_, true)) read_tcp();
    if (const auto found = tcp_.find(file.inode); found != tcp_.end()) put(found->second, file);
  }

  const std::optional<Error>& error() const { return error_; }

 private:
  struct Peer {
    uint64_t inode = 0;
    bool listens = false;
    bool connects = false;
    std::string remote;  ///< of TCP and connected UDP: its address and port
  };
  using Peers = std::map<uint64_t, Peer>;

  static void put(const Peer& peer, WaitedFile& file) {
    file.peer = peer.inode;
    if (peer.listens) file.kind = FileKind::kListeningSocket;
    if (peer.connects) file.kind = FileKind::kConnectingSocket;
    file.path = peer.remote;
  }

  void read_unix() {
    if (machine_.sockets == nullptr) return;
    const auto sockets = machine_.sockets->unix_sockets(pid_);
    if (!sockets) {
      error_ = sockets.error();
      return;
    }
    for (const UnixSocket& socket : *sockets) {
      Peer& peer = unix_[socket.inode];
      peer.listens = socket.listens;
      if (socket.peer != 0) peer.inode = socket.peer;
      // Whoever accepts it will be its peer.
      for (const uint64_t client : socket.waiting_clients)
        unix_[client].inode = socket.inode;
    }
  }

  void read_tcp() {
    std::vector<TcpSocket> sockets = tcp_sockets_of(machine_, pid_);
    std::map<std::pair<std::string, std::string>, uint64_t> by_ends;
    std::map<std::string, uint64_t> listening;
    for (TcpSocket& each : sockets) {
      each.local = without_mapping(each.local);
      each.remote = without_mapping(each.remote);
      by_ends[{each.local, each.remote}] = each.inode;
      if (each.state == TCP_LISTEN) listening[each.local] = each.inode;
    }
    for (const TcpSocket& each : sockets) {
      Peer& found = tcp_[each.inode];
      found = {.listens = each.state == TCP_LISTEN, .connects = each.state == TCP_SYN_SENT};
      if (!found.listens) found.remote = text_of_address(each.remote);
      const auto peer = by_ends.find({each.remote, each.local});
      const bool is_here = each.state == TCP_ESTABLISHED && peer != by_ends.end();
      if (is_here) found.inode = peer->second;
      // Whoever accepts it will be its peer.
      const bool to_itself = found.connects && address_of(each.local) == address_of(each.remote);
      const bool waits_for_accept = (is_here && found.inode == 0) || to_itself;
      if (waits_for_accept) found.inode = listener_at(each.remote, listening);
    }
    for (const TcpSocket& each : sockets_in(machine_, pid_, {"udp", "udp6"}))
      if (each.state == TCP_ESTABLISHED)
        tcp_[each.inode].remote = text_of_address(without_mapping(each.remote));
  }

  // Of IPv4 in a socket of IPv6 ("::ffff:127.0.0.1") the IPv4 alone, as its client has it.
  static std::string without_mapping(const std::string& address) {
    constexpr std::string_view kMapped = "0000000000000000FFFF0000";
    return address.starts_with(kMapped) ? address.substr(kMapped.size()) : address;
  }

  static std::string_view address_of(std::string_view end) { return end.substr(0, end.find(':')); }

  // 0: none.
  static uint64_t listener_at(const std::string& end,
                              const std::map<std::string, uint64_t>& listening) {
    const std::string port = end.substr(end.find(':'));
    for (const std::string& each :
         {end, std::string(8, '0') + port, std::string(32, '0') + port}) {  // 0.0.0.0, ::
      if (const auto found = listening.find(each); found != listening.end()) return found->second;
    }
    return 0;
  }

  const Machine& machine_;
  int32_t pid_;
  Peers unix_;
  Peers tcp_;
  bool unix_was_read_ = false;
  bool tcp_was_read_ = false;
  std::optional<Error> error_;
};

std::string network_of(const Machine& machine, int32_t pid) {
  return machine.root->read_link("proc/" + std::to_string(pid) + "/ns/net").value_or("");
}

}  // namespace

std::vector<TcpSocket> tcp_sockets_of(const Machine& machine, int32_t pid) {
  return sockets_in(machine, pid, {"tcp", "tcp6"});
}

void find_socket_peers(const Machine& machine, TreeSnapshot& tree, std::vector<Gap>& gaps) {
  std::map<std::string, SocketPeers> spaces;
  for (ProcessSnapshot& process : tree.processes) {
    SocketPeers* peers = nullptr;
    for (ThreadSnapshot& thread : process.threads) {
      for (WaitedFile& file : thread.wait.files) {
        if (file.kind != FileKind::kSocket) continue;
        if (peers == nullptr) {
          const std::string space = network_of(machine, process.key.pid);
          peers = &spaces.try_emplace(space, machine, process.key.pid).first->second;
        }
        peers->complete(file);
      }
    }
  }
  for (const auto& [space, peers] : spaces) {
    const std::optional<Error>& error = peers.error();
    if (!error) continue;
    gaps.push_back({.what = "other ends of UNIX sockets",
                    .why = as_text(to_string(*error)),
                    .effect = "dlprobe cannot tell who should answer on them",
                    .remedy = error->code == ErrorCode::kForbidden
                                  ? "run dlprobe as root, or in the network namespace of the job"
                                  : ""});
    return;
  }
}

}  // namespace dlprobe
