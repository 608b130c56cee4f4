#include "lib/os/socket_table.h"

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lib/base/unique_fd.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

uint64_t inode_of(const UniqueFd& file) {
  struct stat stat{};
  return ::fstat(file.get(), &stat) == 0 ? stat.st_ino : 0;
}

std::optional<UnixSocket> look_up(const UniqueFd& file) {
  const auto sockets = SystemSocketTable().unix_sockets(::getpid());
  if (!sockets) {
    ADD_FAILURE() << to_string(sockets.error());
    return std::nullopt;
  }
  const auto found = std::ranges::find(*sockets, inode_of(file), &UnixSocket::inode);
  return found == sockets->end() ? std::nullopt : std::optional(*found);
}

TEST(SocketTable, KnowsBothEndsOfAPair) {
  std::array<int, 2> pair{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()), 0);
  const UniqueFd one(pair[0]);
  UniqueFd other(pair[1]);
  const uint64_t other_inode = inode_of(other);
  const auto socket = must(look_up(one));
  EXPECT_EQ(socket.peer, other_inode);
  EXPECT_FALSE(socket.listens);
  other.reset();
  EXPECT_NE(look_up(one)->peer, other_inode);
}

TEST(SocketTable, KnowsWhoWaitsToBeAccepted) {
  const UniqueFd server(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const socklen_t unnamed = sizeof(sa_family_t);  // the kernel gives it an abstract name
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): the type that bind takes
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(server.get(), generic, unnamed), 0);
  ASSERT_EQ(::listen(server.get(), 4), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(::getsockname(server.get(), generic, &length), 0);
  ASSERT_EQ(::connect(client.get(), generic, length), 0);
  const auto socket = must(look_up(server));
  EXPECT_TRUE(socket.listens);
  EXPECT_EQ(socket.waiting_clients, std::vector<uint64_t>{inode_of(client)});
}

TEST(SocketTable, OfAProcessThatIsNotThere) {
  EXPECT_FALSE(SystemSocketTable().unix_sockets(0x3FFFFFFF));
}

TEST(SocketTable, AnErrorThatIsNoneOfTheKernelsIsOneOfInputAndOutput) {
  struct {
    nlmsghdr head{};
    nlmsgerr body{};
  } refusal;
  refusal.head = {.nlmsg_len = sizeof refusal, .nlmsg_type = NLMSG_ERROR};
  std::vector<UnixSocket> sockets;
  for (const auto& [error, expected] : {std::pair(-EPERM, EPERM), {INT_MIN, EIO}, {0, EIO}}) {
    refusal.body.error = error;
    const auto answer = parse_unix_sockets(std::as_bytes(std::span(&refusal, 1)), sockets);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().os_errno, expected);
  }
}

}  // namespace
}  // namespace dlprobe
