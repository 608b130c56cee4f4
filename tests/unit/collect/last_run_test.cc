#include "lib/collect/snapshot/last_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "lib/proc/pid_stat.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/must.h"
#include "tests/support/scoped_child.h"

namespace dlprobe {
namespace {

/// Lets work run on CPUs 0 and 1, and notes on which it did.
class FakeCpus final : public ProcessAccess {
 public:
  Status run_on_cpu(int32_t cpu, const std::function<Status()>& work) const override {
    visited.push_back(cpu);
    if (cpu > 1) return os_failure("sched_setaffinity", EINVAL);
    return work();
  }
  mutable std::vector<int32_t> visited;
};

std::string sched_file(const std::string& milliseconds) {
  return "x (1, #threads: 1)\n-----\nse.exec_start  :  " + milliseconds + "\nprio : 120\n";
}

class LastRuns : public testing::Test {
 protected:
  LastRuns() { files_->add("/proc/thread-self/sched", sched_file("9000.000000")); }

  std::optional<BootNs> of(const std::string& task, int32_t cpu = 0) {
    return last_run_.of(*files_, task, cpu);
  }

  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  std::shared_ptr<FakeCpus> cpus_ = std::make_shared<FakeCpus>();
  Machine machine_{
      .root = files_, .clock = std::make_shared<FakeClock>(20 * kSecond), .processes = cpus_};
  LastRun last_run_{machine_};
};

TEST_F(LastRuns, IsSinceTheClockOfItsCpu) {
  files_->add("/task/7/sched", sched_file("4000.000000"));
  const auto since = must(of("task/7"));
  // 5 s ago by the scheduler's clock, less what NTP may have corrected.
  EXPECT_EQ(since, 15 * kSecond + 5 * kSecond / 2000);
}

TEST_F(LastRuns, GoesToEachCpuOnce) {
  files_->add("/task/7/sched", sched_file("4000.000000"));
  of("task/7", 0);
  of("task/7", 1);
  of("task/7", 0);
  EXPECT_EQ(cpus_->visited, (std::vector<int32_t>{0, 1}));
}

TEST_F(LastRuns, IsNotKnownOfACpuThatIsNotOurs) {
  files_->add("/task/7/sched", sched_file("4000.000000"));
  EXPECT_FALSE(of("task/7", 2));
}

TEST_F(LastRuns, IsNotKnownWhereTheKernelDoesNotSay) {
  EXPECT_FALSE(of("task/8"));
  files_->add("/task/7/sched", sched_file("0.000000"));
  EXPECT_FALSE(of("task/7"));
  files_->add("/task/7/sched", sched_file("9000.000001"));
  EXPECT_FALSE(of("task/7"));
}

TEST(LastRunOfAProcess, IsBetweenItsStartAndNow) {
  const auto machine = must(live_machine());
  const BootNs before = machine.clock->now();
  const ScopedChild cat({"cat"});
  const auto process = must(machine.root->open_directory("proc/" + std::to_string(cat.pid())));
  if (!process->read("sched")) {
    GTEST_SKIP() << "needs /proc/PID/sched: a kernel with CONFIG_SCHED_DEBUG";
  }
  std::optional<BootNs> since;
  // It has first to come to its read; a clock read before that says nothing.
  while (!since) {
    const auto stat = must(chain(process->read("stat"), parse_pid_stat));
    if (stat.state == 'S' && stat.comm == "cat") {
      LastRun last_run(machine);
      since = last_run.of(*process, "task/" + std::to_string(cat.pid()), stat.processor);
    }
  }
  EXPECT_GT(*since, before);
  EXPECT_LT(*since, machine.clock->now());
}

}  // namespace
}  // namespace dlprobe
