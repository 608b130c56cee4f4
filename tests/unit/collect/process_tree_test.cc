#include "lib/collect/tree/process_tree.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/made_up_process.h"

namespace dlprobe {
namespace {

/// Gives a pidfd of any process.
class WithPidfds final : public ProcessAccess {
 public:
  Expected<UniqueFd> open_pidfd(pid_t /*pid*/) const override {
    return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
};

constexpr ProcessKey kRoot{.pid = 100, .start_ticks = 1000};

/// A process and its children, none of which does anything, after ten samples.
class StillTree {
 public:
  StillTree(int32_t children, const std::shared_ptr<const ProcessAccess>& access)
      : tree_({.root = files_, .clock = std::make_shared<FakeClock>(1), .processes = access}, kRoot,
              0) {
    std::string pids;
    for (int32_t pid = 101; pid <= 100 + children; ++pid) {
      add_process(*files_, {.pid = pid, .ppid = 100});
      files_->add(fmt::format("/proc/{0}/task/{0}/children", pid), "");
      pids += std::to_string(pid) + " ";
    }
    add_process(*files_, {.pid = 100, .ppid = 50});
    files_->add("/proc/100/task/100/children", pids);
    tree_.discover(reader_);
    for (int i = 0; i < 10; ++i)
      tree_.sample(reader_, false);
  }

  void compute(int32_t pid, int cpu_ticks) {
    files_->add("/proc/" + std::to_string(pid) + "/stat",
                stat_text({.pid = pid, .ppid = 100, .cpu_ticks = cpu_ticks}));
  }
  void fork(int32_t pid, int32_t child) {
    add_process(*files_, {.pid = child, .ppid = pid});
    files_->add(fmt::format("/proc/{0}/task/{0}/children", pid), fmt::format("{} ", child));
  }
  /// How many looks for new members it takes to find it.
  int looks_to_find(int32_t pid, bool of_all) {
    for (int looks = 1; looks < 10; ++looks) {
      tree_.discover(reader_, of_all);
      if (tree_.lives({.pid = pid, .start_ticks = static_cast<uint64_t>(10 * pid)})) return looks;
      tree_.sample(reader_, false);
    }
    return 0;
  }
  /// How many samples of so many say so.
  int samples_that_say(int cpu_ticks, int samples, bool of_all = false) {
    int found = 0;
    for (int i = 0; i < samples; ++i) {
      tree_.sample(reader_, of_all);
      const auto& process = tree_.members().at({.pid = 101, .start_ticks = 1010});
      if (process.sample.utime_ticks == static_cast<uint64_t>(cpu_ticks)) ++found;
    }
    return found;
  }

 private:
  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  DeadlineReader reader_;
  ProcessTree tree_;
};

TEST(ProcessTree, OfALargeOneWhoStandsStillIsReadAtOneOfThreeTicks) {
  StillTree tree(20, std::make_shared<WithPidfds>());
  tree.compute(101, 2);
  EXPECT_EQ(tree.samples_that_say(2, 3), 1);
  // Whoever moves is read at each tick again.
  tree.compute(101, 3);
  EXPECT_EQ(tree.samples_that_say(3, 3), 3);
}

TEST(ProcessTree, OfALargeOneAChildOfWhoStandsStillIsFoundAtOneOfThreeTicks) {
  StillTree tree(20, std::make_shared<WithPidfds>());
  tree.fork(102, 200);
  EXPECT_EQ(tree.looks_to_find(200, false), 3);
  tree.fork(103, 201);
  EXPECT_EQ(tree.looks_to_find(201, true), 1);
}

TEST(ProcessTree, OnceASecondAllAreRead) {
  StillTree tree(20, std::make_shared<WithPidfds>());
  for (int ticks = 2; ticks < 5; ++ticks) {
    tree.compute(101, ticks);
    EXPECT_EQ(tree.samples_that_say(ticks, 1, true), 1);
    tree.samples_that_say(ticks, 10);
  }
}

TEST(ProcessTree, OfASmallOneAndWhereNobodyWakesAtAnEndAllAreReadAtEachTick) {
  StillTree small(3, std::make_shared<WithPidfds>());
  small.compute(101, 2);
  EXPECT_EQ(small.samples_that_say(2, 3), 3);
  StillTree without(20, std::make_shared<ProcessAccess>());
  without.compute(101, 2);
  EXPECT_EQ(without.samples_that_say(2, 3), 3);
}

}  // namespace
}  // namespace dlprobe
