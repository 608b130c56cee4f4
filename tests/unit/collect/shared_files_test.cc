#include "lib/collect/snapshot/shared_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/foreign/syscalls.h"
#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

constexpr int32_t kTrainer = 10;
constexpr int32_t kFirstWorker = 11;
constexpr int32_t kSecondWorker = 12;
constexpr int kFd = 7;

/// Each time that it is asked, something happens.
class EventfulClock final : public Clock {
 public:
  std::function<void(int)> happen;
  BootNs now() const override {
    if (happen) happen(count_);
    return ++count_ * kMillisecond;
  }
  int64_t realtime_ns() const override { return 0; }

 private:
  mutable int count_ = 0;
};

/// Descriptors of one number are copies of one another, but for those that a process opened anew.
class ForkedFiles final : public ProcessAccess {
 public:
  std::set<pid_t> opened_anew;
  Expected<FileIdentity> compare_files(const ProcessFile& one,
                                       const ProcessFile& other) const override {
    const bool same =
        one.fd == other.fd && !opened_anew.contains(one.pid) && !opened_anew.contains(other.pid);
    return same ? FileIdentity::kSame : FileIdentity::kDifferent;
  }
};

class SharedFiles : public ::testing::Test {
 protected:
  SharedFiles() {
    machine.root = std::shared_ptr<const Directory>(&files, [](const auto*) {});
    machine.clock = clock;
    machine.processes = processes;
    for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker}) {
      set_read(pid, 0);
      open_file(pid, kFd, O_RDONLY);
    }
  }

  static std::string folder_of(int32_t pid) { return "/proc/" + std::to_string(pid) + "/"; }
  void open_file(int32_t pid, int fd, int flags, const std::string& path = "/data/train.tar") {
    const std::string name = std::to_string(fd);
    flags_ = flags;
    files.set_stat(folder_of(pid) + "fd/" + name, {.device = 8, .inode = 77, .mode = S_IFREG});
    files.add_link(folder_of(pid) + "fd/" + name, path);
    set_position(pid, fd, 0);
  }
  void set_position(int32_t pid, int fd, uint64_t position) {
    std::string octal;
    for (int rest = flags_; rest != 0; rest /= 8)
      octal.insert(octal.begin(), static_cast<char>('0' + rest % 8));
    files.add(folder_of(pid) + "fdinfo/" + std::to_string(fd),
              "pos:\t" + std::to_string(position) + "\nflags:\t0" + octal + "\nmnt_id:\t15\n");
  }
  void move_to(uint64_t position) {
    for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker})
      set_position(pid, kFd, position);
  }
  void set_read(int32_t pid, uint64_t bytes) {
    files.add(folder_of(pid) + "io", "rchar: " + std::to_string(bytes) + "\nwchar: 0\nsyscr: 1\n");
  }
  SharedFileLook look() {
    std::vector<ProcessKey> keys;
    for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker})
      keys.push_back({.pid = pid, .start_ticks = 1});
    return watch.look(machine, keys);
  }
  /// At every third moment one of `readers`, in turn, reads and moves the position.
  void let_read(std::vector<int32_t> readers) {
    clock->happen = [this, readers = std::move(readers)](int moment) {
      if (moment % 3 != 0) return;
      const auto turn = static_cast<size_t>(moment / 3);
      set_read(readers[turn % readers.size()], 1000 + turn);
      move_to(512 * (turn + 1));
    };
  }

  FakeFiles files;
  std::shared_ptr<EventfulClock> clock = std::make_shared<EventfulClock>();
  std::shared_ptr<ForkedFiles> processes = std::make_shared<ForkedFiles>();
  Machine machine;
  SharedFileWatch watch;

 private:
  int flags_ = 0;
};

TEST_F(SharedFiles, CopiesOfOneDescriptor) {
  const SharedFileLook tree = look();
  for (const ProcessFiles& process : tree.processes) {
    ASSERT_EQ(process.files.size(), 1U);
    EXPECT_EQ(process.files[0].fd, kFd);
    EXPECT_EQ(process.files[0].path, "/data/train.tar");
    EXPECT_EQ(process.files[0].description, 1);
    EXPECT_EQ(process.files[0].moves_alone, 0U);
  }
}

TEST_F(SharedFiles, OpenedAnewByEach) {
  processes->opened_anew = {kTrainer, kFirstWorker, kSecondWorker};
  EXPECT_EQ(look().processes[1].files.at(0).description, 0);
}

TEST_F(SharedFiles, OpenInOneProcessAlone) {
  files.remove("/proc/11/fd/7");
  files.remove("/proc/12/fd/7");
  EXPECT_TRUE(look().processes[0].files.empty());
}

TEST_F(SharedFiles, LogsAndSharedMemoryAreLeftOut) {
  for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker})
    open_file(pid, kFd, O_RDWR | O_APPEND);
  EXPECT_TRUE(look().processes[0].files.empty());
  for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker})
    open_file(pid, kFd, O_WRONLY);
  EXPECT_TRUE(look().processes[0].files.empty());
  for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker})
    open_file(pid, kFd, O_RDWR, "/dev/shm/torch_1_2_3");
  EXPECT_TRUE(look().processes[0].files.empty());
}

TEST_F(SharedFiles, TwoReadersInTurn) {
  look();
  move_to(512);
  let_read({kFirstWorker, kSecondWorker});
  const SharedFileLook tree = look();
  EXPECT_EQ(tree.processes[0].files.at(0).moves_alone, 0U);
  for (const size_t i : {1U, 2U}) {
    EXPECT_GE(tree.processes[i].files.at(0).moves_alone, 3U);
    EXPECT_GE(tree.processes[i].files.at(0).moves_of_others, 3U);
  }
}

TEST_F(SharedFiles, OneReader) {
  look();
  move_to(512);
  let_read({kTrainer});
  const SharedFileLook tree = look();
  EXPECT_GE(tree.processes[0].files.at(0).moves_alone, 3U);
  EXPECT_EQ(tree.processes[0].files.at(0).moves_of_others, 0U);
  EXPECT_EQ(tree.processes[1].files.at(0).moves_alone, 0U);
}

TEST_F(SharedFiles, MovesOfNobody) {
  look();
  move_to(512);
  clock->happen = [this](int moment) {
    if (moment % 3 == 0) move_to(512 * static_cast<uint64_t>(moment));
  };
  const SharedFileLook tree = look();
  EXPECT_GE(tree.processes[0].files.at(0).moves_of_nobody, 3U);
  EXPECT_EQ(tree.processes[0].files.at(0).moves_of_others, 0U);
}

TEST_F(SharedFiles, APositionThatStandsIsNotWatched) {
  look();
  let_read({kFirstWorker, kSecondWorker});
  EXPECT_EQ(look().processes[1].files.at(0).moves_alone, 0U);
}

/// Both workers have the trainer's connection to port 5432 (0x1538).
class SharedConnections : public SharedFiles {
 protected:
  static constexpr uint64_t kInode = 4711;
  static constexpr int kSocket = 9;

  SharedConnections() {
    for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker}) {
      files.set_stat(folder_of(pid) + "fd/9", {.device = 9, .inode = kInode, .mode = S_IFSOCK});
      files.add(folder_of(pid) + "net/tcp", kHead + row("0100007F:1538", "01"));
      set_thread(pid, "running\n", 1);
    }
  }
  static std::string row(const std::string& remote, const std::string& state) {
    return "   0: 0100007F:C350 " + remote + " " + state +
           " 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000\n";
  }
  void set_thread(int32_t pid, const std::string& call, uint64_t timeslices) {
    const std::string folder = folder_of(pid) + "task/" + std::to_string(pid);
    files.add(folder + "/syscall", call);
    files.add(folder + "/schedstat", "100 0 " + std::to_string(timeslices) + "\n");
  }
  void let_receive(int32_t pid, uint64_t timeslices = 1) { set_thread(pid, kReceives, timeslices); }

  const std::string kHead =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt uid timeout "
      "inode\n";
  const std::string kReceives = own_syscall_machine() == "x86_64"
                                    ? "45 0x9 0x7f00 0x8 0x0 0x0 0x0 0x7ffe 0x7f11\n"
                                    : "207 0x9 0x7f00 0x8 0x0 0x0 0x0 0x7ffe 0x7f11\n";

  static const SharedFile* connection_in(const SharedFileLook& look, size_t process) {
    const auto& all = look.processes[process].files;
    const auto found = std::ranges::find(all, kSocket, &SharedFile::fd);
    return found == all.end() ? nullptr : &*found;
  }
};

TEST_F(SharedConnections, NobodyReads) {
  const SharedFileLook tree = look();
  for (const size_t i : {0U, 1U, 2U}) {
    ASSERT_NE(connection_in(tree, i), nullptr);
    EXPECT_EQ(connection_in(tree, i)->port, 5432);
    EXPECT_EQ(connection_in(tree, i)->reads, 0U);
  }
}

TEST_F(SharedConnections, TwoWaitForDataAtOnce) {
  let_receive(kFirstWorker);
  let_receive(kSecondWorker);
  const SharedFileLook tree = look();
  EXPECT_FALSE(connection_in(tree, 0)->reads_at_once);
  for (const size_t i : {1U, 2U}) {
    EXPECT_EQ(connection_in(tree, i)->reads, 1U);  // it is one call, however often it is seen
    EXPECT_TRUE(connection_in(tree, i)->reads_at_once);
  }
}

TEST_F(SharedConnections, OneWaitsForData) {
  let_receive(kFirstWorker);
  const SharedFileLook tree = look();
  EXPECT_EQ(connection_in(tree, 1)->reads, 1U);
  EXPECT_FALSE(connection_in(tree, 1)->reads_at_once);
}

TEST_F(SharedConnections, AListeningSocketIsNone) {
  for (const int32_t pid : {kTrainer, kFirstWorker, kSecondWorker}) {
    files.add(folder_of(pid) + "net/tcp", kHead + row("00000000:0000", "0A"));
    let_receive(pid);
  }
  EXPECT_EQ(connection_in(look(), 1), nullptr);
}

TEST_F(SharedConnections, OfOneProcessAlone) {
  for (const int32_t pid : {kTrainer, kSecondWorker})
    files.remove(folder_of(pid) + "fd/9");
  EXPECT_EQ(connection_in(look(), 1), nullptr);
}

}  // namespace
}  // namespace dlprobe
