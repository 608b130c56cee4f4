#include "lib/collect/snapshot/socket_peers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

class FakeSockets final : public SocketTable {
 public:
  Expected<std::vector<UnixSocket>> unix_sockets(pid_t /*pid*/) const override {
    ++looks;
    if (forbidden) return os_failure("enter the network namespace", EPERM);
    return sockets;
  }

  std::vector<UnixSocket> sockets;
  bool forbidden = false;
  mutable int looks = 0;
};

class SocketPeers : public ::testing::Test {
 protected:
  SocketPeers() {
    machine.root = std::shared_ptr<const Directory>(&files, [](const auto*) {});
    machine.sockets = table;
  }

  WaitedFile& wait_on(int32_t pid, uint64_t inode, FileKind kind = FileKind::kSocket) {
    files.add_link("/proc/" + std::to_string(pid) + "/ns/net", "net:[4026531840]");
    ProcessSnapshot process{.key = {.pid = pid, .start_ticks = 1}};
    process.threads.push_back(
        {.tid = pid, .wait = {.tid = pid, .files = {{.fd = 5, .kind = kind, .inode = inode}}}});
    tree.processes.push_back(std::move(process));
    return tree.processes.back().threads[0].wait.files[0];
  }

  FakeFiles files;
  std::shared_ptr<FakeSockets> table = std::make_shared<FakeSockets>();
  Machine machine;
  TreeSnapshot tree;
  std::vector<Gap> gaps;
};

TEST_F(SocketPeers, OfAUnixSocketTheOtherEnd) {
  table->sockets = {{.inode = 71, .peer = 72}, {.inode = 72, .peer = 71}};
  wait_on(10, 71);
  find_socket_peers(machine, tree, gaps);
  EXPECT_EQ(tree.processes[0].threads[0].wait.files[0].peer, 72U);
  EXPECT_TRUE(gaps.empty());
}

TEST_F(SocketPeers, OfOneThatIsNotAcceptedYetTheListeningOne) {
  table->sockets = {{.inode = 71}, {.inode = 73, .waiting_clients = {71}, .listens = true}};
  wait_on(10, 71);
  wait_on(11, 73);
  find_socket_peers(machine, tree, gaps);
  EXPECT_EQ(tree.processes[0].threads[0].wait.files[0].peer, 73U);
  EXPECT_EQ(tree.processes[1].threads[0].wait.files[0].kind, FileKind::kListeningSocket);
  EXPECT_EQ(table->looks, 1);  // one namespace
}

TEST_F(SocketPeers, OfATcpSocketTheOneOnThisMachine) {
  const std::string head = "  sl  local_address rem_address st ...\n";
  const std::string rest = " 00000000:00000000 00:00000000 00000000 0 0 ";
  files.add("/proc/10/net/tcp", head + " 0: 0100007F:1F90 0100007F:C001 01" + rest + "902 1\n" +
                                    " 1: 0100007F:C001 0100007F:1F90 01" + rest + "903 1\n" +
                                    " 2: 0A00000A:C002 08080808:01BB 01" + rest + "904 1\n" +
                                    " 3: 0A00000A:C003 09080808:01BB 02" + rest + "905 1\n");
  wait_on(10, 903);
  wait_on(11, 904);
  wait_on(12, 905);
  find_socket_peers(machine, tree, gaps);
  EXPECT_EQ(tree.processes[0].threads[0].wait.files[0].peer, 902U);
  const WaitedFile& far = tree.processes[1].threads[0].wait.files[0];
  EXPECT_EQ(far.peer, 0U);
  EXPECT_EQ(far.path, "8.8.8.8:443");
  const WaitedFile& unanswered = tree.processes[2].threads[0].wait.files[0];
  EXPECT_EQ(unanswered.kind, FileKind::kConnectingSocket);
  EXPECT_EQ(unanswered.path, "8.8.8.9:443");
}

TEST_F(SocketPeers, OfAConnectedUdpSocketTheAddress) {
  const std::string head = "  sl  local_address rem_address st ...\n";
  const std::string rest = " 00000000:00000000 00:00000000 00000000 0 0 ";
  files.add("/proc/10/net/udp", head + " 0: 0100007F:C001 0909097F:0035 01" + rest + "902 2\n" +
                                    " 1: 00000000:C002 00000000:0000 07" + rest + "903 2\n");
  wait_on(10, 902);
  wait_on(11, 903);
  find_socket_peers(machine, tree, gaps);
  EXPECT_EQ(tree.processes[0].threads[0].wait.files[0].path, "127.9.9.9:53");
  EXPECT_EQ(tree.processes[1].threads[0].wait.files[0].path, "");
}

// A server that listens on [::] has IPv4 clients mapped; who it has not accepted yet has no inode.
TEST_F(SocketPeers, OfATcpSocketThatIsNotAcceptedYetTheListeningOne) {
  const std::string head = "  sl  local_address rem_address st ...\n";
  const std::string rest = " 00000000:00000000 00:00000000 00000000 0 0 ";
  const std::string mapped = "0000000000000000FFFF00000100007F:";
  const std::string any = "00000000000000000000000000000000:";
  files.add("/proc/10/net/tcp", head + " 0: 0100007F:C001 0100007F:1F90 01" + rest + "903 1\n" +
                                    " 1: 0100007F:C002 0100007F:1F90 01" + rest + "904 1\n" +
                                    " 2: 0100007F:C003 0100007F:1F90 02" + rest + "905 1\n" +
                                    " 3: 0A00000A:C004 08080808:1F90 02" + rest + "906 1\n");
  files.add("/proc/10/net/tcp6", head + " 0: " + any + "1F90 " + any + "0000 0A" + rest + "77 1\n" +
                                     " 1: " + mapped + "1F90 " + mapped + "C001 01" + rest +
                                     "902 1\n" + " 2: " + mapped + "1F90 " + mapped + "C002 01" +
                                     rest + "0 1\n");
  for (const uint64_t inode : {903, 904, 905, 906})
    wait_on(10, inode);
  find_socket_peers(machine, tree, gaps);
  const auto peer = [&](size_t waiter) {
    return tree.processes[waiter].threads[0].wait.files[0].peer;
  };
  EXPECT_EQ(peer(0), 902U);
  EXPECT_EQ(peer(1), 77U);
  EXPECT_EQ(peer(2), 77U);  // its queue is full
  EXPECT_EQ(peer(3), 0U);   // another machine's
}

TEST_F(SocketPeers, InANamespaceThatMayNotBeEnteredIsAGap) {
  table->forbidden = true;
  wait_on(10, 71);
  find_socket_peers(machine, tree, gaps);
  ASSERT_EQ(gaps.size(), 1U);
  EXPECT_FALSE(gaps[0].remedy.empty());
}

TEST_F(SocketPeers, NothingIsAskedWhereNobodyWaitsOnASocket) {
  wait_on(10, 81, FileKind::kPipe);
  find_socket_peers(machine, tree, gaps);
  EXPECT_EQ(table->looks, 0);
}

}  // namespace
}  // namespace dlprobe
