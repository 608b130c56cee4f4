#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <functional>

#include "probes/fd/growth.h"
#include "tests/support/must.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

constexpr int32_t kFdWorker = 101;

/// How many of the kind in question a process has at that second.
using Count = std::function<double(int32_t pid, double at_s)>;

/// A trainer and two workers with a limit of 256, whose descriptors a test tells of.
class Fd : public testing::Test {
 protected:
  Fd() { set_limit(256); }

  void set_limit(uint64_t soft) {
    for (ProcessInfo& process : scene_.run().processes)
      process.open_files_limit = Limit{.soft = soft, .hard = 1'048'576};
  }

  /// Samples at 10 Hz from `from_s` to `to_s`: a process has 20 descriptors of its own, and of
  /// `kind` as many as `count` says for that second.
  void watch(double from_s, double to_s, FdKind kind, const Count& count) {
    for (int tick = static_cast<int>(from_s * 10); tick <= static_cast<int>(to_s * 10); ++tick) {
      const double at_s = tick / 10.0;
      scene_.cpu_ticks += busy_ ? 10 : 0;
      scene_.sample(at_s, kMiB);
      for (ProcessSample& sample : scene_.run().samples.back().processes) {
        FdKinds kinds;
        kinds[FdKind::kPipe] = 20;
        kinds[kind] += static_cast<uint64_t>(count(sample.key.pid, at_s));
        sample.fd_count = kinds.total();
        if (tick % 10 == 0 || tick == static_cast<int>(to_s * 10)) sample.fds = kinds;
      }
    }
  }
  Verdict examine() const { return probes::fd::kProbe.examine(scene_.recording); }

  Scene scene_;
  bool busy_ = true;
};

/// So many per second in that process from the beginning, up to `most`; none in the others.
Count climbs(int32_t pid, double per_second, double most) {
  return [=](int32_t other, double at_s) {
    return other == pid ? std::min(per_second * at_s, most) : 0.0;
  };
}

TEST_F(Fd, AWorkerThatLeaksUpToItsLimitIsTheCauseOfTheFailure) {
  watch(0, 5, FdKind::kFile, climbs(kFdWorker, 50, 236));
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  const Finding& leak = verdict.findings[0];
  EXPECT_THAT(leak, Is(FindingCode::kFdLeakInWorker, Severity::kError, Confidence::kCertain));
  EXPECT_EQ(text(leak, "kind"), "file");
  EXPECT_EQ(leak.processes, std::vector{key_of(kFdWorker)});
  const Finding& exhausted = verdict.findings[1];
  EXPECT_THAT(exhausted, Is(FindingCode::kFdExhausted, Confidence::kCertain));
  EXPECT_EQ(exhausted.consequence_of, FindingCode::kFdLeakInWorker);
  EXPECT_EQ(number(exhausted, "descriptors"), 256);
  EXPECT_EQ(number(exhausted, "of_kind"), 236);
  EXPECT_TRUE(verdict.gaps.empty());
}

TEST_F(Fd, AClimbThatHadToWaitInItsMidstIsALeak) {
  // Two bursts of 100, and a little between them.
  const auto uneven = [](double at_s) {
    return at_s < 1 ? 100 * at_s : at_s < 3 ? 100 + 10 * (at_s - 1) : 120 + 100 * (at_s - 3);
  };
  watch(0, 5.4, FdKind::kFile, [&](int32_t pid, double at_s) {
    return pid == kFdWorker ? std::min(uneven(at_s), 236.0) : 0.0;
  });
  scene_.exit_with(Scene::kTrainerPid, 5.6, 1);
  EXPECT_EQ(examine().findings.front().code, FindingCode::kFdLeakInWorker);
}

TEST_F(Fd, WhatIsOpenedAtOnceUpToTheLimitIsNoLeak) {
  watch(0, 3, FdKind::kFile, [](int32_t pid, double at_s) {
    return pid == kFdWorker ? at_s < 1 ? 40 * at_s : 236.0 : 0.0;
  });
  scene_.exit_with(Scene::kTrainerPid, 3.2, 1);
  EXPECT_FALSE(find(examine(), FindingCode::kFdLeakInWorker));
  EXPECT_TRUE(find(examine(), FindingCode::kFdExhausted));
}

TEST_F(Fd, AnExceptionThatSaysSoIsEnough) {
  watch(0, 0.1, FdKind::kFile, climbs(kFdWorker, 1, 1));
  StartEvent refused{.at = Scene::at(0.3),
                     .kind = StartEventKind::kFailed,
                     .process = key_of(kFdWorker),
                     .message = "OSError: [Errno 24] Too many open files",
                     .file = "/job/data.py",
                     .line = 7,
                     .function = "load",
                     .ended = Ended::kWorker,
                     .error_number = 24,
                     .limit = 64};
  scene_.run().start_events = {refused};
  EXPECT_FALSE(find(examine(), FindingCode::kFdExhausted)) << "the job goes on";
  scene_.exit_with(Scene::kTrainerPid, 0.4, 1);
  const Finding exhausted = must_find(examine(), FindingCode::kFdExhausted);
  EXPECT_THAT(exhausted, Is(Severity::kError, Confidence::kCertain));
  EXPECT_EQ(number(exhausted, "limit"), 64);
  EXPECT_THAT(exhausted, Says("at data.py:7 in load"));

  scene_.run().begin.open_files_limit = Limit{.soft = 256, .hard = 256};
  EXPECT_THAT(find(examine(), FindingCode::kFdExhausted)->remedies.front().title.plain(),
              testing::HasSubstr("sets this limit itself"));
  scene_.run().begin.open_files_limit->soft = 64;
  scene_.run().begin.own_open_files = 64;
  EXPECT_THAT(find(examine(), FindingCode::kFdExhausted)->remedies.front().commands.front().plain(),
              testing::HasSubstr("--limit-fds"));

  refused.error_number = 23;
  scene_.run().start_events = {refused};
  EXPECT_THAT(find(examine(), FindingCode::kFdExhausted)->message.plain(),
              testing::HasSubstr("fs.file-max"));
}

// The interpreter may take seconds to end after the exception.
TEST_F(Fd, FilesThatFillTheTableAreNamedAndToBeClosed) {
  watch(0, 1, FdKind::kFile, [](int32_t pid, double at_s) {
    return pid == kFdWorker ? at_s < 1 ? 40 * at_s : 236.0 : 0.0;
  });
  scene_.run().fd_looks.push_back(
      {.at = Scene::at(1),
       .key = key_of(kFdWorker),
       .count = 256,
       .most = {{.kind = FdKind::kFile, .name = "/data/shards/*", .count = 200}}});
  scene_.exit_with(Scene::kTrainerPid, 4, 1);
  EXPECT_THAT(find(examine(), FindingCode::kFdExhausted)->confidence, Confidence::kLikely);
  scene_.run().start_events = {{.at = Scene::at(1.1),
                                .kind = StartEventKind::kFailed,
                                .process = key_of(Scene::kTrainerPid),
                                .message = "EOFError",
                                .type = "EOFError",
                                .ended = Ended::kProcess}};
  const auto exhausted = find(examine(), FindingCode::kFdExhausted);
  EXPECT_EQ(exhausted->message.plain(),
            "worker 101 had 256 of 256 descriptors open, 236 of them files (200 x "
            "/data/shards/*), when trainer 100 ended with exit code 1");
  EXPECT_THAT(exhausted->remedies.front().title.plain(), testing::StartsWith("Close what"));
  EXPECT_EQ(exhausted->remedies.size(), 2U);
}

TEST_F(Fd, WhatNobodyCountedIsNotClaimed) {
  watch(0, 0.1, FdKind::kFile, climbs(kFdWorker, 1, 1));
  scene_.run().start_events = {{.at = Scene::at(0.3),
                                .kind = StartEventKind::kFailed,
                                .process = key_of(kFdWorker),
                                .message = "OSError: [Errno 24] Too many open files",
                                .count = 40,
                                .ended = Ended::kWorker,
                                .error_number = 24,
                                .limit = 64}};
  scene_.exit_with(Scene::kTrainerPid, 0.4, 1);
  const Finding exhausted = must_find(examine(), FindingCode::kFdExhausted);
  EXPECT_THAT(exhausted, Says("reached its limit of 64 descriptors"));
  EXPECT_EQ(number(exhausted, "descriptors"), 40) << "some were closed before the witness counted";

  scene_.run().start_events.front().wanted = "another resource";
  EXPECT_FALSE(find(examine(), FindingCode::kFdExhausted));
}

TEST_F(Fd, AnExceptionOfAProcessThatNobodySawIsEnough) {
  watch(0, 0.1, FdKind::kFile, climbs(kFdWorker, 1, 1));
  scene_.run().start_events = {{.at = Scene::at(0.3),
                                .kind = StartEventKind::kFailed,
                                .process = key_of(4711),
                                .message = "OSError: [Errno 24] Too many open files",
                                .ended = Ended::kFeeder,
                                .error_number = 24,
                                .limit = 34}};
  EXPECT_FALSE(find(examine(), FindingCode::kFdExhausted)) << "the job goes on";
  scene_.exit_with(Scene::kTrainerPid, 0.4, 1);
  const Finding exhausted = must_find(examine(), FindingCode::kFdExhausted);
  EXPECT_EQ(exhausted.confidence, Confidence::kCertain);
  EXPECT_EQ(exhausted.message.plain(),
            "process 4711 reached its limit of 34 descriptors and could not open another");
}

TEST_F(Fd, TheSameLeakFarFromTheLimitIsNoError) {
  set_limit(65'536);
  watch(0, 5, FdKind::kFile, climbs(kFdWorker, 50, 1e9));
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Fd, ALeakIsForetoldOnceItIsSure) {
  set_limit(1024);
  watch(0, 30, FdKind::kSocket, climbs(kFdWorker, 20, 1e9));
  const Finding leak = must_find(examine(), FindingCode::kFdLeakInWorker);
  EXPECT_THAT(leak, Is(Severity::kError, Confidence::kLikely));
  EXPECT_EQ(text(leak, "kind"), "socket");
  EXPECT_FALSE(find(examine(), FindingCode::kFdExhausted));
}

TEST_F(Fd, ASlowLeakIsNoErrorYet) {
  set_limit(65'536);
  watch(0, 200, FdKind::kSocket, climbs(kFdWorker, 1, 1e9));
  const Finding leak = must_find(examine(), FindingCode::kFdLeakInWorker);
  EXPECT_EQ(leak.severity, Severity::kWarning);
  for (const Remedy& remedy : leak.remedies)
    EXPECT_THAT(remedy.title.plain(), testing::Not(testing::HasSubstr("soft limit")))
        << "it is higher than would be advised";
  set_limit(100'000'000);
  EXPECT_EQ(find(examine(), FindingCode::kFdLeakInWorker)->severity, Severity::kInfo);
}

// `watch`, with inotify handles beside what it is of.
void add_others(Scene& scene, const Count& count, FdKind kind = FdKind::kOther) {
  for (Sample& sample : scene.run().samples) {
    const double at_s = static_cast<double>(sample.at - Scene::at(0)) / kSecond;
    for (ProcessSample& process : sample.processes) {
      const auto more = static_cast<uint64_t>(count(process.key.pid, at_s));
      process.fd_count = process.fd_count->value() + more;
      if (process.fds) (**process.fds)[kind] += more;
    }
  }
}

TEST_F(Fd, TwoKindsThatGrowAlikeAreOneLeak) {
  set_limit(20'000);
  watch(0, 20, FdKind::kEpoll, climbs(kFdWorker, 2, 1e9));
  add_others(scene_, climbs(kFdWorker, 2, 1e9));
  const Finding finding = only_finding(examine());
  EXPECT_THAT(finding, Says("opens epolls and other descriptors, and does not close them: 80"));
  EXPECT_EQ(finding.confidence, Confidence::kPossible);
}

TEST_F(Fd, TwoSocketsAndAnEpollAreAnEventLoop) {
  set_limit(20'000);
  watch(0, 20, FdKind::kSocket, climbs(kFdWorker, 4, 1e9));
  EXPECT_THAT(only_finding(examine()), Not(Says("event loop")));
  add_others(scene_, climbs(kFdWorker, 2, 1e9), FdKind::kEpoll);
  const Finding finding = only_finding(examine());
  EXPECT_THAT(finding, Says("two sockets and an epoll each, as an event loop of asyncio has"));
  EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("Close each event loop"));
}

TEST_F(Fd, OneKindGrowsOnWhereAnotherComesToAnEnd) {
  set_limit(20'000);
  watch(0, 30, FdKind::kEpoll, climbs(kFdWorker, 2.5, 1e9));
  add_others(scene_, climbs(kFdWorker, 5, 90));
  const Finding leak = must_find(examine(), FindingCode::kFdLeakInWorker);
  EXPECT_EQ(text(leak, "kind"), "epoll");
  EXPECT_THAT(leak, Says(", 2.5 per second more"));
}

TEST_F(Fd, WorkersThatLeakAlikeAreOneFinding) {
  watch(0, 5, FdKind::kFile, [](int32_t pid, double at_s) {
    return pid == Scene::kTrainerPid ? 0 : std::min(50 * at_s, 236.0);
  });
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  const Verdict verdict = examine();
  EXPECT_EQ(verdict.findings.size(), 2U);
  EXPECT_EQ(find(verdict, FindingCode::kFdLeakInWorker)->processes.size(), 2U);
}

TEST_F(Fd, BatchesThatTheTrainerKeeps) {
  watch(0, 5, FdKind::kSegment, [](int32_t pid, double at_s) {
    return pid == Scene::kTrainerPid ? std::min(50 * at_s, 236.0) : 4.0;
  });
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_THAT(verdict.findings[0], Is(FindingCode::kBatchesKeptByConsumer, Confidence::kCertain));
  EXPECT_EQ(verdict.findings[1].code, FindingCode::kFdExhausted);
  EXPECT_EQ(verdict.findings[1].consequence_of, FindingCode::kBatchesKeptByConsumer);
}

TEST_F(Fd, BatchesThatTheTrainerKeepsFasterThanItsClimbCanBeSeen) {
  watch(0, 0.4, FdKind::kSegment, [](int32_t pid, double at_s) {
    return pid == Scene::kTrainerPid ? (at_s < 0.2 ? 0.0 : 236.0) : 4.0;
  });
  scene_.exit_with(Scene::kTrainerPid, 0.5, 1);
  EXPECT_EQ(examine().findings.at(0).code, FindingCode::kBatchesKeptByConsumer);
}

// What the workers have in flight for a trainer that is late.
TEST_F(Fd, TooLowALimitForWhatIsInFlight) {
  set_limit(64);
  watch(0, 0.4, FdKind::kSegment,
        [](int32_t pid, double) { return pid == Scene::kTrainerPid ? 2.0 : 42.0; });
  scene_.exit_with(Scene::kTrainerPid, 0.5, 1);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  EXPECT_THAT(verdict.findings[0], Is(FindingCode::kFdLimitTooLow, Confidence::kLikely));
  EXPECT_EQ(verdict.findings[1].code, FindingCode::kFdExhausted);
}

// The leaking process ends with its job at `end_s`, and closes all a moment before.
Count climbs_until(int32_t pid, double per_second, double end_s) {
  return [=](int32_t other, double at_s) {
    return other == pid && at_s <= end_s ? per_second * at_s : 0.0;
  };
}

TEST_F(Fd, ALeakOfAJobThatEndedBeforeItsLimitIsAWarning) {
  for (const int32_t pid : {kFdWorker, Scene::kTrainerPid}) {
    SCOPED_TRACE(pid);
    scene_ = Scene();
    set_limit(512);
    scene_.exit_with(kFdWorker, 20.3, 0);
    scene_.exit_with(Scene::kTrainerPid, 20.7, 0);
    watch(0, 22, FdKind::kFile, climbs_until(pid, 23, 20.1));
    const Finding finding = only_finding(examine());
    EXPECT_THAT(finding, Is(FindingCode::kFdLeakInWorker, Severity::kWarning));
    EXPECT_THAT(finding, Says("; at this rate its limit of 512 would have been reached in "));
  }
}

TEST_F(Fd, BatchesThatWereKeptToTheEndOfTheJob) {
  set_limit(65'536);
  scene_.exit_with(Scene::kTrainerPid, 165.5, 0);
  watch(0, 166, FdKind::kSegment, [](int32_t pid, double at_s) {
    if (pid != Scene::kTrainerPid) return 4.0;
    return at_s <= 165 ? 10 * at_s : 0.0;
  });
  EXPECT_EQ(must_find(examine(), FindingCode::kBatchesKeptByConsumer).severity, Severity::kWarning);
}

TEST_F(Fd, WhatAJobThatEndedHadClosedBeforeIsNoLeak) {
  const std::vector<std::pair<const char*, Count>> all = {
      {"closed long before the end",
       [](int32_t pid, double at_s) { return pid == kFdWorker && at_s < 13 ? 17 * at_s : 0.0; }},
      {"epochs", [](int32_t pid,
                    double at_s) { return pid == kFdWorker ? 20 * std::fmod(at_s, 10.5) : 0.0; }},
      {"a cache that is full", climbs(kFdWorker, 23, 64)},
  };
  for (const auto& [name, count] : all) {
    scene_ = Scene();
    set_limit(256);
    scene_.exit_with(kFdWorker, 20.3, 0);
    watch(0, 22, FdKind::kFile, count);
    EXPECT_FALSE(find(examine(), FindingCode::kFdLeakInWorker)) << name;
  }
}

TEST_F(Fd, AProcessAtItsLimitThatStandsStill) {
  busy_ = false;
  watch(0, 8, FdKind::kFile, [](int32_t pid, double) { return pid == kFdWorker ? 234.0 : 0.0; });
  const Finding exhausted = must_find(examine(), FindingCode::kFdExhausted);
  EXPECT_THAT(exhausted, Is(Severity::kError, Confidence::kLikely));
  EXPECT_THAT(exhausted, Says("234 of them files, and the job has not moved"));
  EXPECT_FALSE(find(examine(), FindingCode::kFdLeakInWorker));
}

TEST_F(Fd, AMomentAtTheLimitIsAWarning) {
  watch(0, 4, FdKind::kFile, [](int32_t pid, double at_s) {
    return pid == kFdWorker && at_s > 2 && at_s < 2.3 ? 236.0 : 0.0;
  });
  EXPECT_EQ(must_find(examine(), FindingCode::kFdExhausted).severity, Severity::kWarning);
}

TEST_F(Fd, AFailureFarFromTheLimitIsNotTheDescriptors) {
  watch(0, 5, FdKind::kFile, climbs(kFdWorker, 20, 1e9));
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Fd, AWorkerThatItsTrainerEndsDidNotFail) {
  watch(0, 4, FdKind::kFile,
        [](int32_t pid, double at_s) { return pid == kFdWorker && at_s > 3.8 ? 236.0 : 0.0; });
  scene_.exit_by_signal(kFdWorker, 4.1, SIGTERM);
  EXPECT_FALSE(has_error(examine()));
}

struct Harmless {
  const char* name;
  FdKind kind;
  Count count;
};
class HarmlessSeries : public Fd {};

// Each with a limit that a leak of the same slope would reach within minutes.
TEST_F(HarmlessSeries, AreSilent) {
  const std::vector<Harmless> all = {
      {"a cache with a bound", FdKind::kFile,
       [](int32_t pid, double at_s) {
         return pid == Scene::kTrainerPid ? 0.0 : std::min(64.0, 10 * at_s);
       }},
      {"a backlog of prefetched batches", FdKind::kSegment,
       [](int32_t pid, double at_s) {
         return pid == Scene::kTrainerPid ? 4.0 : std::min(120.0, 8 * at_s);
       }},
      {"bursts", FdKind::kSegment,
       [](int32_t pid, double at_s) {
         return pid == Scene::kTrainerPid ? 100 * (at_s / 7 - static_cast<int>(at_s / 7)) : 4.0;
       }},
      {"start-up", FdKind::kFile,
       [](int32_t, double at_s) { return at_s < 3 ? 40 * at_s : 120.0; }},
      {"opened and closed", FdKind::kSocket,
       [](int32_t, double at_s) { return static_cast<int>(at_s * 10) % 3 * 40.0; }},
      {"a small cache that fills slowly", FdKind::kFile,
       [](int32_t, double at_s) { return std::min(32.0, 2 * at_s); }},
      {"epochs", FdKind::kFile,
       [](int32_t, double at_s) { return 5 * (at_s / 20 - static_cast<int>(at_s / 20)) * 20; }},
  };
  for (const Harmless& each : all) {
    SCOPED_TRACE(each.name);
    for (const double until : {5.0, 12.0, 30.0, 150.0}) {
      scene_ = Scene();
      set_limit(256);
      watch(0, until, each.kind, each.count);
      const Verdict verdict = examine();
      EXPECT_TRUE(verdict.findings.empty())
          << until
          << " s: " << (verdict.findings.empty() ? "" : verdict.findings[0].message.plain());
    }
  }
}

TEST_F(Fd, ThePlanIsHeldAgainstTheLimitBeforeTheStart) {
  LoaderPlan plan;
  plan.workers = 16;
  plan.prefetch_factor = 8;
  scene_.plan(plan, /*preflight=*/true);
  scene_.run().begin.open_files_limit = Limit{.soft = 256, .hard = 4096};
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(verdict.findings[0], Is(FindingCode::kFdLimitTooLow, Severity::kError));
  EXPECT_EQ(number(verdict.findings[0], "forecast"), 8 + 64 + (16 * 8 + 2) * 2);
  EXPECT_EQ(number(verdict.findings[0], "forecast_file_descriptor"), 332);
  EXPECT_EQ(number(verdict.findings[0], "forecast_file_system"), 8 + 64 + 16);
  EXPECT_TRUE(verdict.gaps.empty());
  scene_.run().begin.open_files_limit = Limit{.soft = 400, .hard = 4096};
  EXPECT_EQ(examine().findings.at(0).severity, Severity::kWarning);
  scene_.run().begin.open_files_limit = Limit{.soft = 1024, .hard = 4096};
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Fd, UnderFileSystemTheSamePlanFits) {
  LoaderPlan plan;
  plan.workers = 16;
  plan.prefetch_factor = 8;
  plan.sharing_strategy = SharingStrategy::kFileSystem;
  scene_.plan(plan, /*preflight=*/true);
  scene_.run().begin.open_files_limit = Limit{.soft = 256, .hard = 4096};
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Fd, TheRemedyFitsTheHardLimit) {
  set_limit(256);
  watch(0, 5, FdKind::kFile, climbs(kFdWorker, 50, 236));
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  EXPECT_EQ(find(examine(), FindingCode::kFdExhausted)->remedies.at(0).commands.at(0).plain(),
            "ulimit -n 1024");
  for (ProcessInfo& process : scene_.run().processes)
    process.open_files_limit = Limit{.soft = 256, .hard = 256};
  EXPECT_EQ(find(examine(), FindingCode::kFdExhausted)->remedies.at(0).commands.at(0).plain(),
            "* hard nofile 1024");
}

TEST_F(Fd, ALimitOfManyIsNotTooLow) {
  set_limit(4096);
  watch(0, 3, FdKind::kFile, [](int32_t pid, double at_s) {
    return pid == kFdWorker ? at_s < 1 ? 40 * at_s : 4085.0 : 0.0;
  });
  scene_.exit_with(Scene::kTrainerPid, 3.2, 1);
  EXPECT_THAT(must_find(examine(), FindingCode::kFdExhausted).remedies.at(0).title.plain(),
              testing::HasSubstr("Close what a sample opens"));
}

TEST_F(Fd, MappingsAtTheKernelsLimit) {
  scene_.recording.header.host.max_map_count = 65'530;
  watch(0, 3, FdKind::kFile, climbs(kFdWorker, 0, 0));
  scene_.run().samples.back().processes[0].map_count = uint64_t{65'531};
  scene_.exit_with(Scene::kTrainerPid, 5, 1);
  EXPECT_THAT(must_find(examine(), FindingCode::kMemoryMapLimitReached),
              Is(Severity::kError, Confidence::kCertain));
  scene_.run().samples.back().processes[0].map_count = uint64_t{55'000};
  EXPECT_EQ(find(examine(), FindingCode::kMemoryMapLimitReached)->severity, Severity::kWarning);
  scene_.run().samples.back().processes[0].map_count = uint64_t{50'000};
  EXPECT_FALSE(find(examine(), FindingCode::kMemoryMapLimitReached));
}

TEST_F(Fd, MappingsThatTheWitnessCountedWhenOneWasRefused) {
  scene_.recording.header.host.max_map_count = 65'530;
  watch(0, 3, FdKind::kFile, climbs(kFdWorker, 0, 0));
  scene_.run().samples.back().processes[0].map_count = uint64_t{31'000};
  scene_.exit_with(Scene::kTrainerPid, 5, 1);
  EXPECT_FALSE(find(examine(), FindingCode::kMemoryMapLimitReached));
  scene_.run().start_events = {{.at = Scene::at(4.5),
                                .kind = StartEventKind::kFailed,
                                .process = key_of(Scene::kTrainerPid),
                                .wanted = "mappings",
                                .type = "RuntimeError",
                                .count = 65'530,
                                .ended = Ended::kProcess,
                                .limit = 65'530}};
  EXPECT_EQ(must_find(examine(), FindingCode::kMemoryMapLimitReached).confidence,
            Confidence::kCertain);
}

TEST_F(Fd, MappingsThatWouldHaveReachedTheLimitWhenAnExceptionCame) {
  scene_.recording.header.host.max_map_count = 65'530;
  watch(0, 3, FdKind::kFile, climbs(kFdWorker, 0, 0));
  auto& samples = scene_.run().samples;
  samples.front().processes[0].map_count = uint64_t{1'000};
  samples.back().processes[0].map_count = uint64_t{40'000};
  const BootNs between = samples.back().at - samples.front().at;
  scene_.run().start_events = {{.at = samples.back().at + between * 6 / 10,
                                .kind = StartEventKind::kFailed,
                                .process = samples.back().processes[0].key,
                                .type = "RuntimeError",
                                .ended = Ended::kWorker}};
  scene_.exit_with(Scene::kTrainerPid, 5, 1);
  EXPECT_THAT(must_find(examine(), FindingCode::kMemoryMapLimitReached),
              Is(Severity::kError, Confidence::kLikely));
  StartEvent& told = scene_.run().start_events.back();
  told.kind = StartEventKind::kHookFailed;  // no memory was left to tell it by
  EXPECT_FALSE(find(examine(), FindingCode::kMemoryMapLimitReached));
  told.type = "MemoryError";
  EXPECT_TRUE(find(examine(), FindingCode::kMemoryMapLimitReached));
  told.kind = StartEventKind::kFailed;
  told.type = "OSError";
  EXPECT_FALSE(find(examine(), FindingCode::kMemoryMapLimitReached));
  told.error_number = ENOMEM;  // of a semaphore
  EXPECT_TRUE(find(examine(), FindingCode::kMemoryMapLimitReached));
  Sample ending = samples.back();
  ending.at += between;
  ending.processes[0].map_count = uint64_t{20'000};
  samples.push_back(ending);
  EXPECT_TRUE(find(examine(), FindingCode::kMemoryMapLimitReached)) << "it gives them back";
  samples.pop_back();
  told.at -= between / 5;
  EXPECT_FALSE(find(examine(), FindingCode::kMemoryMapLimitReached));
}

TEST_F(Fd, GrowingMappingsSpeakOfBatchesWhereTheyAreSegments) {
  scene_.recording.header.host.max_map_count = 65'530;
  watch(0, 20, FdKind::kFile, climbs(kFdWorker, 0, 0));
  for (Sample& sample : scene_.run().samples) {
    const auto since = static_cast<uint64_t>(sample.at - Scene::at(0)) / kMillisecond;
    sample.processes[0].map_count = 300 + since / 20;
  }
  const auto remedy = [&] {
    const auto finding = find(examine(), FindingCode::kMemoryMapLimitReached);
    return finding ? finding->remedies.front().title.plain() : "nothing found";
  };
  EXPECT_THAT(remedy(), testing::HasSubstr("map each file once"));
  std::vector<ShmSegment> segments;
  for (uint64_t inode = 0; inode < 600; ++inode) {
    segments.push_back(tensor(kFdWorker, inode, kMiB, CreatorState::kAlive));
    segments.back().holders = {{.key = key_of(Scene::kTrainerPid), .in_tree = true, .maps = 1}};
  }
  scene_.ledger(19, segments);
  EXPECT_THAT(remedy(), testing::HasSubstr("tensor of a batch"));
  scene_.run().ledgers.back().segments.resize(300);
  EXPECT_THAT(remedy(), testing::HasSubstr("map each file once"));
  scene_.run().ledgers.back().omitted_segments = 300;
  EXPECT_THAT(remedy(), testing::HasSubstr("tensor of a batch"));
}

TEST_F(Fd, WhatCouldNotBeSeenIsAGap) {
  EXPECT_EQ(examine().gaps.size(), 1U);  // never counted
  watch(0, 3, FdKind::kFile, climbs(kFdWorker, 0, 0));
  EXPECT_TRUE(examine().gaps.empty());
  scene_.run().samples.back().processes[1].fds =
      Observed<FdKinds>(os_failure("list /proc/101/fd", EACCES));
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_EQ(verdict.gaps[0].what.plain(), "descriptors of worker 101");
  EXPECT_TRUE(verdict.findings.empty());
}

TEST_F(Fd, WithoutALimitNothingIsAtIt) {
  for (ProcessInfo& process : scene_.run().processes)
    process.open_files_limit = Limit{};
  watch(0, 5, FdKind::kFile, climbs(kFdWorker, 50, 236));
  scene_.exit_with(Scene::kTrainerPid, 5.2, 1);
  EXPECT_TRUE(examine().findings.empty());
}

std::vector<probes::fd::CountAt> series(double seconds,
                                        const std::function<double(double)>& value) {
  std::vector<probes::fd::CountAt> counts;
  for (double at = 0; at <= seconds; at += 0.1)
    counts.push_back({.at = Scene::at(at), .count = static_cast<uint64_t>(value(at))});
  return counts;
}

TEST(SteadyGrowth, HasTheSlope) {
  const auto counts = series(12, [](double at) { return 100 + 7 * at; });
  const auto growth = must(probes::fd::steady_growth(counts, counts.back().at, 12 * kSecond));
  EXPECT_NEAR(growth.per_second, 7, 0.2);
  EXPECT_EQ(growth.first, 100U);
}

TEST(SteadyGrowth, IsNoStepNoPlateauAndNoFall) {
  const auto none = [](const std::function<double(double)>& value) {
    const auto counts = series(12, value);
    return !probes::fd::steady_growth(counts, counts.back().at, 12 * kSecond);
  };
  EXPECT_TRUE(none([](double at) { return at < 6 ? 10 : 100; }));
  EXPECT_TRUE(none([](double at) { return std::min(100.0, 20 * at); }));
  EXPECT_TRUE(none([](double at) { return 1000 - 10 * at; }));
  EXPECT_TRUE(none([](double) { return 10; }));
  EXPECT_TRUE(none([](double at) { return static_cast<int>(at * 10) % 4 * 30; }));
}

TEST(SteadyGrowth, NeedsPointsInEachPart) {
  const std::vector<probes::fd::CountAt> sparse = {
      {Scene::at(0), 1}, {Scene::at(1), 9}, {Scene::at(12), 80}};
  EXPECT_FALSE(probes::fd::steady_growth(sparse, sparse.back().at, 12 * kSecond));
  EXPECT_FALSE(probes::fd::steady_growth({}, 0, kSecond));
}

}  // namespace
}  // namespace dlprobe
