#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/units.h"
#include "lib/collect/snapshot/cpu_look.h"
#include "lib/collect/tree/cpu_quota.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/proc/schedstat.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

class CpuQuotas : public testing::Test {
 protected:
  std::optional<double> cpus() {
    const auto quota = read_cpu_quota(machine_);
    if (!quota || !*quota) return std::nullopt;
    source_ = (*quota)->source;
    return (*quota)->cpus;
  }

  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  Machine machine_{.root = files_, .clock = std::make_shared<FakeClock>(), .processes = {}};
  std::string source_;
};

TEST_F(CpuQuotas, TheSmallestOnTheWayUpCounts) {
  files_->add("/proc/self/cgroup", "0::/job/step\n");
  files_->add("/proc/self/mountinfo", "32 1 0:28 / /cg rw - cgroup2 cgroup2 rw\n");
  files_->add("/cg/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus(), std::nullopt);
  files_->add("/cg/job/step/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus(), 4.0);
  EXPECT_EQ(source_, "/cg/job/step/cpu.max");
}

TEST_F(CpuQuotas, AreReadFromV1) {
  files_->add("/proc/self/cgroup", "4:cpu,cpuacct:/job\n5:memory:/other\n");
  files_->add("/proc/self/mountinfo",
              "30 1 0:26 / /cg/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
              "31 1 0:27 / /cg/memory rw - cgroup cgroup rw,memory\n");
  files_->add("/cg/cpu/job/cpu.cfs_quota_us", "250000\n");
  files_->add("/cg/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus(), 2.5);
}

TEST_F(CpuQuotas, ThatCannotBeLookedAtAreAnError) {
  EXPECT_FALSE(read_cpu_quota(machine_));
  files_->add("/proc/self/cgroup", "");
  EXPECT_EQ(cpus(), std::nullopt);
}

TEST(SchedStats, AreThreeNumbers) {
  EXPECT_EQ(*parse_schedstat("100 20 3\n"),
            (SchedStat{.cpu_ns = 100, .queued_ns = 20, .timeslices = 3}));
  for (const std::string_view odd : {"", "100 20 3", "100 20\n", "100 20 3 4\n", "a b c\n"})
    EXPECT_FALSE(parse_schedstat(odd)) << odd;
}

TEST(CpuLooks, TheDifferenceIsByThread) {
  const ProcessKey key{.pid = 7, .start_ticks = 1};
  CpuLook before{.at = 0, .processes = {}};
  before.processes[key] = {{7, {.ran_ns = 1'000'000'000, .queued_ns = 0, .preempted = 5}},
                           {8, {.ran_ns = 0, .queued_ns = 0, .preempted = 0}}};
  CpuLook after{.at = 2 * kSecond, .processes = {}};
  after.processes[key] = {{7, {.ran_ns = 2'000'000'000, .queued_ns = 500'000'000, .preempted = 8}},
                          {8, {.ran_ns = 100'000'000, .queued_ns = 0, .preempted = 0}},
                          {9, {.ran_ns = 400'000'000, .queued_ns = 0, .preempted = 1}}};
  after.processes[{.pid = 10, .start_ticks = 1}] = {{10, {}}};
  const auto result = cpu_between(before, after);
  ASSERT_EQ(result.size(), 1U);
  EXPECT_EQ(result[0], (ProcessCpu{.key = key,
                                   .threads = 3,
                                   .busy_threads = 2,
                                   .ran_s = 1.5,
                                   .queued_s = 0.5,
                                   .preempted = 4}));
}

TEST(CpuLooks, ThisProcessCanBeLookedAt) {
  const auto machine = must(live_machine());
  const auto self = must(process_key(machine, ::getpid()));
  const std::vector<ProcessKey> both = {self, {.pid = self.pid, .start_ticks = 1}};
  const CpuLook look = look_at_cpu(machine, both);
  if (look.processes.empty())
    GTEST_SKIP() << "needs /proc/PID/task/TID/schedstat (CONFIG_SCHED_INFO)";
  EXPECT_EQ(look.processes.size(), 1U) << "another process with its pid is another";
  EXPECT_TRUE(look.processes.contains(self));
}

}  // namespace
}  // namespace dlprobe
