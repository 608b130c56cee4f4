#include "lib/collect/snapshot/channel_ends.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <memory>
#include <string>

#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPipe = 8123;

class ChannelEnds : public ::testing::Test {
 protected:
  ChannelEnds() {
    machine.root = std::shared_ptr<const Directory>(&files, [](const auto*) {});
    machine.processes = std::make_shared<ProcessAccess>();
  }

  void add_process(int32_t pid) {
    files.add("/proc/" + std::to_string(pid) + "/comm", "python3\n");
  }
  void add_end(int32_t pid, int fd, int flags, uint64_t inode = kPipe, uint32_t mode = S_IFIFO) {
    const std::string folder = "/proc/" + std::to_string(pid) + "/";
    files.set_stat(folder + "fd/" + std::to_string(fd), {.inode = inode, .mode = mode});
    files.add(folder + "fdinfo/" + std::to_string(fd),
              "pos:\t0\nflags:\t0" + octal(flags) + "\nmnt_id:\t15\n");
  }
  static std::string octal(int value) {
    std::string text;
    for (; value != 0; value /= 8)
      text.insert(text.begin(), static_cast<char>('0' + value % 8));
    return text.empty() ? "0" : text;
  }
  /// A process of the tree with one thread in that call on the pipe.
  void wait_on_pipe(int32_t pid, int64_t call) {
    ProcessSnapshot process{.key = {.pid = pid, .start_ticks = 1}};
    process.threads.push_back(
        {.tid = pid,
         .state = 'S',
         .wait = {.tid = pid,
                  .syscall = call,
                  .files = {{.fd = 5, .kind = FileKind::kPipe, .inode = kPipe}}}});
    tree.processes.push_back(std::move(process));
  }
  const ChannelEnd* end_of(int32_t pid) const {
    const auto found = std::ranges::find(tree.channel_ends, pid, &ChannelEnd::pid);
    return found == tree.channel_ends.end() ? nullptr : &*found;
  }

  FakeFiles files;
  Machine machine;
  TreeSnapshot tree;
};

TEST_F(ChannelEnds, WritersAndReadersOfThePipe) {
  wait_on_pipe(10, SYS_read);
  tree.processes.push_back({.key = {.pid = 11, .start_ticks = 1}});
  add_process(10);
  add_process(11);
  add_end(10, 5, O_RDONLY);
  add_end(11, 6, O_WRONLY);
  add_end(11, 7, O_RDONLY, 999);  // another pipe
  find_channel_ends(machine, tree);
  ASSERT_EQ(tree.channel_ends.size(), 2U);
  EXPECT_TRUE(end_of(10)->reads);
  EXPECT_FALSE(end_of(10)->writes);
  EXPECT_TRUE(end_of(11)->writes);
  EXPECT_EQ(end_of(11)->comm, "python3");
  EXPECT_TRUE(tree.all_ends_seen);
}

TEST_F(ChannelEnds, TheMachineIsLookedAtOnlyWhereTheTreeHasNoPeer) {
  wait_on_pipe(10, SYS_read);
  add_process(10);
  add_process(77);
  add_end(10, 5, O_RDONLY);
  add_end(77, 6, O_WRONLY);
  find_channel_ends(machine, tree);
  ASSERT_NE(end_of(77), nullptr);  // outside of the tree

  TreeSnapshot with_peer;
  with_peer.processes = tree.processes;
  with_peer.processes.push_back({.key = {.pid = 11, .start_ticks = 1}});
  add_process(11);
  add_end(11, 6, O_WRONLY);
  tree = with_peer;
  find_channel_ends(machine, tree);
  EXPECT_EQ(end_of(77), nullptr);
  EXPECT_NE(end_of(11), nullptr);
}

TEST_F(ChannelEnds, AReaderIsNoPeerOfWhoWaitsForData) {
  wait_on_pipe(10, SYS_read);
  tree.processes.push_back({.key = {.pid = 11, .start_ticks = 1}});
  add_process(10);
  add_process(11);
  add_process(77);
  add_end(10, 5, O_RDONLY);
  add_end(11, 5, O_RDONLY);
  add_end(77, 6, O_WRONLY);
  find_channel_ends(machine, tree);
  EXPECT_NE(end_of(77), nullptr);
}

TEST_F(ChannelEnds, DescriptorsThatAreHiddenAreSaid) {
  wait_on_pipe(10, SYS_read);
  add_process(10);
  add_process(77);
  add_end(10, 5, O_RDONLY);
  files.fail("/proc/77/fd", EACCES);
  find_channel_ends(machine, tree);
  EXPECT_FALSE(tree.all_ends_seen);
}

TEST_F(ChannelEnds, AProcessThatMapsTheSemaphoreOfADeadHolder) {
  ProcessSnapshot process{.key = {.pid = 10, .start_ticks = 1}};
  process.threads.push_back(
      {.tid = 10,
       .futex = FutexWait{
           .shared = true, .kind = LockKind::kSharedSemaphore, .device = 26, .inode = 7}});
  process.sem_locks = {{.inode = 7}};
  tree.processes.push_back(std::move(process));
  add_process(10);
  files.add_link("/proc/10/fd/0", "/dev/null");
  for (const auto& [pid, device] : {std::pair{77, "00:1a"}, std::pair{78, "00:1b"}}) {
    add_process(pid);
    const std::string folder = "/proc/" + std::to_string(pid) + "/";
    files.add_link(folder + "fd/0", "/dev/null");
    files.add(folder + "maps", std::string("7f0000000000-7f0000001000 rw-s 00000000 ") + device +
                                   " 7                          /dev/shm/sem.mp-x\n");
  }
  find_channel_ends(machine, tree);
  ASSERT_EQ(tree.channel_ends.size(), 1U);  // the other is a file of another mount
  EXPECT_EQ(tree.channel_ends[0].pid, 77);
  EXPECT_EQ(tree.channel_ends[0].kind, EndKind::kSemaphore);
}

TEST_F(ChannelEnds, WhoHasThePeerOfASocket) {
  wait_on_pipe(10, SYS_recvfrom);
  WaitedFile& file = tree.processes[0].threads[0].wait.files[0];
  file = {.fd = 5, .kind = FileKind::kSocket, .inode = 7001, .peer = 7002};
  add_process(10);
  add_process(77);
  add_end(10, 5, O_RDWR, 7001, S_IFSOCK);
  add_end(77, 6, O_RDWR, 7002, S_IFSOCK);
  find_channel_ends(machine, tree);
  ASSERT_EQ(tree.channel_ends.size(), 1U);
  EXPECT_EQ(tree.channel_ends[0].pid, 77);
  EXPECT_EQ(tree.channel_ends[0].kind, EndKind::kSocket);
  EXPECT_TRUE(tree.channel_ends[0].writes);
}

TEST_F(ChannelEnds, WhetherWhoIsOutsideIsStopped) {
  const auto stat = [](const std::string& tid, char state) {
    return tid + " (cat) " + state + " 1 5 5 0 -1 4194304 1 2 0 4 30 12 0 0 20 0 2 0 777" +
           " 1 2 3 1 1 1 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
  };
  wait_on_pipe(10, SYS_read);
  add_process(10);
  add_end(10, 5, O_RDONLY);
  for (const auto& [pid, second] : {std::pair{"77", 'T'}, std::pair{"78", 'S'}}) {
    add_process(std::stoi(pid));
    add_end(std::stoi(pid), 6, O_WRONLY);
    const std::string folder = "/proc/" + std::string(pid) + "/";
    files.add(folder + "stat", stat(pid, 'T'));
    files.add(folder + "task/" + pid + "/stat", stat(pid, 'T'));
    files.add(folder + "task/99/stat", stat("99", second));
  }
  find_channel_ends(machine, tree);
  ASSERT_NE(end_of(77), nullptr);
  EXPECT_EQ(end_of(77)->state, 'T');
  EXPECT_EQ(end_of(77)->cpu_ticks, 42U);
  ASSERT_NE(end_of(78), nullptr);
  EXPECT_EQ(end_of(78)->state, 'S');  // a tracer stopped one of its threads
  EXPECT_EQ(end_of(10)->state, '?');  // its threads were looked at
}

// Who asks for a lock again and again sleeps in between, with the file open.
TEST_F(ChannelEnds, WhoHasTheLockThatASleeperMayAskFor) {
  for (const int32_t pid : {10, 11}) {
    wait_on_pipe(pid, SYS_clock_nanosleep);
    tree.processes.back().threads[0].wait.files.clear();
    add_process(pid);
    for (const uint64_t inode : {500, 501, 502})
      add_end(pid, static_cast<int>(inode) - 490, O_RDWR, inode, S_IFREG);
  }
  const std::string text = "pos:\t0\nflags:\t02\nmnt_id:\t15\nlock:\t1: FLOCK  ADVISORY  WRITE 11 ";
  files.add("/proc/11/fdinfo/10", text + "fe:00:500 0 EOF\n");
  // Of one lock both have a copy.
  for (const std::string pid : {"10", "11"})
    files.add("/proc/" + pid + "/fdinfo/11", text + "fe:00:501 0 EOF\n");
  files.add("/proc/locks",
            "1: FLOCK  ADVISORY  WRITE 11 fe:00:500 0 EOF\n"
            "2: FLOCK  ADVISORY  WRITE 11 fe:00:501 0 EOF\n"
            "2: -> FLOCK  ADVISORY  WRITE 12 fe:00:502 0 EOF\n");
  find_channel_ends(machine, tree);
  const auto& asked_for = tree.processes[0].threads[0].wait.files;
  ASSERT_EQ(asked_for.size(), 1U);
  EXPECT_EQ(asked_for[0].inode, 500U);
  EXPECT_TRUE(tree.processes[1].threads[0].wait.files.empty());
  ASSERT_EQ(tree.channel_ends.size(), 1U);
  EXPECT_EQ(tree.channel_ends[0].pid, 11);
  EXPECT_EQ(tree.channel_ends[0].kind, EndKind::kFileLock);
}

TEST_F(ChannelEnds, NothingIsReadWhereNobodyWaits) {
  add_process(10);
  files.fail("/proc/10/fd", EACCES);
  tree.processes.push_back({.key = {.pid = 10, .start_ticks = 1}});
  find_channel_ends(machine, tree);
  EXPECT_TRUE(tree.all_ends_seen);
  EXPECT_TRUE(tree.channel_ends.empty());
}

}  // namespace
}  // namespace dlprobe
