#include "lib/model/memory_need.h"

#include <gtest/gtest.h>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr uint64_t kMiB = 1 << 20;

ProcessSample sample_of(int32_t pid, uint64_t rss, uint64_t file, uint64_t own) {
  return {.key = {pid, 1},
          .rss_bytes = rss,
          .rss_shared_bytes = file,
          .pss_bytes = own + 5 * kMiB,
          .pss_anon_bytes = own + 5 * kMiB,
          .private_bytes = own};
}

Run run_of(std::optional<uint64_t> group_limit, uint64_t available) {
  Run run;
  run.processes = {{.key = {100, 1}, .role = Role::kTrainer},
                   {.key = {101, 1}, .role = Role::kWorker},
                   {.key = {102, 1}, .role = Role::kWorker}};
  const CgroupMemory group = {.version = 2,
                              .path = "/job",
                              .used_bytes = 700 * kMiB,
                              .limit_bytes = group_limit,
                              .file_bytes = 200 * kMiB};
  const HostMemory host = {.total_bytes = 8192 * kMiB, .available_bytes = available};
  run.samples = {{.at = 5,
                  .processes = {sample_of(100, 900 * kMiB, 100 * kMiB, 700 * kMiB),
                                sample_of(101, 300 * kMiB, 100 * kMiB, 30 * kMiB),
                                sample_of(102, 300 * kMiB, 100 * kMiB, 50 * kMiB)},
                  .cgroup = Observed<CgroupMemory>(group),
                  .host = Observed<HostMemory>(host)}};
  return run;
}

TEST(MemoryLimit, IsTheNearerOfGroupAndMachine) {
  const auto group = must(nearest_memory_limit(run_of(1024 * kMiB, 4096 * kMiB)));
  EXPECT_EQ(group.kind, MemoryLimit::Kind::kCgroup);
  EXPECT_EQ(group.name.plain(), "the memory limit of cgroup /job");
  EXPECT_EQ(group.left_bytes, 524 * kMiB);  // page cache does not count
  const auto host = must(nearest_memory_limit(run_of(1024 * kMiB, 100 * kMiB)));
  EXPECT_EQ(host.kind, MemoryLimit::Kind::kHost);
  EXPECT_EQ(nearest_memory_limit(run_of({}, 100 * kMiB))->left_bytes, 100 * kMiB);
  EXPECT_FALSE(nearest_memory_limit(dlprobe::Run{}));
}

TEST(MemoryLimit, IsNoneInAGroupThatIsOverIt) {
  EXPECT_EQ(nearest_memory_limit(run_of(400 * kMiB, 4096 * kMiB))->left_bytes, 0U);
}

// A last sample in which nobody of the job is left, and all of its memory is free again.
dlprobe::Run ended_run() {
  dlprobe::Run run = run_of(1024 * kMiB, 4096 * kMiB);
  Sample end = run.samples.front();
  end.at = 15;
  end.processes.clear();
  (**end.cgroup).used_bytes = 200 * kMiB;
  run.samples.push_back(end);
  return run;
}

TEST(MemoryLimit, IsToldAsOfAMoment) {
  const dlprobe::Run run = ended_run();
  EXPECT_EQ(nearest_memory_limit(run)->left_bytes, 1024 * kMiB);
  EXPECT_EQ(nearest_memory_limit(run, 14)->left_bytes, 524 * kMiB);
  EXPECT_FALSE(nearest_memory_limit(run, 4)) << "nothing was read by then";
}

TEST(LastAtWork, IsTheLastSampleWithAWorkerOrElseTheTrainer) {
  dlprobe::Run run = ended_run();
  EXPECT_EQ(last_at_work(run), 5);
  Sample trainer_alone = run.samples.front();
  trainer_alone.at = 10;
  trainer_alone.processes.resize(1);
  run.samples.insert(run.samples.begin() + 1, trainer_alone);
  EXPECT_EQ(last_at_work(run), 5);
  run.processes.resize(1);
  EXPECT_EQ(last_at_work(run), 10);
  run.processes.clear();
  EXPECT_EQ(last_at_work(run), 15);
  EXPECT_EQ(last_at_work(dlprobe::Run{}), 0);
}

TEST(WorkerMemory, IsOfTheWorkerWithTheMostOfItsOwn) {
  const auto worker = must(memory_of_a_worker(run_of({}, kMiB)));
  EXPECT_EQ(worker.key.pid, 102);
  EXPECT_EQ(worker.own_bytes, 50 * kMiB);
  EXPECT_EQ(worker.to_copy_bytes, 150 * kMiB);  // 200 anonymous, of which 50 are its own
  EXPECT_EQ(worker.most_bytes(), 200 * kMiB);
}

TEST(WorkerMemory, IsUnknownWhereNoWorkerWasLookedInto) {
  dlprobe::Run run = run_of({}, kMiB);
  for (ProcessSample& each : run.samples.front().processes)
    each.private_bytes.reset();
  EXPECT_FALSE(memory_of_a_worker(run));
}

}  // namespace
}  // namespace dlprobe
