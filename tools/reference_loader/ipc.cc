#include "tools/reference_loader/ipc.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "lib/os/atomic_file.h"

namespace dlprobe::loader {
namespace {

// More than any message of the loader carries (six, for a worker of the fork server).
constexpr size_t kMaxFds = 16;

std::vector<UniqueFd> take_fds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Expected<std::pair<UniqueFd, UniqueFd>> make_socket_pair(int type) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return os_failure("make a pair of sockets");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Expected<UniqueFd> make_memory_file(const char* name) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC));
  if (!fd) return os_failure("make a file in memory");
  return fd;
}

Status write_all(int fd, std::string_view text) {
  return dlprobe::write_all(fd, text, "to another process of the loader");
}

Status write_all(int fd, std::span<const std::byte> bytes) {
  return write_all(fd, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

Expected<ReadOutcome> read_whole(int fd, std::span<std::byte> bytes) {
  const size_t size = bytes.size();
  while (!bytes.empty()) {
    const ssize_t got = read_uninterrupted(fd, bytes.data(), bytes.size());
    if (got < 0) return os_failure("read from another process of the loader");
    if (got == 0) {
      if (bytes.size() == size) return ReadOutcome::kEndOfFile;
      return failure(ErrorCode::kMalformed,
                     "a message of another process of the loader is cut off");
    }
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return ReadOutcome::kWhole;
}

Status send_with_fds(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());  // iovec wants a pointer to non-const
  iovec part{.iov_base = copy.data(), .iov_len = copy.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    if (fds.size() > kMaxFds) return failure(ErrorCode::kInvalid, "too many descriptors at once");
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return os_failure("send to another process of the loader");
  return {};
}

Expected<ReceivedMessage> receive_with_fds(int socket, std::span<std::byte> into) {
  iovec part{.iov_base = into.data(), .iov_len = into.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kMaxFds * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got = -1;
  do {
    got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return os_failure("receive from another process of the loader");
  ReceivedMessage received{.size = static_cast<size_t>(got), .fds = take_fds(message)};
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return failure(
        ErrorCode::kInsufficient,
        "descriptors of a batch were lost on the way: the limit of open files (ulimit -n) "
        "is reached");
  }
  return received;
}

bool becomes_readable(int fd, int limit_ms) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&entry, 1, limit_ms) > 0;
}

Status wait_readable(int fd, std::chrono::milliseconds limit,
                     const std::function<bool()>& give_up) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < until) {
    if (give_up && give_up()) return failure(ErrorCode::kTimeout, "gave up waiting");
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&entry, 1, 100);
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return os_failure("wait for another process of the loader");
  }
  return failure(ErrorCode::kTimeout, "another process of the loader does not answer");
}

void close_all_except(std::vector<int> keep) {
  std::ranges::sort(keep);
  unsigned first = 3;
  for (const int fd : keep) {
    if (fd < 3) continue;
    const auto kept = static_cast<unsigned>(fd);
    if (kept > first) close_range(first, kept - 1, 0);
    first = kept + 1;
  }
  close_range(first, ~0U, 0);
}

void use_null_stdio() {
  const UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return;
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    dup2(null.get(), fd);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace dlprobe::loader
