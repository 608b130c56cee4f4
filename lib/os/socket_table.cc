#include "lib/os/socket_table.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "lib/base/unique_fd.h"
#include "lib/os/recorded_machine.h"
#include "lib/os/thread_start.h"

namespace dlprobe {
namespace {

Expected<UniqueFd> open_netlink() {
  UniqueFd netlink(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!netlink) return os_failure("socket(NETLINK_SOCK_DIAG)");
  // The kernel answers at once; whatever stands in for it may not.
  const timeval patience{.tv_sec = 1, .tv_usec = 0};
  if (::setsockopt(netlink.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0) {
    return os_failure("setsockopt(SO_RCVTIMEO)");
  }
  return netlink;
}

bool is_own_namespace(const std::string& path) {
  struct stat own{};
  struct stat other{};
  return ::stat("/proc/self/ns/net", &own) == 0 && ::stat(path.c_str(), &other) == 0 &&
         own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

/// A netlink socket stays in the namespace that it was made in, and a namespace is entered by one
/// thread alone: by one that ends then.
Expected<UniqueFd> open_netlink_of(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
  if (is_own_namespace(path)) return open_netlink();
  const UniqueFd space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!space) return os_failure("open " + path);
  Expected<UniqueFd> netlink = failure(ErrorCode::kIo, "");
  const std::string what = "enter the network namespace of process " + std::to_string(pid);
  DLP_TRY(std::jthread visitor, start_thread(what, [&] {
            netlink = ::setns(space.get(), CLONE_NEWNET) == 0 ? open_netlink() : os_failure(what);
          }));
  visitor.join();
  return netlink;
}

Status ask_for_unix_sockets(int netlink) {
  struct {
    nlmsghdr head;
    unix_diag_req body;
  } request{};
  request.head.nlmsg_len = sizeof request;
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0U;
  request.body.udiag_show = UDIAG_SHOW_PEER | UDIAG_SHOW_ICONS;
  if (::send(netlink, &request, sizeof request, 0) != static_cast<ssize_t>(sizeof request)) {
    return os_failure("send a request for UNIX sockets");
  }
  return {};
}

template <class T>
T value_at(std::span<const std::byte> bytes) {
  T value{};
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// One netlink attribute and what follows it; nothing where the rest is none.
struct Attribute {
  uint16_t type = 0;
  std::span<const std::byte> payload;
  size_t whole_bytes = 0;
};
Attribute first_attribute(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(rtattr)) return {};
  const auto head = value_at<rtattr>(bytes);
  if (head.rta_len < sizeof head || head.rta_len > bytes.size()) return {};
  return {.type = head.rta_type,
          .payload = bytes.subspan(sizeof head, head.rta_len - sizeof head),
          .whole_bytes = std::min<size_t>(RTA_ALIGN(head.rta_len), bytes.size())};
}

UnixSocket parse_unix_socket(std::span<const std::byte> body) {
  const auto head = value_at<unix_diag_msg>(body);
  UnixSocket socket{.inode = head.udiag_ino, .listens = head.udiag_state == TCP_LISTEN};
  body = body.subspan(std::min(sizeof head, body.size()));
  for (Attribute each = first_attribute(body); each.whole_bytes != 0;
       each = first_attribute(body)) {
    if (each.type == UNIX_DIAG_PEER) socket.peer = value_at<uint32_t>(each.payload);
    for (auto rest = each.payload; each.type == UNIX_DIAG_ICONS && rest.size() >= sizeof(uint32_t);
         rest = rest.subspan(sizeof(uint32_t)))
      socket.waiting_clients.push_back(value_at<uint32_t>(rest));
    body = body.subspan(each.whole_bytes);
  }
  return socket;
}

}  // namespace

Expected<bool> parse_unix_sockets(std::span<const std::byte> bytes,
                                  std::vector<UnixSocket>& sockets) {
  while (bytes.size() >= sizeof(nlmsghdr)) {
    const auto head = value_at<nlmsghdr>(bytes);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > bytes.size()) break;
    const auto body = bytes.subspan(sizeof head, head.nlmsg_len - sizeof head);
    if (head.nlmsg_type == NLMSG_DONE) return true;
    if (head.nlmsg_type == NLMSG_ERROR) {
      const int error = value_at<nlmsgerr>(body).error;
      return os_failure("dump of the UNIX sockets", error < 0 && error > INT_MIN ? -error : EIO);
    }
    if (body.size() >= sizeof(unix_diag_msg)) sockets.push_back(parse_unix_socket(body));
    bytes = bytes.subspan(std::min<size_t>(NLMSG_ALIGN(head.nlmsg_len), bytes.size()));
  }
  return false;
}

Expected<std::vector<UnixSocket>> SocketTable::unix_sockets(pid_t /*pid*/) const {
  return needs_live_kernel("sock_diag");
}

Expected<std::vector<UnixSocket>> SystemSocketTable::unix_sockets(pid_t pid) const {
  constexpr size_t kDatagramBytes = size_t{64} << 10;
  constexpr size_t kMostSockets = 1'000'000;
  DLP_TRY(const UniqueFd netlink, open_netlink_of(pid));
  DLP_CHECK(ask_for_unix_sockets(netlink.get()));
  std::vector<UnixSocket> sockets;
  std::vector<std::byte> buffer(kDatagramBytes);
  while (sockets.size() < kMostSockets) {
    const ssize_t count = ::recv(netlink.get(), buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return os_failure("receive the UNIX sockets");
    DLP_TRY(const bool is_last,
            parse_unix_sockets(std::span(buffer).first(static_cast<size_t>(count)), sockets));
    if (is_last) break;
  }
  return sockets;
}

}  // namespace dlprobe
