#include "lib/collect/snapshot/shared_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

constexpr int32_t kTrainer = 10;
constexpr int32_t kFirst = 11;
constexpr int32_t kSecond = 12;
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
    for (const int32_t pid : {kTrainer, kFirst, kSecond}) {
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
    for (const int32_t pid : {kTrainer, kFirst, kSecond})
      set_position(pid, kFd, position);
  }
  void set_read(int32_t pid, uint64_t bytes) {
    files.add(folder_of(pid) + "io", "rchar: " + std::to_string(bytes) + "\nwchar: 0\nsyscr: 1\n");
  }
  SharedFileLook look() {
    std::vector<ProcessKey> keys;
    for (const int32_t pid : {kTrainer, kFirst, kSecond})
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
  processes->opened_anew = {kTrainer, kFirst, kSecond};
  EXPECT_EQ(look().processes[1].files.at(0).description, 0);
}

TEST_F(SharedFiles, OpenInOneProcessAlone) {
  files.remove("/proc/11/fd/7");
  files.remove("/proc/12/fd/7");
  EXPECT_TRUE(look().processes[0].files.empty());
}

TEST_F(SharedFiles, LogsAndSharedMemoryAreLeftOut) {
  for (const int32_t pid : {kTrainer, kFirst, kSecond})
    open_file(pid, kFd, O_RDWR | O_APPEND);
  EXPECT_TRUE(look().processes[0].files.empty());
  for (const int32_t pid : {kTrainer, kFirst, kSecond})
    open_file(pid, kFd, O_WRONLY);
  EXPECT_TRUE(look().processes[0].files.empty());
  for (const int32_t pid : {kTrainer, kFirst, kSecond})
    open_file(pid, kFd, O_RDWR, "/dev/shm/torch_1_2_3");
  EXPECT_TRUE(look().processes[0].files.empty());
}

TEST_F(SharedFiles, TwoReadersInTurn) {
  look();
  move_to(512);
  let_read({kFirst, kSecond});
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
  let_read({kFirst, kSecond});
  EXPECT_EQ(look().processes[1].files.at(0).moves_alone, 0U);
}

}  // namespace
}  // namespace dlprobe
