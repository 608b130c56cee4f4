#include "lib/subject/memory_group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kStat =
    "42 (dlprobe) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "
    "17 0 0 "
    "0 0 0 0 0 0 0 0 0 0 0 0\n";

/// A machine in a folder, and the rules of its kernel's cgroups.
class FakeKernel : public CgroupTree {
 public:
  FakeKernel(std::string root, int version) : root_(std::move(root)), version_(version) {
    std::filesystem::create_directories(root_ + "/proc/self");
    put("/proc/self/stat", kStat);
    put("/proc/42/stat", kStat);
    put("/proc/meminfo",
        "MemTotal: 1048576 kB\nMemAvailable: 1 kB\nShmem: 0 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
    const bool v2 = version == 2;
    put("/proc/self/cgroup", v2 ? "0::/job\n" : "4:memory:/job\n0::/\n");
    put("/proc/self/mountinfo",
        v2 ? "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
           : "30 1 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
    fill(job());
  }

  std::string job() const {
    return version_ == 2 ? "/sys/fs/cgroup/job" : "/sys/fs/cgroup/memory/job";
  }
  std::string made() const { return job() + "/dlprobe-42-4711"; }

  void put(const std::string& path, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string get(const std::string& path) const {
    std::stringstream text;
    text << std::ifstream(root_ + path).rdbuf();
    return text.str();
  }
  bool exists(const std::string& path) const { return std::filesystem::exists(root_ + path); }
  void set_processes(const std::string& group, std::set<std::string> pids) {
    processes_[group] = std::move(pids);
    update(group);
  }
  void refuse_to_make(int os_errno) { make_errno_ = os_errno; }

  Status make(const std::string& group) override {
    if (make_errno_ != 0) return os_failure("make the cgroup " + group, make_errno_);
    fill(group);
    return {};
  }
  Status remove(const std::string& group) override {
    if (!exists(group)) return os_failure("remove " + group, ENOENT);
    if (!processes_[group].empty()) return os_failure("remove " + group, EBUSY);
    std::filesystem::remove_all(root_ + group);
    return {};
  }
  Status write(const std::string& file, std::string_view text) override {
    if (!exists(file)) return os_failure("write " + file, ENOENT);
    const std::string group = file.substr(0, file.rfind('/'));
    if (file.ends_with("/cgroup.procs")) return move_here(group);
    const bool enables = file.ends_with("/cgroup.subtree_control") && text == "+memory";
    if (enables && !processes_[group].empty()) return os_failure("write " + file, EBUSY);
    put(file, text == "-memory" ? "" : text.starts_with('+') ? text.substr(1) : text);
    return {};
  }
  Expected<UniqueFd> open_for_writing(const std::string& file) override {
    return UniqueFd(::open((root_ + file).c_str(), O_WRONLY | O_CLOEXEC));
  }

 private:
  Status move_here(const std::string& group) {
    // The rule of v2: no processes in a group that gives its children a controller.
    if (version_ == 2 && !get(group + "/cgroup.subtree_control").empty()) {
      return os_failure("write " + group + "/cgroup.procs", EBUSY);
    }
    for (auto& [other, pids] : processes_) {
      if (pids.erase("42") > 0) update(other);
    }
    processes_[group].insert("42");
    update(group);
    return {};
  }
  void update(const std::string& group) {
    if (!exists(group)) return;
    std::string text;
    for (const std::string& pid : processes_[group])
      text += pid + "\n";
    put(group + "/cgroup.procs", text);
  }
  void fill(const std::string& group) {
    put(group + "/cgroup.procs", "");
    if (version_ == 2) {
      put(group + "/cgroup.controllers", "cpu memory pids\n");
      put(group + "/cgroup.subtree_control", "");
      put(group + "/memory.max", "max\n");
      put(group + "/memory.swap.max", "max\n");
    } else {
      put(group + "/memory.limit_in_bytes", "9223372036854771712\n");
      put(group + "/memory.memsw.limit_in_bytes", "9223372036854771712\n");
      put(group + "/memory.stat", "total_shmem 0\nhierarchical_memory_limit 9223372036854771712\n");
    }
  }

  std::string root_;
  int version_;
  int make_errno_ = 0;
  std::map<std::string, std::set<std::string>> processes_;
};

class MemoryGroupTest : public testing::Test {
 protected:
  MemoryGroupTest() {
    std::string folder = testing::TempDir() + "memory_group_test.XXXXXX";
    folder_ = ::mkdtemp(folder.data());
  }
  ~MemoryGroupTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<FakeKernel> kernel(int version) {
    auto made = std::make_unique<FakeKernel>(folder_, version);
    made->set_processes(made->job(), {"42"});
    machine_.root = *open_root(folder_);
    return made;
  }
  std::string error_of(FakeKernel& tree, uint64_t limit = 64 << 20) {
    const auto group = MemoryGroup::create(machine_, tree, limit);
    return group ? "" : to_string(group.error());
  }

  std::string folder_;
  Machine machine_;
};

TEST_F(MemoryGroupTest, OfV1IsBelowOursWithoutSwapAndGoesAway) {
  const auto tree = kernel(1);
  auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_EQ(group->path(), tree->made());
  EXPECT_GE(group->procs_fd(), 0);
  EXPECT_EQ(tree->get(tree->made() + "/memory.limit_in_bytes"), "67108864");
  EXPECT_EQ(tree->get(tree->made() + "/memory.memsw.limit_in_bytes"), "67108864");
  EXPECT_TRUE(group->remove());
  EXPECT_FALSE(tree->exists(tree->made()));
  EXPECT_TRUE(group->remove()) << "twice is no error";
}

TEST_F(MemoryGroupTest, IsRemovedWhateverHappens) {
  const auto tree = kernel(1);
  ASSERT_TRUE(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_FALSE(tree->exists(tree->made()));
}

TEST_F(MemoryGroupTest, WhatRemainsIsSaid) {
  const auto tree = kernel(1);
  auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  tree->set_processes(tree->made(), {"7", "8"});
  const Status removed = group->remove();
  ASSERT_FALSE(removed);
  EXPECT_THAT(to_string(removed.error()), AllOf(HasSubstr(tree->made() + " remains"),
                                                HasSubstr("2 processes"), HasSubstr("rmdir")));
  EXPECT_TRUE(tree->exists(tree->made()));
}

TEST_F(MemoryGroupTest, EmptyGroupsOfDeadDlprobesGo) {
  const auto tree = kernel(1);
  const std::string dead = tree->job() + "/dlprobe-4000000-17";
  const std::string reused = tree->job() + "/dlprobe-42-9";
  const std::string busy = tree->job() + "/dlprobe-4000001-17";
  const std::string foreign = tree->job() + "/dlprobe-notes";
  for (const std::string& group : {dead, reused, busy, foreign})
    ASSERT_TRUE(tree->make(group));
  tree->set_processes(busy, {"7"});
  ASSERT_TRUE(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_FALSE(tree->exists(dead));
  EXPECT_FALSE(tree->exists(reused)) << "another process has that pid now";
  EXPECT_TRUE(tree->exists(busy));
  EXPECT_TRUE(tree->exists(foreign));
}

TEST_F(MemoryGroupTest, ALimitAboveWhatThereIsMakesNoSense) {
  auto tree = kernel(1);
  EXPECT_THAT(error_of(*tree, uint64_t{2} << 30), HasSubstr("above the 1.0 GiB of this machine"));
  tree->put(tree->job() + "/memory.stat", "total_shmem 0\nhierarchical_memory_limit 33554432\n");
  EXPECT_THAT(error_of(*tree), AllOf(HasSubstr("above the 32.0 MiB"), HasSubstr(tree->job())));
  tree = kernel(2);
  tree->put("/sys/fs/cgroup/memory.max", "16777216\n");
  tree->put(tree->job() + "/memory.max", "33554432\n");
  EXPECT_THAT(error_of(*tree), HasSubstr("above the 16.0 MiB"));
}

TEST_F(MemoryGroupTest, WithoutTheRightItSaysWhatIsNeeded) {
  auto tree = kernel(1);
  tree->refuse_to_make(EACCES);
  EXPECT_THAT(error_of(*tree), AllOf(HasSubstr("needs root"), HasSubstr("delegated"),
                                     HasSubstr("EACCES"), Not(HasSubstr("systemd"))));
  tree = kernel(2);
  tree->refuse_to_make(EACCES);
  EXPECT_THAT(error_of(*tree), AllOf(HasSubstr("needs root"), HasSubstr("Delegate=yes")));
}

TEST_F(MemoryGroupTest, WithoutAMemoryControllerThereIsNone) {
  auto tree = kernel(1);
  tree->put("/proc/self/cgroup", "3:cpu:/job\n");
  EXPECT_THAT(error_of(*tree), HasSubstr("no memory cgroup"));
  tree->put("/proc/self/cgroup", "3:memory:/elsewhere\n");
  EXPECT_THAT(error_of(*tree), HasSubstr("/elsewhere is not mounted here"));
  tree = kernel(2);
  tree->put(tree->job() + "/cgroup.controllers", "cpu pids\n");
  EXPECT_THAT(error_of(*tree), AllOf(HasSubstr("no memory controller"), HasSubstr("cpu pids")));
}

TEST_F(MemoryGroupTest, OfV2IsSimplyMadeWhereTheControllerIsOffered) {
  const auto tree = kernel(2);
  tree->put(tree->job() + "/cgroup.subtree_control", "cpu memory\n");
  const auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_EQ(tree->get(tree->made() + "/memory.max"), "67108864");
  EXPECT_EQ(tree->get(tree->made() + "/memory.swap.max"), "0");
  EXPECT_FALSE(tree->exists(tree->made() + ".self"));
  EXPECT_TRUE(group->remove());
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.subtree_control"), "cpu memory\n")
      << "not ours to change";
}

TEST_F(MemoryGroupTest, OfV2TheControllerIsTakenBackUnlessOthersHaveItByNow) {
  const auto tree = kernel(2);
  tree->set_processes(tree->job(), {});  // as in the root group, whose processes do not count
  const std::string control = tree->job() + "/cgroup.subtree_control";
  ASSERT_TRUE(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_EQ(tree->get(control), "");
  const auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_EQ(tree->get(control), "memory");
  ASSERT_TRUE(tree->make(tree->job() + "/another"));
  EXPECT_TRUE(group->remove());
  EXPECT_EQ(tree->get(control), "memory");
}

TEST_F(MemoryGroupTest, OfV2DlprobeMakesRoomForItAndGoesBack) {
  const auto tree = kernel(2);
  const auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  EXPECT_EQ(tree->get(tree->made() + ".self/cgroup.procs"), "42\n");
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.procs"), "");
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.subtree_control"), "memory");
  EXPECT_EQ(tree->get(tree->made() + "/memory.max"), "67108864");
  const Status removed = group->remove();
  EXPECT_TRUE(removed) << to_string(removed.error());
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.procs"), "42\n");
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.subtree_control"), "");
  EXPECT_FALSE(tree->exists(tree->made()));
  EXPECT_FALSE(tree->exists(tree->made() + ".self"));
}

TEST_F(MemoryGroupTest, OfV2NobodyElseIsMoved) {
  const auto tree = kernel(2);
  tree->set_processes(tree->job(), {"42", "43"});
  EXPECT_THAT(error_of(*tree), AllOf(HasSubstr("other processes run in the cgroup " + tree->job()),
                                     HasSubstr("Delegate=yes")));
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.procs"), "42\n43\n");
  EXPECT_FALSE(tree->exists(tree->made()));
}

TEST_F(MemoryGroupTest, OfV2TheControllerStaysWhileTheJobRuns) {
  const auto tree = kernel(2);
  const auto group = must(MemoryGroup::create(machine_, *tree, 64 << 20));
  tree->set_processes(tree->made(), {"7"});
  EXPECT_FALSE(group->remove());
  // The job still needs the controller, so dlprobe stays where it is.
  EXPECT_EQ(tree->get(tree->job() + "/cgroup.subtree_control"), "memory");
}

}  // namespace
}  // namespace dlprobe
