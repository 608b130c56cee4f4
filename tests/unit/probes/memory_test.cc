// DLP0504 to DLP0508, and what cannot be said.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/support/must.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr double kMi = 1 << 20;

/// What a process has at one moment, in MiB; pss below 0: not read.
struct Has {
  double anon = 100;
  double shared = 20;
  double swap = 0;
  double pss_anon = -1;
  double private_part = 0;
  double pss_other = 0;
  double faults = 0;
  uint64_t major_faults = 0;
  bool in_write = false;
};

uint64_t bytes(double mebi) {
  return static_cast<uint64_t>(mebi * kMi);
}

/// A job with a trainer (100) and workers (101 ...), sampled at 10 Hz.
class Job {
 public:
  explicit Job(int workers) {
    recording.header.host.machine = "x86_64";
    recording.runs.emplace_back();
    run().begin.subject = SubjectKind::kCommand;
    run().begin.at = Scene::at(0);
    for (int pid = Scene::kTrainerPid; pid <= Scene::kTrainerPid + workers; ++pid) {
      ProcessInfo info;
      info.key = key_of(pid);
      info.role = pid == Scene::kTrainerPid ? Role::kTrainer : Role::kWorker;
      run().processes.push_back(std::move(info));
    }
  }

  Recording recording;
  Run& run() { return recording.runs.back(); }

  std::function<Has(int32_t pid, double t)> has = [](int32_t, double) { return Has{}; };
  std::function<void(double t, HostMemory&)> host = [](double, HostMemory&) {};
  std::function<void(double t, CgroupMemory&)> cgroup;  // none: not read
  bool reads_host = true;
  std::function<bool(int32_t pid, double t)> lives = [](int32_t, double) { return true; };

  Verdict watch(double seconds) {
    for (int tick = 0; tick <= static_cast<int>(seconds * 10); ++tick)
      sample(tick / 10.0, tick % 10 == 0);
    return probes::memory::kProbe.examine(recording);
  }

 private:
  void sample(double t, bool is_second) {
    Sample sample;
    sample.at = Scene::at(t);
    for (const ProcessInfo& info : run().processes) {
      if (!lives(info.key.pid, t)) continue;
      const Has now = has(info.key.pid, t);
      ProcessSample process;
      process.key = info.key;
      process.state = 'S';
      process.rss_bytes = bytes(now.anon + now.shared);
      process.rss_shared_bytes = bytes(now.shared);
      process.minor_faults = bytes(now.faults) / 4096;
      process.major_faults = now.major_faults;
      if (is_second) {
        process.swap_bytes = bytes(now.swap);
        if (now.pss_anon >= 0) {
          process.pss_bytes = bytes(now.pss_anon + now.pss_other);
          process.pss_anon_bytes = bytes(now.pss_anon);
          process.private_bytes = bytes(now.private_part);
        }
        ThreadWait wait = {.tid = info.key.pid, .syscall = now.in_write ? 1 : 7};
        process.waits = std::vector<ThreadWait>{wait};
      }
      sample.processes.push_back(std::move(process));
    }
    if (reads_host && is_second) {
      HostMemory memory;
      memory.total_bytes = 64 * kGiB;
      memory.available_bytes = 32 * kGiB;
      host(t, memory);
      sample.host = memory;
    }
    if (cgroup) {
      CgroupMemory memory;
      memory.version = 2;
      memory.path = "/job";
      cgroup(t, memory);
      sample.cgroup = memory;
    }
    run().samples.push_back(std::move(sample));
  }
};

// Three processes share 200 MiB; each worker copies it in `seconds`.
Has copying(int32_t pid, double t, double seconds) {
  const double done = std::min(t / seconds, 1.0);
  const double share = 200.0 / 3;
  Has now = {.anon = 200, .pss_anon = share + (200 - share) * done};
  if (pid != Scene::kTrainerPid) now.faults = 200 * done;
  return now;
}

TEST(CopyOnWriteGrowth, IsFoundInSecondsAndSaysHowFarItCanGo) {
  Job job(2);
  job.has = [](int32_t pid, double t) { return copying(pid, t, 16); };
  const Verdict verdict = job.watch(8);
  const Finding finding = must_find(verdict, FindingCode::kCopyOnWriteGrowth);
  EXPECT_THAT(finding, Is(Severity::kWarning, Confidence::kCertain));
  EXPECT_EQ(finding.processes.size(), 3U);
  EXPECT_THAT(what_remedies_set(finding), testing::ElementsAre("num_workers=1"));
  EXPECT_NEAR(static_cast<double>(number(finding, "copied")), 200 * kMi, kMi);
  EXPECT_NEAR(static_cast<double>(number(finding, "still_shared")), 200 * kMi, kMi);
  EXPECT_EQ(number(finding, "growth_of_resident_anonymous_memory"), 0);
  EXPECT_THAT(finding, Says("duplicated 200.0 MiB"));
  EXPECT_EQ(verdict.findings.size(), 1U);
}

TEST(CopyOnWriteGrowth, IsAnErrorWhereTheRestDoesNotFit) {
  Job job(2);
  job.has = [](int32_t pid, double t) { return copying(pid, t, 16); };
  job.cgroup = [](double, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.used_bytes = bytes(850);
  };
  const Finding finding = must_find(job.watch(8), FindingCode::kCopyOnWriteGrowth);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("150.0 MiB left"));
}

TEST(CopyOnWriteGrowth, OneLookAtAWorkerIsEnoughIfItWasSeenFromItsBirth) {
  Job job(2);
  job.recording.header.host.ticks_per_second = 100;
  for (ProcessInfo& process : job.run().processes) {
    const bool is_worker = process.role == Role::kWorker;
    process.key.start_ticks = is_worker ? 200 : 100;  // worker: 1 s into the run
    if (is_worker) process.start_method = StartMethod::kFork;
  }
  job.lives = [](int32_t pid, double t) { return pid == Scene::kTrainerPid || t >= 1; };
  const auto one_look = [](double given_back) {
    return [given_back](int32_t pid, double t) {
      Has now = copying(pid, t - 1, 16);
      if (pid == Scene::kTrainerPid || t != 7) now.pss_anon = -1;
      if (pid == Scene::kTrainerPid && t >= 5) now.anon -= given_back;
      now.private_part = now.faults;
      return now;
    };
  };
  job.has = one_look(0);
  const Finding finding = must_find(job.watch(8), FindingCode::kCopyOnWriteGrowth);
  EXPECT_NEAR(static_cast<double>(number(finding, "copied")), 150 * kMi, kMi);
  EXPECT_EQ(finding.processes.size(), 2U);
  job.run().samples.clear();
  job.has = one_look(100);
  EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth))
      << "pages are the workers' own because the trainer let go of them";
  job.run().samples.clear();
  job.has = one_look(0);
  for (ProcessInfo& process : job.run().processes)
    if (process.start_method) process.start_method = StartMethod::kSpawn;
  EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth))
      << "what was spawned has its imports to itself";
  for (ProcessInfo& process : job.run().processes)
    if (process.start_method) process.start_method = StartMethod::kFork;
  job.run().samples.clear();
  job.has = [=](int32_t pid, double t) {
    Has now = one_look(0)(pid, t);
    now.pss_other = now.private_part;
    return now;
  };
  EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth))
      << "what is the workers' own is shared memory that nobody else has mapped yet";
}

TEST(CopyOnWriteGrowth, TheCgroupTellsWhereProcessesCannotBeRead) {
  Job job(2);
  const auto copied = [](double t) { return 400 * std::min(t / 16, 1.0); };
  job.has = [](int32_t pid, double t) {
    Has now = copying(pid, t, 16);
    now.pss_anon = -1;
    return now;
  };
  job.cgroup = [&](double t, CgroupMemory& group) { group.anon_bytes = bytes(200 + copied(t)); };
  const Finding finding = must_find(job.watch(8), FindingCode::kCopyOnWriteGrowth);
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_NEAR(static_cast<double>(number(finding, "copied")), 200 * kMi, kMi);
}

TEST(CopyOnWriteGrowth, AGroupThatHoldsOthersTellsNothing) {
  Job job(2);
  job.has = [](int32_t pid, double t) {
    Has now = copying(pid, t, 16);
    now.pss_anon = -1;
    return now;
  };
  job.cgroup = [](double t, CgroupMemory& group) { group.anon_bytes = bytes(5000 + 25 * t); };
  EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth));
}

// Three processes that share 200 MiB, so 600 in sum: what others of the group take may hide there.
bool is_copying_by_group(const std::string& path, double pss_anon) {
  Job job(2);
  job.has = [&](int32_t, double t) {
    return Has{.anon = 200, .pss_anon = pss_anon, .faults = 50 * t};
  };
  job.cgroup = [&](double t, CgroupMemory& memory) {
    memory.path = path;
    memory.anon_bytes = bytes(200 + 10 * t);
  };
  return find(job.watch(8), FindingCode::kCopyOnWriteGrowth).has_value();
}

TEST(CopyOnWriteGrowth, GrowthOfOthersInTheGroupIsNotTakenForCopies) {
  constexpr double kNotRead = -1;
  EXPECT_TRUE(is_copying_by_group("/job", kNotRead));
  EXPECT_FALSE(is_copying_by_group("/", kNotRead)) << "everybody's group";
  EXPECT_FALSE(is_copying_by_group("/job", 67)) << "each process says that it copies nothing";
}

TEST(CopyOnWriteGrowth, IsNotSaidOfTheHealthy) {
  struct Twin {
    std::string name;
    std::function<Has(int32_t, double)> has;
  };
  const std::vector<Twin> twins = {
      {"nothing is copied", [](int32_t, double) { return Has{.anon = 200, .pss_anon = 67}; }},
      {"the interpreter's own pages",
       [](int32_t pid, double t) {
         Has now = copying(pid, t, 16);
         now.pss_anon = 67 + (now.pss_anon - 67) / 15;
         return now;
       }},
      {"new memory",
       [](int32_t pid, double t) {
         const double grown = pid == Scene::kTrainerPid ? 0 : 20 * t;
         return Has{.anon = 200 + grown, .pss_anon = 67 + grown, .faults = grown};
       }},
      {"the parts grow without a fault, as when another sharer lets go",
       [](int32_t pid, double t) {
         Has now = copying(pid, t, 16);
         now.faults = 0;
         return now;
       }},
  };
  for (const Twin& twin : twins) {
    Job job(2);
    job.has = twin.has;
    EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth)) << twin.name;
  }
}

TEST(CopyOnWriteGrowth, WhoComesAndGoesEndsTheAccount) {
  Job job(2);
  job.lives = [](int32_t pid, double t) { return pid != 102 || t < 4; };
  job.has = [](int32_t, double t) {
    // The other two have the pages of the third for themselves.
    return Has{.anon = 200, .pss_anon = t < 4 ? 67.0 : 100.0, .faults = 50 * t};
  };
  EXPECT_FALSE(find(job.watch(8), FindingCode::kCopyOnWriteGrowth));
}

TEST(CopyOnWriteGrowth, IsNotRuledOutUnseen) {
  Job job(2);
  const Verdict verdict = job.watch(35);
  ASSERT_EQ(verdict.limits.size(), 1U);
  EXPECT_THAT(verdict.limits.front().what.plain(), HasSubstr("DLP0504"));
}

std::function<Has(int32_t, double)> leak_of(std::vector<int32_t> pids, double rate) {
  return [pids, rate](int32_t pid, double t) {
    return Has{.anon = 100 + (std::ranges::count(pids, pid) > 0 ? rate * t : 0), .pss_anon = 0};
  };
}

TEST(MemoryLeak, OneWorkerIsNamedWithRateAndLimit) {
  Job job(3);
  job.has = leak_of({102}, 10);
  job.cgroup = [](double t, CgroupMemory& group) {
    group.limit_bytes = bytes(20'000);
    group.used_bytes = bytes(5000 + 10 * t);
    group.file_bytes = bytes(1000);
  };
  const Verdict verdict = job.watch(32);
  ASSERT_EQ(verdict.findings.size(), 1U);
  const Finding& finding = verdict.findings.front();
  EXPECT_THAT(finding,
              Is(FindingCode::kWorkerMemoryLeak, Severity::kWarning, Confidence::kPossible));
  EXPECT_EQ(finding.discriminator, "worker");
  EXPECT_THAT(finding.processes, testing::ElementsAre(key_of(102)));
  EXPECT_NEAR(static_cast<double>(number(finding, "growth")), 10 * kMi, kMi / 10);
  EXPECT_THAT(finding, Says("worker 102 (the only one of 3 workers) leaks"));
  // (20000 - 5320 + 1000) MiB at 10 MiB/s.
  EXPECT_THAT(finding, Says("cgroup /job (19.5 GiB) is reached in 26 min"));
  EXPECT_THAT(verdict.limits, IsEmpty());
}

TEST(MemoryLeak, IsAnErrorCloseToTheLimit) {
  Job job(3);
  job.has = leak_of({102}, 10);
  job.cgroup = [](double t, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.used_bytes = bytes(400 + 10 * t);
  };
  EXPECT_EQ(must_find(job.watch(32), FindingCode::kWorkerMemoryLeak).severity, Severity::kError);
}

// Worker 101 grows to the end of the job at `end_s`; then its group is empty.
Job leak_that_ends(double end_s) {
  Job job(2);
  job.has = leak_of({101}, 10);
  job.lives = [=](int32_t, double t) { return t <= end_s; };
  job.cgroup = [=](double t, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.used_bytes = bytes(t <= end_s ? 400 + 10 * t : 1);
  };
  return job;
}

void all_end(Job& job, double at_s, int wait_status) {
  for (const ProcessInfo& each : job.run().processes) {
    job.run().exits.push_back(
        {.key = each.key, .at = Scene::at(at_s), .wait_status = wait_status, .source = ""});
  }
}

TEST(MemoryLeak, OfAJobThatEndedIsHeldAgainstWhatWasLeftBeforeItsEnd) {
  Job job = leak_that_ends(36);
  all_end(job, 36.1, 0);
  const Finding finding = must_find(job.watch(38), FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(number(finding, "memory_left"), int64_t{240} << 20);
  EXPECT_THAT(finding, Says("(1000.0 MiB) would have been reached in 24.0 s"));
}

TEST(MemoryLeak, AfterAnOomKillTheLimitWasReached) {
  Job job = leak_that_ends(36);
  all_end(job, 36.1, SIGKILL);
  for (ProcessInfo& each : job.run().processes)
    each.cgroup = "/job";
  const uint64_t killed = job.run().processes.size();
  job.run().oom_counters = {{.at = Scene::at(0), .cgroup = "/job", .kills = 0},
                            {.at = Scene::at(36.1), .cgroup = "/job", .kills = killed}};
  const Finding finding = must_find(job.watch(38), FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_THAT(finding, Says("cgroup /job (1000.0 MiB) was reached"));
  EXPECT_THAT(finding, Not(Says("reached in")));
  job.run().samples.clear();
  job.run().oom_counters.back().kills = 0;
  EXPECT_THAT(find(job.watch(38), FindingCode::kWorkerMemoryLeak)->message.plain(),
              HasSubstr("would have been reached in "))
      << "another SIGKILL";
}

TEST(MemoryLeak, SeveralWorkersAreOneFindingAndTheirSumCounts) {
  Job job(3);
  job.has = leak_of({101, 102, 103}, 10);
  job.host = [](double, HostMemory& memory) { memory.available_bytes = bytes(2000); };
  const Finding finding = only_finding(job.watch(32));
  EXPECT_THAT(finding, Says("all 3 workers leak 30.0 MiB/s together"));
  EXPECT_EQ(finding.severity, Severity::kError) << "67 s away";
}

TEST(MemoryLeak, TheTrainingProcessIsAnotherCase) {
  Job job(3);
  job.has = leak_of({100}, 10);
  const Finding finding = must_find(job.watch(32), FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(finding.discriminator, "trainer");
  EXPECT_THAT(finding, Says("trainer 100 leaks"));
}

TEST(MemoryLeak, WhatATrainerCollectsIsJoinedAtItsEnd) {
  const auto ended = [](double joined, double rate = 10) {
    Job job(2);
    job.has = [=](int32_t pid, double t) {
      const double collected = pid == Scene::kTrainerPid ? rate * t : 0;
      return Has{.anon = 100 + collected + (t > 23.4 ? joined : 0), .pss_anon = 0};
    };
    job.lives = [](int32_t, double t) { return t <= 23.6; };
    all_end(job, 23.7, 0);
    job.run().end = {.at = Scene::at(23.7), .wait_status = 0};
    return find(job.watch(23.7), FindingCode::kWorkerMemoryLeak);
  };
  EXPECT_EQ(must(ended(0)).severity, Severity::kWarning);
  EXPECT_FALSE(ended(230));
  EXPECT_FALSE(ended(0, 4)) << "too little";
}

// The libraries of a trainer take seconds to end, with less memory than the loop had.
TEST(MemoryLeak, IsToldThoughTheEndTakesLong) {
  Job job(0);
  job.has = [](int32_t, double t) {
    return Has{.anon = t < 30 ? 100 + 8 * t : 100, .pss_anon = 0};
  };
  job.lives = [](int32_t, double t) { return t <= 34; };
  all_end(job, 34.1, 0);
  job.run().end = {.at = Scene::at(34.1), .wait_status = 0};
  EXPECT_TRUE(find(job.watch(34.1), FindingCode::kWorkerMemoryLeak));
}

TEST(MemoryLeak, ACompilerMayEnd) {
  Job job(3);
  job.run().processes.front().exe = "/usr/bin/python3.11";
  job.run().processes.back().role = Role::kOther;
  job.run().processes.back().exe = "/usr/lib/gcc/cc1plus";
  job.has = leak_of({103}, 10);
  EXPECT_EQ(must_find(job.watch(20), FindingCode::kWorkerMemoryLeak).severity, Severity::kInfo);
  Job own = job;
  own.run().samples.clear();
  own.run().processes.back().exe = "/usr/bin/python3.11";
  EXPECT_EQ(find(own.watch(20), FindingCode::kWorkerMemoryLeak)->severity, Severity::kWarning);
}

TEST(MemoryLeak, WhatIsSwappedOutStillCounts) {
  Job job(2);
  job.has = [](int32_t pid, double t) {
    return Has{.anon = 100, .swap = pid == 101 ? 10 * std::floor(t) : 0, .pss_anon = 0};
  };
  EXPECT_TRUE(find(job.watch(40), FindingCode::kWorkerMemoryLeak));
}

TEST(MemoryLeak, LongWatchedItIsLikely) {
  Job job(2);
  job.has = leak_of({101}, 0.5);
  EXPECT_EQ(must_find(job.watch(290), FindingCode::kWorkerMemoryLeak).confidence,
            Confidence::kLikely);
}

TEST(MemoryLeak, IsNotSaidOfTheHealthy) {
  struct Twin {
    std::string name;
    std::function<Has(int32_t, double)> has;
  };
  const std::vector<Twin> twins = {
      {"flat", [](int32_t, double) { return Has{.pss_anon = 0}; }},
      {"mapped file", [](int32_t, double t) { return Has{.shared = 20 + 10 * t, .pss_anon = 0}; }},
      {"warm-up for 20 s",
       [](int32_t, double t) { return Has{.anon = 100 + 20 * std::min(t, 20.0), .pss_anon = 0}; }},
      {"sawtooth",
       [](int32_t, double t) { return Has{.anon = 100 + 50 * std::fmod(t, 4), .pss_anon = 0}; }},
  };
  for (const Twin& twin : twins) {
    Job job(2);
    job.has = twin.has;
    EXPECT_THAT(job.watch(40).findings, IsEmpty()) << twin.name;
  }
}

TEST(MemoryLeak, AShortWatchIsSaidToBeShort) {
  Job job(2);
  job.has = [](int32_t, double) { return Has{.pss_anon = 0}; };
  const Verdict verdict = job.watch(5);
  ASSERT_EQ(verdict.limits.size(), 1U);
  EXPECT_THAT(verdict.limits.front().why.plain(), HasSubstr("15 s"));
}

// A job whose group's shared memory is what `shmem` says; each process has what `has` says of it.
Job sharing(const std::function<double(double t)>& shmem,
            const std::function<double(int32_t pid, double t)>& has) {
  Job job(2);
  job.has = [=](int32_t pid, double t) { return Has{.shared = 20 + has(pid, t), .pss_anon = 0}; };
  job.cgroup = [=](double t, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.shmem_bytes = bytes(shmem(t));
    group.used_bytes = bytes(100 + shmem(t));
  };
  return job;
}

double ramp(double t) {
  return 8 * t;
}

// 101 alone.
double ramp_of_101(int32_t pid, double t) {
  return pid == 101 ? ramp(t) : 0;
}

TEST(SharedMemoryGrowth, IsOfTheProcessThatHasIt) {
  const Finding finding = only_finding(sharing(ramp, ramp_of_101).watch(36));
  EXPECT_EQ(finding.code, FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(finding.discriminator, "worker-in-shared-memory");
  EXPECT_THAT(finding.processes, testing::ElementsAre(key_of(101)));
  EXPECT_THAT(finding, Says("worker 101 leaks 8.0 MiB/s of shared memory"));
  // 1000 - 100 - 288 MiB at 8 MiB/s.
  EXPECT_THAT(finding, Says("is reached in 1 min 16 s"));
  EXPECT_EQ(finding.severity, Severity::kWarning);
}

TEST(SharedMemoryGrowth, TellsThatMoreOfItsOwnMemoryGrewMeanwhile) {
  const auto watched = [](bool has_loader) {
    Job job = sharing(ramp, ramp_of_101);
    job.has = [](int32_t pid, double t) {
      // In one step, which is no growth by itself.
      return Has{.anon = pid == 101 && t > 18 ? 900.0 : 100.0, .shared = 20 + ramp_of_101(pid, t)};
    };
    if (has_loader) job.run().start_events.push_back({.kind = StartEventKind::kLoaderMade});
    return find(job.watch(36), FindingCode::kWorkerMemoryLeak);
  };
  const auto finding = watched(true);
  ASSERT_TRUE(finding);
  EXPECT_THAT(finding->message.plain(), HasSubstr("worker 101 leaks 8.0 MiB/s of shared memory"));
  EXPECT_THAT(finding->message.plain(), HasSubstr("; its own memory grew by 33.3 MiB/s meanwhile"));
  EXPECT_THAT(finding->remedies.front().title.plain(), HasSubstr("what the dataset keeps"));
  const auto of_pool = watched(false);
  ASSERT_TRUE(of_pool);
  EXPECT_THAT(of_pool->remedies.front().title.plain(), HasSubstr("what it keeps between tasks"));
  EXPECT_EQ(of_pool->remedies.at(1).commands.front().plain(),
            "multiprocessing.Pool(..., maxtasksperchild=100)");
}

// Pinned memory of CUDA, say. Of the memory of all there are too few looks.
Job looked_at_for_seconds(const std::function<double(double t)>& of_trainer) {
  Job job = sharing(ramp, [=](int32_t pid, double t) { return pid == 100 ? of_trainer(t) : 0; });
  job.cgroup = nullptr;
  job.host = [=](double t, HostMemory& memory) {
    memory.shmem_bytes = bytes(ramp(t - std::fmod(t, 3)));
  };
  for (const int second : {1, 15}) {
    job.run().ledgers.push_back({});
    job.run().ledgers.back().at = Scene::at(second);
  }
  return job;
}

TEST(SharedMemoryGrowth, OfALookOfSecondsAndInNoSegment) {
  const Finding finding =
      must_find(looked_at_for_seconds(ramp).watch(17), FindingCode::kWorkerMemoryLeak);
  EXPECT_THAT(finding, Says("trainer 100 leaks 8.0 MiB/s of shared memory "
                            "(pinned, or a mapping of its own"));
  EXPECT_THAT(finding, Says("a filling cache looks the same"));
  EXPECT_THAT(finding, AdvisesFirst("pinned buffers"));
  const auto faster = [](double t) { return 3 * ramp(t); };
  EXPECT_THAT(looked_at_for_seconds(faster).watch(17).findings, IsEmpty()) << "mapped files";
  const auto slower = [](double t) { return ramp(t) / 2; };
  EXPECT_THAT(looked_at_for_seconds(slower).watch(17).findings, IsEmpty()) << "another job's";
}

TEST(SharedMemoryGrowth, OfAllWorkersTogether) {
  const auto half = [](int32_t pid, double t) { return pid == 100 ? 0 : ramp(t) / 2; };
  const Finding finding = must_find(sharing(ramp, half).watch(36), FindingCode::kWorkerMemoryLeak);
  EXPECT_EQ(finding.processes.size(), 2U);
  EXPECT_THAT(finding, Says("2 workers leak 8.0 MiB/s of shared memory"));
}

TEST(SharedMemoryGrowth, OfAJobThatEndedAndOfAWorkerThatWasKilled) {
  for (const int32_t killed : {0, 101}) {
    const auto until = [](double t) { return t <= 36 ? ramp(t) : 0; };
    Job job = sharing(until, [=](int32_t pid, double t) { return pid == 101 ? until(t) : 0; });
    job.lives = [=](int32_t pid, double t) { return t <= 36 || (killed > 0 && pid != killed); };
    if (killed > 0) {
      job.run().exits.push_back(
          {.key = key_of(killed), .at = Scene::at(36.1), .wait_status = SIGKILL, .source = ""});
    } else {
      all_end(job, 36.1, 0);
    }
    const Verdict verdict = job.watch(killed > 0 ? 60 : 37);
    EXPECT_THAT(must_find(verdict, FindingCode::kWorkerMemoryLeak).message.plain(),
                HasSubstr("would have been reached in "));
  }
}

// Segments of 1 MiB that the trainer has open but never touches: its RSS does not grow.
Verdict with_kept_batches(int most_listed) {
  Job job = sharing(ramp, [](int32_t, double) { return 0.0; });
  for (int second = 0; second <= 36; second += 6) {
    ShmLedger ledger;
    ledger.at = Scene::at(second);
    ledger.device = Scene::kDevice;
    const int listed = std::min(8 * second, most_listed);
    for (int number = 0; number < listed; ++number)
      ledger.segments.push_back(
          unlinked_tensor(101, static_cast<uint64_t>(number) + 1, kMiB, Scene::kTrainerPid));
    ledger.omitted_segments = static_cast<uint64_t>(8 * second - listed);
    ledger.omitted_bytes = ledger.omitted_segments * kMiB;
    job.run().ledgers.push_back(std::move(ledger));
  }
  return job.watch(38);
}

TEST(SharedMemoryGrowth, OfBatchesThatTheTrainerKeepsIsToldByWhatItHolds) {
  const Finding finding = must_find(with_kept_batches(1000), FindingCode::kWorkerMemoryLeak);
  EXPECT_THAT(finding, Says("trainer 100 leaks 8.0 MiB/s of shared memory"));
  EXPECT_EQ(text(finding, "held_by_100"), "288.0 MiB in 288 segments");
  EXPECT_EQ(text(must_find(with_kept_batches(100), FindingCode::kWorkerMemoryLeak), "held_by_100"),
            "at least 100.0 MiB in 100 segments");
}

TEST(SharedMemoryGrowth, IsNotSaidOfTheHealthy) {
  const auto full = [](double t) { return std::min(12 * t, 300.0); };
  const auto epochs = [](double t) { return 20 * std::fmod(t, 12); };
  const auto of_101 = [](const std::function<double(double)>& value) {
    return [=](int32_t pid, double t) { return pid == 101 ? value(t) : 0; };
  };
  EXPECT_THAT(sharing(full, of_101(full)).watch(70).findings, IsEmpty()) << "a prefetch fill";
  EXPECT_THAT(sharing(epochs, of_101(epochs)).watch(70).findings, IsEmpty()) << "epochs";
  const auto none = [](int32_t, double) { return 0.0; };
  EXPECT_THAT(sharing(ramp, none).watch(40).findings, IsEmpty()) << "another job's";
  const auto half = [](int32_t pid, double t) { return ramp_of_101(pid, t) / 2; };
  EXPECT_THAT(sharing(ramp, half).watch(40).findings, IsEmpty()) << "half is another job's";
  const auto flat = [](double) { return 50.0; };
  EXPECT_THAT(sharing(flat, ramp_of_101).watch(40).findings, IsEmpty()) << "mapped files";
}

TEST(SharedMemoryGrowth, IsNotOfWorkersOfEpochsThatAreOver) {
  Job job(12);
  job.cgroup = sharing(ramp, ramp_of_101).cgroup;
  // The libraries that each worker meets in its six seconds.
  const auto age = [](int32_t pid, double t) { return t - 3 * (pid - 101); };
  job.lives = [=](int32_t pid, double t) {
    return pid == Scene::kTrainerPid || (age(pid, t) >= 0 && age(pid, t) < 6);
  };
  job.has = [=](int32_t pid, double t) {
    return Has{.shared = pid == Scene::kTrainerPid ? 20 : 20 + 7 * age(pid, t), .pss_anon = 0};
  };
  EXPECT_FALSE(find(job.watch(38), FindingCode::kWorkerMemoryLeak));
}

TEST(PrefetchBacklog, WhoWaitsToSendDoesNotLeak) {
  Job job(2);
  job.has = [](int32_t pid, double t) {
    Has now = {.anon = 100 + (pid == 100 ? 0 : 10 * t), .pss_anon = 0};
    now.in_write = pid != 100;
    return now;
  };
  const Finding finding = only_finding(job.watch(32));
  EXPECT_EQ(finding.code, FindingCode::kPrefetchBacklog);
  EXPECT_THAT(finding, Says("both workers grow by 20.0 MiB/s"));
}

TEST(PrefetchBacklog, OfTwoThatSendThroughOnePipeOneIsInWrite) {
  Job job(2);
  job.has = [](int32_t pid, double t) {
    Has now = {.anon = 100 + (pid == 100 ? 0 : 10 * t), .pss_anon = 0};
    now.in_write = static_cast<int>(t) % 2 == pid % 2;
    return now;
  };
  EXPECT_TRUE(find(job.watch(32), FindingCode::kPrefetchBacklog));
  job = Job(2);
  job.has = [](int32_t pid, double t) {
    Has now = {.anon = 100 + (pid == 100 ? 0 : 10 * t), .pss_anon = 0};
    now.in_write = static_cast<int>(t) % 4 == pid % 2;
    return now;
  };
  EXPECT_FALSE(find(job.watch(32), FindingCode::kPrefetchBacklog)) << "half of the time nobody is";
}

ShmSegment in_worker(uint64_t inode) {
  return unlinked_tensor(101, inode, 64 * kMiB, 101);
}

ShmSegment in_worker_and_trainer(uint64_t inode) {
  ShmSegment segment = in_worker(inode);
  segment.holders.push_back({.key = key_of(100), .comm = "", .in_tree = true});
  return segment;
}

// Worker 101 is 7 in its container.
ShmSegment in_nobody(uint64_t inode) {
  return tensor(7, inode, 64 * kMiB, CreatorState::kAlive);
}

// Segments of 64 MiB.
Verdict with_segments(const std::function<int(int)>& count_at, ShmSegment (*segment_of)(uint64_t),
                      int most_listed = 1000) {
  Job job(2);
  job.run().processes.at(1).namespace_pids = {101, 7};
  job.has = [](int32_t, double) { return Has{.pss_anon = 0}; };
  job.host = [](double, HostMemory& memory) { memory.total_bytes = 8 * kGiB; };
  for (int second = 0; second <= 40; ++second) {
    ShmLedger ledger;
    ledger.at = Scene::at(second);
    const int listed = std::min(count_at(second), most_listed);
    ledger.omitted_segments = static_cast<uint64_t>(count_at(second) - listed);
    ledger.omitted_bytes = ledger.omitted_segments * 64 * kMiB;
    for (int number = 0; number < listed; ++number)
      ledger.segments.push_back(segment_of(static_cast<uint64_t>(number) + 1));
    ledger.device = Scene::kDevice;
    ledger.used_bytes = static_cast<uint64_t>(count_at(second)) * 64 * kMiB;
    for (int tick = 0; tick < 10; ++tick) {
      job.run().shm_use.push_back({.at = Scene::at(second + tick / 10.0),
                                   .device = Scene::kDevice,
                                   .used_bytes = ledger.used_bytes});
    }
    job.run().ledgers.push_back(std::move(ledger));
  }
  return job.watch(40);
}

TEST(PrefetchBacklog, AStandingOneIsToldWhereItIsLarge) {
  const Finding finding =
      must_find(with_segments([](int) { return 16; }, in_worker), FindingCode::kPrefetchBacklog);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_EQ(number(finding, "waiting"), int64_t{1} << 30);
  EXPECT_THAT(finding, Says("16 tensors of 1.0 GiB together", "12 %"));
}

TEST(PrefetchBacklog, ItsNamedFilesAreKnownByThePidInTheContainer) {
  EXPECT_TRUE(
      find(with_segments([](int) { return 16; }, in_nobody), FindingCode::kPrefetchBacklog));
}

TEST(PrefetchBacklog, AGrowingOneSaysWhen) {
  const Finding finding = must_find(with_segments([](int second) { return second; }, in_worker),
                                    FindingCode::kPrefetchBacklog);
  EXPECT_THAT(finding, Says("grow by 64.0 MiB/s"));
  const auto crowded = find(with_segments([](int second) { return second; }, in_worker, 10),
                            FindingCode::kPrefetchBacklog);
  ASSERT_TRUE(crowded) << "more segments than are listed";
  EXPECT_THAT(crowded->message.plain(), HasSubstr("at least 10 tensors"));
  EXPECT_THAT(crowded->message.plain(), HasSubstr("grow by 64.0 MiB/s"));
}

TEST(PrefetchBacklog, IsNotSaidOfTheHealthy) {
  EXPECT_THAT(with_segments([](int) { return 3; }, in_worker).findings, IsEmpty()) << "small";
  EXPECT_THAT(with_segments([](int) { return 16; }, in_worker_and_trainer).findings, IsEmpty())
      << "the trainer has them";
  EXPECT_THAT(
      with_segments([](int second) { return second % 4 == 0 ? 1 : 16; }, in_worker).findings,
      IsEmpty())
      << "comes and goes";
}

Job swapping(double pages_per_second, double subject_swap, uint64_t faults_per_second) {
  Job job(2);
  job.has = [=](int32_t, double t) {
    return Has{.swap = subject_swap,
               .pss_anon = 0,
               .major_faults = static_cast<uint64_t>(static_cast<double>(faults_per_second) * t)};
  };
  job.host = [=](double t, HostMemory& memory) {
    memory.swapped_in_pages = 1000 + static_cast<uint64_t>(pages_per_second * t);
    memory.swapped_out_pages = 5000;
    memory.pressure = MemoryPressure{.full_us = static_cast<uint64_t>(5e5 * t)};
  };
  return job;
}

TEST(SwapThrash, IsAnErrorOfTheSubjectThatSwaps) {
  const Finding finding = must_find(swapping(2000, 300, 500).watch(10), FindingCode::kSwapThrash);
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.processes.size(), 3U);
  EXPECT_THAT(finding, Says("7.8 MiB/s"));
}

TEST(SwapThrash, WithLittlePressureItIsAWarning) {
  Job job = swapping(2000, 300, 500);
  const auto counters = job.host;
  job.host = [=](double t, HostMemory& memory) {
    counters(t, memory);
    memory.pressure->full_us = 0;
  };
  EXPECT_EQ(find(job.watch(10), FindingCode::kSwapThrash)->severity, Severity::kWarning);
}

TEST(SwapThrash, AnotherJobsSwappingIsNoErrorOfThisOne) {
  EXPECT_EQ(must_find(swapping(2000, 0, 0).watch(10), FindingCode::kSwapThrash).severity,
            Severity::kInfo);
}

TEST(SwapThrash, IsNotSaidOfTheHealthy) {
  EXPECT_THAT(swapping(10, 300, 5).watch(10).findings, IsEmpty()) << "what lies in swap may lie";
  EXPECT_THAT(swapping(0, 0, 500).watch(10).findings, IsEmpty()) << "faults of files";
  EXPECT_THAT(swapping(2000, 300, 500).watch(3).findings, IsEmpty()) << "too short";
}

Verdict with_group(double anon, double shmem, double file, double seconds) {
  Job job(2);
  job.has = [](int32_t, double) { return Has{.pss_anon = 0}; };
  job.cgroup = [=](double, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.used_bytes = bytes(anon + shmem + file);
    group.anon_bytes = bytes(anon);
    group.shmem_bytes = bytes(shmem);
    group.file_bytes = bytes(file);
  };
  return job.watch(seconds);
}

ContainerLook look_at(int32_t pid, double t, std::vector<GrownContainer> grown) {
  return {.at = Scene::at(t),
          .before_at = Scene::at(t - 5),
          .process = key_of(pid),
          .grown = std::move(grown)};
}

GrownContainer list_of(const std::string& name, uint64_t before, uint64_t count,
                       std::optional<uint64_t> item_bytes = {}) {
  return {.address = before % 10 + 1,
          .name = name,
          .type = "list",
          .before = before,
          .count = count,
          .item_bytes = item_bytes,
          .user = StackFrame{
              .python = true, .function = "Meter.update", .file = "/job/t.py", .line = 12}};
}

TEST(WorkerMemoryLeak, NamesTheContainerThatGrowsWithIt) {
  Job job(0);
  job.has = leak_of({100}, 10);
  for (uint64_t look = 1; look < 6; ++look) {
    const double t = 5 * static_cast<double>(look);
    job.run().grown.push_back(
        look_at(100, t,
                {list_of("Meter.steps", 5 + 50 * (look - 1), 5 + 50 * look, 40),
                 list_of("Meter.h", 0 + 50 * (look - 1), 50 * look)}));
  }
  EXPECT_THAT(
      must_find(job.watch(36), FindingCode::kWorkerMemoryLeak),
      Says("its list Meter.h grew from 100 to 250 items meanwhile at t.py:12 in Meter.update"));
}

TEST(WorkerMemoryLeak, OfACycleTheLoaderIsBegunAnew) {
  Job job(0);
  job.has = leak_of({100}, 10);
  for (uint64_t look = 1; look < 6; ++look) {
    GrownContainer cycle = list_of("loader", 50 * (look - 1), 50 * look);
    cycle.type = "itertools.cycle";
    job.run().grown.push_back(look_at(100, 5 * static_cast<double>(look), {cycle}));
  }
  const Finding finding = must_find(job.watch(36), FindingCode::kWorkerMemoryLeak);
  EXPECT_THAT(finding, Says("its cycle loader grew"));
  EXPECT_THAT(finding, AdvisesFirst("Begin the loader anew"));
}

TEST(WorkerMemoryLeak, WhereNoContainerGrowsNativeCodeMayKeepIt) {
  const auto title = [](std::vector<GrownContainer> grown) {
    Job job(1);
    job.has = leak_of({101}, 10);
    for (int look = 1; look < 6; ++look) {
      ContainerLook looked = look_at(101, 5.0 * look, grown);
      looked.crowd = StackFrame{
          .python = true, .function = "Sat.__getitem__", .file = "/job/sat.py", .line = 7};
      job.run().grown.push_back(std::move(looked));
    }
    return must_find(job.watch(36), FindingCode::kWorkerMemoryLeak).remedies.front().title.plain();
  };
  EXPECT_THAT(title({}), HasSubstr("native code (ctypes, an extension module)"));
  EXPECT_THAT(title({}), HasSubstr("at sat.py:7 in Sat.__getitem__"));
  EXPECT_THAT(title({list_of("Sat.seen", 5, 50, 40)}), Not(HasSubstr("native code")));
}

TEST(WorkerMemoryLeak, OfALibraryFewItemsAreHardlyIt) {
  const auto found = [](uint64_t items_per_look) {
    Job job(1);
    job.has = leak_of({101}, 100);
    for (uint64_t look = 1; look < 6; ++look) {
      GrownContainer cache =
          list_of("Sharer.cache", items_per_look * (look - 1), items_per_look * look);
      cache.user.reset();
      cache.address = 1;
      ContainerLook looked = look_at(101, 5 * static_cast<double>(look), {cache});
      looked.crowd = StackFrame{
          .python = true, .function = "Sat.__getitem__", .file = "/job/sat.py", .line = 7};
      job.run().grown.push_back(std::move(looked));
    }
    return must_find(job.watch(36), FindingCode::kWorkerMemoryLeak);
  };
  EXPECT_THAT(found(1).message.plain(), Not(HasSubstr("Sharer.cache")));
  EXPECT_THAT(found(1), AdvisesFirst("look for native code"));
  EXPECT_THAT(found(500).message.plain(), HasSubstr("its list Sharer.cache grew"));
  EXPECT_THAT(found(500).remedies.front().title.plain(), Not(HasSubstr("native code")));
}

TEST(WorkerMemoryLeak, AListOfAJobThatEndsWellMayBeItsResult) {
  const auto ended = [](int status, double rate) {
    Job job(2);
    job.has = leak_of({Scene::kTrainerPid}, rate);
    for (uint64_t look = 1; look < 6; ++look)
      job.run().grown.push_back(look_at(Scene::kTrainerPid, 5 * static_cast<double>(look),
                                        {list_of("out", 50 * (look - 1), 50 * look)}));
    job.lives = [](int32_t, double t) { return t <= 35; };
    all_end(job, 35.5, status);
    job.run().end = {.at = Scene::at(35.5), .wait_status = status};
    return must_find(job.watch(36), FindingCode::kWorkerMemoryLeak);
  };
  const Finding result = ended(0, 10);
  EXPECT_EQ(result.severity, Severity::kInfo);
  EXPECT_THAT(result.message.plain(), HasSubstr("trainer 100 grows by 10.0 MiB/s; its list out"));
  EXPECT_NE(ended(1 << 8, 10).severity, Severity::kInfo) << "it failed";
  EXPECT_NE(ended(0, 400).severity, Severity::kInfo) << "it came near the end of the memory";
}

TEST(WorkerMemoryLeak, ABoundedContainerFills) {
  const auto with = [](const std::string& type) {
    Job job(0);
    job.has = leak_of({100}, 10);
    for (uint64_t look = 1; look < 6; ++look) {
      std::vector<GrownContainer> grown;
      // Before the first items came, libraries were loaded.
      if (look > 2) grown = {list_of("Agent.replay", 50 * (look - 1), 50 * look)};
      for (GrownContainer& each : grown)
        each.type = type;
      job.run().grown.push_back(look_at(100, 5 * static_cast<double>(look), std::move(grown)));
    }
    return find(job.watch(36), FindingCode::kWorkerMemoryLeak);
  };
  const auto bounded = with("collections.deque(maxlen=5000)");
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->severity, Severity::kInfo);
  EXPECT_THAT(bounded->message.plain(),
              HasSubstr("trainer 100 grows by 10.0 MiB/s; its deque(maxlen=5000) Agent.replay"));
  const auto unbounded = with("collections.deque");
  ASSERT_TRUE(unbounded);
  EXPECT_EQ(unbounded->severity, Severity::kWarning);
  EXPECT_THAT(unbounded->message.plain(),
              HasSubstr("trainer 100 leaks 10.0 MiB/s; its deque Agent.replay"));
}

TEST(WorkerMemoryLeak, DoesNotNameAContainerOfNumbersNorOneThatStopped) {
  Job job(0);
  job.has = leak_of({100}, 10);
  for (uint64_t look = 1; look < 6; ++look) {
    const double t = 5 * static_cast<double>(look);
    std::vector<GrownContainer> grown = {
        list_of("Meter.steps", 5 + 50 * (look - 1), 5 + 50 * look, 40)};
    if (look < 3) grown.push_back(list_of("Meter.cache", 7 + 50 * look, 7 + 50 * (look + 1)));
    job.run().grown.push_back(look_at(100, t, std::move(grown)));
  }
  EXPECT_THAT(must_find(job.watch(36), FindingCode::kWorkerMemoryLeak), Not(Says("Meter.")));
}

TEST(MemoryLimitTooLow, CountsWhatIsKeptAndNotThePageCache) {
  const Finding finding = must_find(with_group(700, 240, 50, 15), FindingCode::kMemoryLimitTooLow);
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("94 %"));
  EXPECT_EQ(number(finding, "limit_that_would_do"), int64_t{1280} << 20);
  EXPECT_FALSE(find(with_group(500, 100, 390, 15), FindingCode::kMemoryLimitTooLow));
  EXPECT_FALSE(find(with_group(700, 240, 50, 5), FindingCode::kMemoryLimitTooLow)) << "too short";
}

// A job that keeps so much of its 1000 MiB until it ends.
Verdict with_group_until(double kept, double end_s) {
  Job job(2);
  job.has = [](int32_t, double) { return Has{.pss_anon = 0}; };
  job.lives = [=](int32_t, double t) { return t <= end_s; };
  job.cgroup = [=](double t, CgroupMemory& group) {
    const double freed = t > end_s - 0.3 ? 0.5 : 1;
    group.limit_bytes = bytes(1000);
    group.anon_bytes = bytes(t > end_s ? 1 : kept * freed);
    group.used_bytes = *group.anon_bytes;
  };
  all_end(job, end_s + 0.1, 0);
  return job.watch(end_s + 1);
}

TEST(MemoryLimitTooLow, OfAJobThatEndedIsToldByTheTimeBeforeItsEnd) {
  EXPECT_THAT(must_find(with_group_until(950, 30), FindingCode::kMemoryLimitTooLow), Says("95 %"));
  EXPECT_FALSE(find(with_group_until(850, 30), FindingCode::kMemoryLimitTooLow));
  EXPECT_FALSE(find(with_group_until(950, 8), FindingCode::kMemoryLimitTooLow)) << "too short";
}

TEST(MemoryLimitTooLow, IsAConsequenceOfALeak) {
  Job job(2);
  job.has = leak_of({101}, 10);
  job.cgroup = [](double t, CgroupMemory& group) {
    group.limit_bytes = bytes(1000);
    group.anon_bytes = bytes(750 + 6 * t);
    group.used_bytes = *group.anon_bytes;
  };
  EXPECT_EQ(must_find(job.watch(36), FindingCode::kMemoryLimitTooLow).consequence_of,
            FindingCode::kWorkerMemoryLeak);
}

TEST(Memory, WithoutAnyLimitThereIsAGap) {
  Job job(2);
  job.reads_host = false;
  EXPECT_THAT(job.watch(5).gaps, Not(IsEmpty()));
  Job seen(2);
  EXPECT_THAT(seen.watch(5).gaps, IsEmpty());
}

}  // namespace
}  // namespace dlprobe
