#include "lib/collect/snapshot/socket_peers.h"

#include <netinet/tcp.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace dlprobe {
namespace {

/// The sockets of one network namespace, as far as somebody waits on them.
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
    std::string remote;  ///< of TCP: its address and port
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
    const std::vector<TcpSocket> sockets = tcp_sockets_of(machine_, pid_);
    std::map<std::pair<std::string, std::string>, uint64_t> by_ends;
    for (const TcpSocket& each : sockets)
      by_ends[{each.local, each.remote}] = each.inode;
    for (const TcpSocket& each : sockets) {
      const auto peer = by_ends.find({each.remote, each.local});
      const bool is_here = each.state == TCP_ESTABLISHED && peer != by_ends.end();
      Peer& found = tcp_[each.inode];
      found = {.inode = is_here ? peer->second : 0,
               .listens = each.state == TCP_LISTEN,
               .connects = each.state == TCP_SYN_SENT};
      if (!found.listens) found.remote = text_of_address(each.remote);
    }
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
  constexpr size_t kTableLimit = size_t{16} << 20;
  std::vector<TcpSocket> sockets;
  for (const char* name : {"tcp", "tcp6"}) {
    const std::string path = "proc/" + std::to_string(pid) + "/net/" + name;
    auto table = chain(machine.root->read(path, kTableLimit), parse_net_tcp);
    if (!table) continue;  // not every kernel has IPv6
    std::ranges::move(*table, std::back_inserter(sockets));
  }
  return sockets;
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
