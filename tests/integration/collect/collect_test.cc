#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "lib/base/units.h"
#include "lib/collect/snapshot/climb.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/collect/tree_collector.h"
#include "tests/support/must.h"
#include "tests/support/record_list.h"
#include "tests/support/scoped_child.h"

namespace dlprobe {
namespace {

using testing::SizeIs;

constexpr BootNs kTenth = 100'000'000;
constexpr int kNoRight = 77;

/// The kernel's clock, and what a test adds to it: a watch of seconds takes no time.
class HurriedClock final : public Clock {
 public:
  BootNs now() const override { return system_.now() + ahead_; }
  int64_t realtime_ns() const override { return system_.realtime_ns() + ahead_; }
  void hurry(BootNs by) { ahead_ += by; }

 private:
  SystemClock system_;
  BootNs ahead_ = 0;
};

class Collecting : public testing::Test {
 protected:
  void SetUp() override {
    machine_ = must(live_machine());
    machine_.clock = clock_;
  }

  /// Starts shm_holder and waits until it is ready. False: the test is to be skipped.
  bool start(std::vector<std::string> commands) {
    commands.insert(commands.begin(), DLPROBE_SHM_HOLDER);
    child_ = std::make_unique<ScopedChild>(std::move(commands));
    root_pid_ = child_->pid_line();
    for (std::string line = child_->line(); line != "ready"; line = child_->line()) {
      if (line.empty())
        return !(WIFEXITED(child_->wait()) && WEXITSTATUS(child_->wait()) == kNoRight);
      root_pid_ = std::stoi(line.substr(4));
    }
    return true;
  }

  void watch(int pid) {
    const auto key = must(process_key(machine_, pid));
    collector_ = std::make_unique<TreeCollector>(machine_, key, CollectOptions{}, records_);
  }

  /// Ticks, a tenth of a second apart for the collector, until `done` or a watch of ten minutes.
  template <class Done>
  bool tick_until(Done done) {
    for (int i = 0; i < 6000; ++i) {
      collector_->tick();
      if (done()) return true;
      clock_->hurry(kTenth);
    }
    return false;
  }

  std::optional<ProcessExit> exit_of(int pid) {
    for (const ProcessExit& one : records_.all<ProcessExit>()) {
      if (one.key.pid == pid) return one;
    }
    return std::nullopt;
  }

  void expect_no_gaps() {
    for (const Gap& gap : records_.all<Gap>())
      ADD_FAILURE() << gap.what.plain() << ": " << gap.why.plain();
  }

  std::shared_ptr<HurriedClock> clock_ = std::make_shared<HurriedClock>();
  Machine machine_;
  RecordList records_;
  std::unique_ptr<ScopedChild> child_;
  std::unique_ptr<TreeCollector> collector_;
  int root_pid_ = 0;
};

#define START_OR_SKIP(...) \
  if (!start(__VA_ARGS__)) \
  GTEST_SKIP() << "needs CAP_SYS_ADMIN: a mount namespace with its own /dev/shm"

TEST_F(Collecting, TheLedgerAccountsForEveryKindOfSegment) {
  START_OR_SKIP({"private", "64m", "named", "torch_%_1_0", "1048576", "open", "torch_%_1_1",
                 "2097152", "mapped", "torch_%_1_2", "3145728", "named", "evil\n\x1b[31m", "4096"});
  watch(root_pid_);
  collector_->tick();
  records_.clear();
  clock_->hurry(kSecond);  // the one of that tick is old by now
  collector_->take_ledger();
  const auto ledgers = records_.all<ShmLedger>();
  ASSERT_THAT(ledgers, SizeIs(1));
  const ShmLedger& ledger = ledgers[0];
  EXPECT_EQ(ledger.used_bytes, 6 * kMiB + 4096);
  EXPECT_EQ(ledger.named_bytes, kMiB + 4096);
  EXPECT_EQ(ledger.unlinked_open_bytes, 2 * kMiB);
  EXPECT_EQ(ledger.unlinked_mapped_bytes, 3 * kMiB);
  EXPECT_EQ(ledger.unexplained_bytes, 0);
  ASSERT_THAT(ledger.segments, SizeIs(4));
  for (const ShmSegment& segment : ledger.segments) {
    if (segment.kind != SegmentKind::kTorchTensor) continue;
    EXPECT_EQ(segment.creator_pid, root_pid_);
    EXPECT_EQ(segment.creator, CreatorState::kAlive);
    if (segment.linked) continue;
    ASSERT_THAT(segment.holders, SizeIs(1));
    EXPECT_TRUE(segment.holders[0].in_tree);
    EXPECT_EQ(segment.holders[0].fds + segment.holders[0].maps, 1);
  }
}

TEST_F(Collecting, SeesTheTargetsMountAndNotItsOwn) {
  START_OR_SKIP({"private", "64m"});
  watch(root_pid_);
  collector_->tick();
  const auto mounts = records_.all<ShmMount>();
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].fs_type, "tmpfs");
  EXPECT_NE(mounts[0].device, machine_.root->stat("dev/shm")->device);
  const auto samples = records_.all<Sample>();
  ASSERT_TRUE(samples[0].shm[0]);
  EXPECT_EQ(samples[0].shm[0]->size_bytes, 64 * kMiB);
}

TEST_F(Collecting, AHolderOutsideTheTreeIsNamed) {
  START_OR_SKIP({"private", "64m", "open", "torch_%_1_0", "1048576", "child"});
  watch(root_pid_);  // the child, which inherited the descriptor
  collector_->tick();
  const auto ledgers = records_.all<ShmLedger>();
  ASSERT_THAT(ledgers, SizeIs(1));
  ASSERT_THAT(ledgers[0].segments, SizeIs(1));
  const auto& holders = ledgers[0].segments[0].holders;
  const auto outside = std::ranges::find(
      holders, child_->pid(), [](const SegmentHolder& holder) { return holder.key.pid; });
  ASSERT_NE(outside, holders.end());
  EXPECT_FALSE(outside->in_tree);
  EXPECT_EQ(outside->comm, "shm_holder");
}

TEST_F(Collecting, TellsAFailedReservationFromASegmentThatIsFilledLater) {
  START_OR_SKIP(
      {"private", "64m", "empty", "torch_%_1_0", "1048576", "lazy", "torch_%_1_1", "1048576"});
  watch(root_pid_);
  ASSERT_TRUE(tick_until([this] { return !records_.all<Event>().empty(); }));
  const BootNs found_at = records_.all<Event>()[0].at;
  ASSERT_TRUE(tick_until([this, found_at] { return clock_->now() > found_at + 20 * kTenth; }));
  const auto events = records_.all<Event>();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, "segment-reservation-failed");
  EXPECT_EQ(events[0].process->pid, root_pid_);
  EXPECT_NE(events[0].text.plain().find("torch_" + std::to_string(root_pid_) + "_1_0 (1.0 MiB;"),
            std::string::npos)
      << events[0].text.plain();
}

TEST_F(Collecting, LearnsHowGrandchildrenEnd) {
  child_ = std::make_unique<ScopedChild>(
      std::vector<std::string>{DLPROBE_SHM_HOLDER, "exits", "7", "dies", "7"});
  watch(child_->pid_line());
  for (const int wait_status : {7 << 8, 7}) {
    const int grandchild = child_->pid_line();
    ASSERT_TRUE(tick_until([&] {
      return std::ranges::any_of(
          records_.all<ProcessInfo>(),
          [grandchild](const ProcessInfo& info) { return info.key.pid == grandchild; });
    }));
    child_->send("x");
    ASSERT_TRUE(tick_until([&] { return exit_of(grandchild).has_value(); }));
    const auto exit = exit_of(grandchild);
    if (!exit->wait_status && exit->wait_status.error().code == ErrorCode::kUnsupported) {
      GTEST_SKIP() << "exit codes of reaped strangers need Linux 6.15";
    }
    EXPECT_EQ(exit->wait_status, wait_status) << exit->source;
  }
  expect_no_gaps();
}

TEST_F(Collecting, AnOrphanOfALongLifeStaysInTheTree) {
  ASSERT_TRUE(start({"child", "child"}));
  watch(child_->pid());
  collector_->tick();
  ASSERT_THAT(records_.all<Sample>().back().processes, SizeIs(3));
  child_->kill();
  child_->wait();
  ASSERT_TRUE(tick_until([this] { return records_.all<Sample>().back().processes.size() == 2; }));
  EXPECT_TRUE(collector_->alive());
  EXPECT_FALSE(collector_->trainer_alive());
  child_->end_input();
  EXPECT_TRUE(tick_until([this] { return !collector_->alive(); }));
}

TEST_F(Collecting, AProcessThatIsKilledWhileItIsLookedAtIsNoGap) {
  ASSERT_TRUE(start({}));
  watch(root_pid_);
  collector_->tick();
  child_->kill();
  ASSERT_TRUE(tick_until([this] { return !collector_->alive(); }));
  child_->wait();
  tick_until([this] { return records_.all<Sample>().back().processes.empty(); });
  ASSERT_TRUE(exit_of(root_pid_));
  EXPECT_EQ(exit_of(root_pid_)->wait_status, SIGKILL);
  expect_no_gaps();
}

TEST_F(Collecting, NoSuchProcessIsVanished) {
  const auto key = process_key(machine_, 0x7ffffff0);
  ASSERT_FALSE(key);
  EXPECT_EQ(key.error().code, ErrorCode::kVanished);
  EXPECT_EQ(climb_to_trainer(machine_, 0x7ffffff0).error().code, ErrorCode::kVanished);
}

// It waits in one call after the other: of what it was seen in, nothing is known by the end of most
// looks.
TEST_F(Collecting, ALookTellsWhetherAThreadWentOnMeanwhile) {
  for (const char* pace : {"0.0001", "1000"}) {
    ScopedChild python({"python3", "-c",
                        "import os, select, sys, time\n"
                        "pipe = os.pipe()\n"
                        "print('pid', os.getpid(), flush=True)\n"
                        "pace = float(sys.argv[1])\n"
                        "while True:\n"
                        "    select.select(pipe[:1], [], [], pace)\n"
                        "    time.sleep(pace)\n",
                        pace});
    const int pid = python.pid_line();
    if (pid == 0) GTEST_SKIP() << "needs python3 in PATH";
    watch(pid);
    const bool moves = std::string_view(pace) != "1000";
    EXPECT_TRUE(tick_until([&] { return collector_->take_snapshot() == moves; })) << pace;
  }
}

/// A Python process with one worker of multiprocessing; it says the worker's pid once that is at
/// work (a spawned one is nobody's before its execve).
class Climbing : public Collecting, public testing::WithParamInterface<const char*> {};

TEST_P(Climbing, FromAWorkerToTheProcessThatStartedIt) {
  ScopedChild python({"python3", "-c",
                      "import multiprocessing as m, sys, os\n"
                      "c = m.get_context(sys.argv[1])\n"
                      "if __name__ == '__main__':\n"
                      "    r, w = c.Pipe()\n"
                      "    work = '(w.send(1), __import__(\"time\").sleep(1000))'\n"
                      "    p = c.Process(target=eval, args=(work, {'w': w}), daemon=True)\n"
                      "    p.start()\n"
                      "    r.recv()\n"
                      "    print('pid', p.pid, flush=True)\n"
                      "    sys.stdin.read()\n",
                      GetParam()});
  const int worker = python.pid_line();
  if (worker == 0) GTEST_SKIP() << "needs python3 in PATH";
  const auto climbed = must(climb_to_trainer(machine_, worker));
  EXPECT_EQ(climbed.key.pid, python.pid()) << climbed.reason;
  const auto from_trainer = must(climb_to_trainer(machine_, python.pid()));
  EXPECT_EQ(from_trainer.key.pid, python.pid())
      << "it climbed out of the loader: " << from_trainer.reason;
  python.end_input();  // it ends its worker
  python.wait();
}

INSTANTIATE_TEST_SUITE_P(StartMethods, Climbing, testing::Values("fork", "spawn", "forkserver"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace dlprobe
