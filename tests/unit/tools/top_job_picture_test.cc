#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "tools/dlprobe/top/job_picture.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::Field;

const HostFacts kHost = {.machine = "x86_64", .ticks_per_second = 100};

ProcessKey key_of(int32_t pid) {
  return {.pid = pid, .start_ticks = static_cast<uint64_t>(pid)};
}

ProcessInfo info_of(int32_t pid, int32_t parent, Role role) {
  return {.key = key_of(pid), .ppid = parent, .cmdline = {"python", "train.py"}, .role = role};
}

ProcessSample sample_of(int32_t pid, uint64_t ticks, std::optional<uint64_t> io_calls = {}) {
  ProcessSample sample{.key = key_of(pid), .state = 'S', .utime_ticks = ticks};
  if (io_calls) sample.io_calls = Observed<uint64_t>(*io_calls);
  return sample;
}

Run run_of(std::vector<ProcessInfo> infos) {
  Run run{.processes = std::move(infos)};
  run.begin = {.at = kSecond, .subject = SubjectKind::kPid, .root = key_of(100)};
  return run;
}

Run loader() {
  return run_of({info_of(100, 1, Role::kTrainer), info_of(101, 100, Role::kWorker)});
}

TopPicture picture_of(const Run& run) {
  JobPicture job;
  job.take(kHost, run);
  return job.picture();
}

TEST(JobPicture, RatesAreThoseOfTheLastSecond) {
  dlprobe::Run run = loader();
  for (int i = 0; i <= 20; ++i) {
    const BootNs at = kSecond + i * kSecond / 10;
    const uint64_t ticks = i <= 10 ? 0 : static_cast<uint64_t>(i - 10) * 5;
    auto sample = sample_of(100, ticks);
    if (i % 10 == 0) sample.io_calls = Observed<uint64_t>(static_cast<uint64_t>(i) * 4);
    run.samples.push_back({.at = at, .processes = {sample}});
  }
  const TopPicture picture = picture_of(run);
  ASSERT_EQ(picture.processes.size(), 1);
  EXPECT_DOUBLE_EQ(picture.processes[0].cpu.value_or(-1), 0.5);
  EXPECT_DOUBLE_EQ(picture.processes[0].io_rate.value_or(-1), 40);
}

TEST(JobPicture, OneSampleHasNoRates) {
  dlprobe::Run run = loader();
  run.samples = {{.at = kSecond, .processes = {sample_of(100, 5, 5)}}};
  const TopPicture picture = picture_of(run);
  EXPECT_FALSE(picture.processes[0].cpu.has_value());
  EXPECT_FALSE(picture.processes[0].io_rate.has_value());
}

TEST(JobPicture, StandsStillWhoNeitherComputesNorReads) {
  dlprobe::Run run = loader();
  for (int i = 0; i <= 8; ++i) {
    const auto count = static_cast<uint64_t>(i);
    run.samples.push_back({.at = kSecond * (1 + i),
                           .processes = {sample_of(100, 7, 7), sample_of(101, 7, count),
                                         sample_of(102, count, 7), sample_of(103, 7)}});
  }
  const TopPicture picture = picture_of(run);
  ASSERT_EQ(picture.processes.size(), 4);
  const auto still = [&](int32_t pid) {
    return std::ranges::find(picture.processes, key_of(pid), &TopProcess::key)->still;
  };
  EXPECT_EQ(still(100), 8 * kSecond);
  EXPECT_EQ(still(101), 0);
  EXPECT_EQ(still(102), 0);
  // Whether it read cannot be seen.
  EXPECT_EQ(still(103), std::nullopt);
}

TEST(JobPicture, TakesInEachSampleOnce) {
  dlprobe::Run run = loader();
  JobPicture job;
  for (int i = 0; i <= 4; ++i) {
    run.samples.push_back({.at = kSecond * (1 + i), .processes = {sample_of(100, 7, 7)}});
    job.take(kHost, run);
    job.take(kHost, run);
    // Older samples are thinned away.
    if (i == 2) run.samples.erase(run.samples.begin());
  }
  EXPECT_EQ(job.picture().processes[0].still, 4 * kSecond);
}

TEST(JobPicture, WorkersStandBelowTheirTrainerInTheOrderOfTheirStart) {
  dlprobe::Run run = run_of({info_of(90, 1, Role::kLauncher), info_of(100, 90, Role::kTrainer),
                             info_of(101, 90, Role::kTrainer), info_of(102, 101, Role::kForkserver),
                             info_of(110, 100, Role::kWorker), info_of(111, 102, Role::kWorker),
                             info_of(112, 100, Role::kWorker)});
  for (ProcessInfo& info : run.processes) {
    if (info.role == Role::kTrainer)
      info.rank = JobRank{.rank = info.key.pid == 100 ? 1 : 0, .world_size = 2};
  }
  Sample sample{.at = kSecond};
  for (const ProcessInfo& info : run.processes)
    sample.processes.push_back(sample_of(info.key.pid, 0));
  run.samples = {sample};
  const TopPicture picture = picture_of(run);
  std::vector<int32_t> pids;
  for (const TopProcess& process : picture.processes)
    pids.push_back(process.key.pid);
  EXPECT_THAT(pids, ElementsAre(90, 101, 111, 100, 110, 112, 102));
  EXPECT_EQ(picture.processes[5].index, 1);
  EXPECT_EQ(picture.processes[2].index, 0);
  EXPECT_EQ(picture.processes[2].rank, 0);
}

TEST(JobPicture, PssStaysUntilItIsReadAgain) {
  dlprobe::Run run = loader();
  auto first = sample_of(100, 0);
  first.pss_bytes = Observed<uint64_t>(5 * kMiB);
  run.samples = {{.at = kSecond, .processes = {first}},
                 {.at = 9 * kSecond, .processes = {sample_of(100, 0)}}};
  const TopPicture picture = picture_of(run);
  EXPECT_EQ(picture.processes[0].pss_bytes, 5 * kMiB);
  EXPECT_EQ(picture.processes[0].pss_age, 8 * kSecond);
}

TEST(JobPicture, SegmentsCountForWhoHoldsThem) {
  dlprobe::Run run = loader();
  run.samples = {{.at = kSecond, .processes = {sample_of(100, 0), sample_of(101, 0)}}};
  EXPECT_FALSE(picture_of(run).processes[0].shm_bytes.has_value());
  run.ledgers = {{.at = kSecond,
                  .segments = {{.size_bytes = kMiB, .holders = {{.key = key_of(101)}}},
                               {.size_bytes = 2 * kMiB, .holders = {{.key = key_of(101)}}}}}};
  const TopPicture picture = picture_of(run);
  EXPECT_EQ(picture.processes[0].shm_bytes, 0);
  EXPECT_EQ(picture.processes[1].shm_bytes, 3 * kMiB);
}

TEST(JobPicture, TheLastProcessesOfAJobThatEndedStay) {
  dlprobe::Run run = loader();
  run.samples = {{.at = kSecond, .processes = {sample_of(100, 0)}}, {.at = 2 * kSecond}};
  run.exits = {{.key = key_of(100), .wait_status = 9}};
  EXPECT_EQ(picture_of(run).end, "");
  run.end = RunEnd{.reason = RunEndReason::kSubjectEnded};
  const TopPicture picture = picture_of(run);
  EXPECT_EQ(picture.end, "killed by signal 9 (SIGKILL)");
  EXPECT_THAT(picture.processes, ElementsAre(Field(&TopProcess::key, key_of(100))));
}

ProcessSample waiting_in(int64_t syscall, std::vector<WaitedFile> files = {}) {
  ProcessSample sample{.state = 'S'};
  ThreadWait wait{.tid = 1, .syscall = syscall, .args = {0, 1, 0, 0, 0, 0}};
  wait.files = std::move(files);
  sample.waits = std::vector<ThreadWait>{wait};
  return sample;
}

TEST(StateWords, AreWhatTheMainThreadDoes) {
  const auto words = [](const ProcessSample& sample) { return state_words(sample, "x86_64"); };
  const WaitedFile pipe = {.fd = 3, .kind = FileKind::kPipe};
  const WaitedFile socket = {.fd = 4, .kind = FileKind::kSocket};
  EXPECT_EQ(words({.state = 'R'}), "runs");
  EXPECT_EQ(words({.state = 'S'}), "waits");
  EXPECT_EQ(words({.state = 'D'}), "waits for storage");
  EXPECT_EQ(words({.state = 'T'}), "stopped");
  EXPECT_EQ(words({.state = 'Z'}), "ended");
  EXPECT_EQ(words(waiting_in(7, {pipe})), "waits for a pipe");
  EXPECT_EQ(words(waiting_in(7, {pipe, pipe})), "waits for one of 2 pipes");
  EXPECT_EQ(words(waiting_in(7, {pipe, socket})), "waits for one of 2 files");
  EXPECT_EQ(words(waiting_in(0, {socket})), "waits for a socket");
  EXPECT_EQ(words(waiting_in(1, {pipe})), "waits for a reader");
  EXPECT_EQ(words(waiting_in(202)), "waits for a lock");
  EXPECT_EQ(words(waiting_in(230)), "sleeps");
  EXPECT_EQ(words(waiting_in(61)), "waits for a child");
  EXPECT_EQ(words(waiting_in(9999)), "waits");
}

}  // namespace
}  // namespace dlprobe
