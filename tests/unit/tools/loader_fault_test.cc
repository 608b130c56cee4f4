#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <string>

#include "lib/model/finding.h"
#include "tests/support/must.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {
namespace {

using ::testing::HasSubstr;

Expected<FaultEffects> effects(const std::string& text, const LoaderPlan& plan = {}) {
  const auto fault = parse_fault(text);
  if (!fault) return std::unexpected(fault.error());
  return effects_of(*fault, plan);
}

std::string error_of(const std::string& text, const LoaderPlan& plan = {}) {
  const auto result = effects(text, plan);
  return result ? "" : to_string(result.error());
}

TEST(LoaderFault, NoneHasNoEffects) {
  const auto none = must(effects(""));
  EXPECT_EQ(none.kind, FaultKind::kNone);
  EXPECT_FALSE(none.shm.has_value());
}

TEST(LoaderFault, EachHangAndEachDeathNeedsNoMountAndEnoughBatches) {
  LoaderPlan plan;
  plan.workers = 3;
  plan.prefetch_factor = 2;
  for (const FaultInfo& info : all_faults()) {
    if (info.kind == FaultKind::kShmLeak) continue;  // wants another sharing strategy
    const bool wants_limit = info.kind == FaultKind::kOomKilledByCgroup;
    const auto result = effects(std::string(info.name) + (wants_limit ? ":limit=64m" : ""), plan);
    ASSERT_TRUE(result) << info.name;
    EXPECT_EQ(result->kind, info.kind);
    if (result->as<Growth>() != nullptr || result->open_files != 0) continue;
    if (result->as<ThreadTeams>() != nullptr || result->as<StartFault>() != nullptr) continue;
    if (result->as<Hang>() == nullptr && result->as<Death>() == nullptr) {
      EXPECT_TRUE(result->shm.has_value()) << info.name;
      continue;
    }
    EXPECT_FALSE(result->shm.has_value()) << info.name;
    EXPECT_EQ(result->after, 4) << info.name;
    EXPECT_EQ(result->worker, 0) << info.name;
    EXPECT_GE(result->needs_batches, result->after + plan.workers) << info.name;
  }
}

TEST(LoaderFault, MemoryGrowsAtTheRateThatWasAskedFor) {
  LoaderPlan plan;
  plan.workers = 2;
  const auto leak = must(effects("worker-memory-leak:rate=4m,worker=1,seconds=7", plan));
  EXPECT_EQ(leak.kind, FaultKind::kWorkerMemoryLeak);
  EXPECT_EQ(leak.as<Growth>()->rate, uint64_t{4} << 20);
  EXPECT_EQ(leak.worker, 1);
  EXPECT_EQ(leak.as<Growth>()->lasts, std::chrono::seconds(7));
  EXPECT_FALSE(leak.shm.has_value());
  EXPECT_EQ(must(effects("copy-on-write-growth:size=64m", plan)).as<Growth>()->shared_bytes,
            uint64_t{64} << 20);
  const auto backlog = must(effects("prefetch-backlog:rate=32m,seconds=10", plan));
  EXPECT_EQ(backlog.as<Growth>()->rate, uint64_t{16} << 20) << "of each worker";
  EXPECT_GT(backlog.as<Growth>()->ahead, plan.workers * plan.prefetch_factor);
  EXPECT_TRUE(backlog.shm.has_value());
  EXPECT_GT(backlog.shm->size_bytes, uint64_t{320} << 20);
  EXPECT_THAT(error_of("worker-memory-leak:worker=2", plan), HasSubstr("numbered from 0 to 1"));
  plan.workers = 0;
  EXPECT_THAT(error_of("prefetch-backlog", plan), HasSubstr("without workers"));
}

TEST(LoaderFault, ATeamOfThreadsInEachWorker) {
  const auto four = must(effects("thread-oversubscription:threads=5"));
  EXPECT_EQ(four.as<ThreadTeams>()->threads, 5);
  EXPECT_FALSE(four.shm.has_value());
  EXPECT_EQ(four.needs_batches, 0);
  EXPECT_GE(effects("thread-oversubscription")->as<ThreadTeams>()->threads, 4);
  EXPECT_THAT(error_of("thread-oversubscription:threads=257"), HasSubstr("above 256"));
  LoaderPlan plan;
  plan.workers = 0;
  EXPECT_THAT(error_of("thread-oversubscription", plan), HasSubstr("without workers"));
}

TEST(LoaderFault, WhatBreaksAStartNeedsNothingButWorkers) {
  for (const char* name : {"missing-main-guard", "unpicklable-object", "recursive-process-creation",
                           "main-module-reimported"}) {
    const auto result = effects(name);
    ASSERT_TRUE(result) << name;
    EXPECT_NE(result->as<StartFault>(), nullptr) << name;
    EXPECT_FALSE(result->shm.has_value()) << name;
    LoaderPlan plan;
    plan.workers = 0;
    EXPECT_THAT(error_of(name, plan), HasSubstr("--workers 1")) << name;
  }
  EXPECT_THAT(error_of("missing-main-guard:seconds=1"), HasSubstr("which has none"));
  EXPECT_EQ(effects("missing-main-guard")->as<StartFault>()->own_work.count(), 0);
  EXPECT_EQ(effects("main-module-reimported")->as<StartFault>()->own_work, std::chrono::seconds(2));
  const auto own = must(effects("main-module-reimported:seconds=5,memory=1m"));
  EXPECT_EQ(own.as<StartFault>()->own_work, std::chrono::seconds(5));
  EXPECT_EQ(own.as<StartFault>()->own_memory, uint64_t{1} << 20);
}

TEST(LoaderFault, ParametersOfAHang) {
  const auto stopped = must(effects("worker-stopped:after=7,worker=1"));
  EXPECT_EQ(stopped.after, 7);
  EXPECT_EQ(stopped.worker, 1);
  EXPECT_EQ(must(effects("slow-sample:seconds=2")).as<Hang>()->sample_time,
            std::chrono::seconds(2));
  EXPECT_FALSE(must(effects("fork-lost-thread-pool")).as<Hang>()->spins);
  EXPECT_TRUE(must(effects("fork-lost-thread-pool:wait=spinning")).as<Hang>()->spins);
}

TEST(LoaderFault, ParametersOfADeath) {
  EXPECT_EQ(effects("worker-crashed")->as<Death>()->signal, SIGSEGV);
  EXPECT_EQ(effects("worker-crashed:signal=abrt")->as<Death>()->signal, SIGABRT);
  EXPECT_EQ(effects("worker-crashed:signal=fpe")->as<Death>()->signal, SIGFPE);
  EXPECT_EQ(effects("killed-by-signal")->as<Death>()->signal, SIGKILL);
  EXPECT_EQ(effects("killed-by-signal:signal=term,after=9,worker=1")->as<Death>()->signal, SIGTERM);
  EXPECT_EQ(effects("killed-by-signal:signal=term,after=9,worker=1")->after, 9);
  EXPECT_EQ(effects("worker-exited")->as<Death>()->exit_code, 3);
  EXPECT_EQ(effects("worker-exited:code=0")->as<Death>()->exit_code, 0);
  EXPECT_EQ(effects("oom-killed-by-cgroup:limit=96m")->as<Death>()->grow_bytes, 96U << 20);
}

TEST(LoaderFault, WhatCannotHappenIsSaid) {
  LoaderPlan plan;
  plan.workers = 2;
  EXPECT_THAT(error_of("lock-cycle:worker=2", plan), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_of("worker-crashed:worker=2", plan), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error_of("worker-exited:code=256", plan), HasSubstr("above 255"));
  EXPECT_THAT(error_of("worker-crashed:signal=hup", plan), HasSubstr("segv|abrt|fpe"));
  EXPECT_THAT(error_of("oom-killed-by-cgroup", plan), HasSubstr("limit=SIZE"));
  plan.workers = 0;
  EXPECT_THAT(error_of("lock-cycle", plan), HasSubstr("--workers 1"));
  EXPECT_THAT(error_of("worker-exited", plan), HasSubstr("--workers 1"));
  EXPECT_THAT(error_of("shm-too-small", plan), HasSubstr("--workers 1"));
}

TEST(LoaderFault, WhatIsNoFaultListsThoseThatAre) {
  EXPECT_THAT(error_of("gil-held-while-blocked"), HasSubstr("consumer-stuck"));
  EXPECT_THAT(error_of("consumer-stuck:worker=0"), HasSubstr("one of: after"));
  EXPECT_THAT(error_of("lock-cycle:after=0"), HasSubstr("from 1"));
  EXPECT_THAT(error_of("lock-cycle:worker=-1"), HasSubstr("from 0"));
  EXPECT_THAT(error_of("fork-lost-thread-pool:wait=long"), HasSubstr("blocking|spinning"));
}

TEST(LoaderFault, EveryFaultHasTheNameOfAFinding) {
  for (const FaultInfo& info : all_faults())
    EXPECT_NE(find_finding(info.name), nullptr) << info.name;
}

}  // namespace
}  // namespace dlprobe::loader
