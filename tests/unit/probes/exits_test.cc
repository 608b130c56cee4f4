#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <functional>

#include "probes/probe.h"
#include "tests/unit/probes/scene.h"

namespace dlprobe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int32_t kParent = Scene::kTrainerPid;
constexpr int32_t kStranger = 4242;

/// A job that is watched by one who may see everything, with the host's counter at 13.
class ExitsTest : public ::testing::Test {
 protected:
  ExitsTest() : scene(64 * kMiB, 3) {
    for (ProcessInfo& process : scene.run().processes) {
      process.cgroup = "/job/w";
      if (process.role == Role::kWorker) process.ppid = kParent;
    }
    counters(0, "", 13);
    counters(0, "/job/w", 0);
    counters(0, "/job", 0);
    scene.sample(0.5, 0);
  }

  void counters(double at_s, std::string cgroup, uint64_t kills, std::optional<uint64_t> hits = 0) {
    OomCounters record;
    record.at = Scene::at(at_s);
    record.cgroup = std::move(cgroup);
    record.kills = kills;
    if (!record.cgroup.empty()) record.limit_hits = hits;
    if (record.cgroup == "/job") record.limit_bytes = 64 * kMiB;
    scene.run().oom_counters.push_back(std::move(record));
  }

  void sent(double at_s, int32_t target, int signal, int code, int32_t sender) {
    SignalSent record;
    record.at = Scene::at(at_s);
    record.signal = signal;
    record.code = code;
    record.target = key_of(target);
    record.sender_pid = sender;
    record.sender_comm = sender == kStranger ? "slurmstepd" : "python3";
    if (sender != kStranger) record.sender = key_of(sender);
    scene.run().signals.push_back(std::move(record));
  }

  /// Sent, and dead of it at once.
  void killed(double at_s, int32_t target, int signal, int code, int32_t sender) {
    sent(at_s, target, signal, code, sender);
    scene.exit_by_signal(target, at_s + 0.01, signal);
  }

  void are_workers_of_torch() {
    for (ProcessInfo& process : scene.run().processes) {
      for (const int signal : {SIGBUS, SIGSEGV, SIGFPE, SIGTERM})
        if (process.role == Role::kWorker)
          process.signals_caught = process.signals_caught.value_or(0) | 1ULL << (signal - 1);
    }
  }

  void hide_signals() {
    scene.run().events.push_back({.at = Scene::at(0),
                                  .kind = "signals-not-traced",
                                  .text = "fsopen tracefs: Operation not permitted (EPERM)",
                                  .process = {}});
  }

  void log(double at_s, int32_t pid, std::optional<bool> whole_host, std::string group) {
    KernelLogLine line;
    line.at = Scene::at(at_s);
    line.kind = KernelLogKind::kOomKill;
    line.process = key_of(pid);
    line.text = "oom-kill:constraint=...";
    line.whole_host = whole_host;
    line.limited_cgroup = std::move(group);
    scene.run().kernel_log.push_back(std::move(line));
  }

  /// Of worker 101, after "python3[101]: ".
  void log_fault(const std::string& text) {
    scene.run().kernel_log.push_back({.at = Scene::at(1),
                                      .kind = KernelLogKind::kFault,
                                      .process = key_of(101),
                                      .text = "python3[101]: " + text});
  }

  Verdict examine(const std::vector<Finding>& known = {}) const {
    return probes::exits::kProbe.examine_run(
        {.recording = scene.recording, .run = scene.recording.runs.front(), .known = known});
  }

  Finding only() const {
    const Verdict verdict = examine();
    EXPECT_EQ(verdict.findings.size(), 1U);
    return verdict.findings.empty() ? Finding() : verdict.findings.front();
  }

  Scene scene;
};

// A launcher ends the ranks that are left once one has failed; the end of that one may be seen
// later.
TEST_F(ExitsTest, ARankThatItsLauncherEndsForAnotherIsNoCause) {
  for (ProcessInfo& process : scene.run().processes)
    process.role = process.key == key_of(kParent) ? Role::kLauncher : Role::kTrainer;
  sent(1, 101, SIGTERM, 0, kParent);
  scene.exit_by_signal(101, 1.5, SIGTERM);
  scene.exit_with(kParent, 2, 1);
  EXPECT_TRUE(find(examine(), FindingCode::kKilledBySignal)) << "nobody else has failed";
  scene.exit_with(102, 1.5, 1);
  EXPECT_FALSE(find(examine(), FindingCode::kKilledBySignal));
}

// Open MPI waits a second before it ends those that are left.
TEST_F(ExitsTest, ARankThatLeftWellIsWhyItsLauncherEndedTheOthers) {
  for (ProcessInfo& process : scene.run().processes)
    process.role = process.key == key_of(kParent) ? Role::kLauncher : Role::kTrainer;
  scene.exit_with(102, 0.5, 0);
  killed(1.6, 101, SIGTERM, 0, kParent);
  scene.exit_with(kParent, 2, 1);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kUnevenData);
  EXPECT_THAT(finding, Says("102 ended with exit code 0 while "));
  scene.run().signals.clear();
  sent(1.6, 101, SIGTERM, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal) << "nobody of the job ended it";
  scene.run().signals.clear();
  hide_signals();
  EXPECT_EQ(only().code, FindingCode::kUnevenData);
}

TEST_F(ExitsTest, WhatEndsAfterDlprobeBeganToEndItSaysNothing) {
  sent(1, 101, SIGTERM, 0, kStranger);
  scene.exit_by_signal(101, 1.2, SIGTERM);
  scene.exit_with(kParent, 2, 1);
  scene.run().end = RunEnd{.at = Scene::at(2), .reason = RunEndReason::kSubjectEnded};
  EXPECT_TRUE(find(examine(), FindingCode::kKilledBySignal));
  scene.run().end->text = "made no progress for 20s";
  sent(0.5, kParent, SIGTERM, 0, kStranger);
  scene.run().signals.back().by_dlprobe = true;
  EXPECT_EQ(examine(), Verdict());
}

// In a pid namespace of its own dlprobe cannot see that it was the sender itself.
TEST_F(ExitsTest, WhatDlprobeEndedAtTheDeadlineSaysNothingWhereItSeesNoSignals) {
  hide_signals();
  scene.exit_by_signal(101, 1.2, SIGKILL);
  scene.exit_by_signal(kParent, 1.3, SIGTERM);
  scene.run().end = RunEnd{.at = Scene::at(2), .reason = RunEndReason::kTimeUp};
  EXPECT_TRUE(find(examine(), FindingCode::kKilledBySignal));
  scene.run().events.push_back(
      {.at = Scene::at(1), .kind = std::string(kEndingBegan), .text = "", .process = {}});
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, NothingIsSaidOfAJobThatEnds) {
  for (const int32_t worker : {101, 102, 103})
    scene.exit_with(worker, 1, 0);
  scene.exit_with(kParent, 1.1, 0);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, KernelLogNamesTheVictimAndTheGroup) {
  log(1, 101, false, "/job");
  counters(1, "/job/w", 1);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  scene.exit_with(kParent, 2, 1);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kOomKilledByCgroup, Severity::kError, Confidence::kCertain));
  EXPECT_THAT(finding, Says("worker 101", "cgroup /job reached its memory limit of 64.0 MiB"));
  EXPECT_THAT(what_remedies_set(finding),
              testing::ElementsAre("prefetch_factor=1 and num_workers=1"));
}

TEST_F(ExitsTest, TheLogTellsTheLimitOfAGroupThatWasGoneBeforeItWasLookedAt) {
  log(1, 101, false, "/made-just-now");
  scene.run().kernel_log.back().limit_bytes = 120 * kMiB;
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Finding finding = only();
  EXPECT_EQ(number(finding, "memory_limit"), int64_t{120 * kMiB});
  EXPECT_THAT(finding, Says("its memory limit of 120.0 MiB"));
}

TEST_F(ExitsTest, AnOomKillNamesTheProcessThatGrew) {
  for (const int32_t grower : {101, 102, 0}) {
    scene.run().samples.clear();
    for (double at_s = 0; at_s <= 6; at_s += 0.1) {
      scene.sample(at_s, 0);
      for (ProcessSample& each : scene.run().samples.back().processes) {
        const double rise = each.key.pid == grower ? 20 * at_s : 0;
        each.rss_bytes = static_cast<uint64_t>(rise + 50) * kMiB;
        each.rss_shared_bytes = 10 * kMiB;
      }
    }
    scene.run().kernel_log.clear();
    scene.run().exits.clear();
    log(6.2, 101, false, "/job");
    scene.exit_by_signal(101, 6.21, SIGKILL);
    const std::string who = grower == 101 ? "it" : "worker 102";
    EXPECT_EQ(only().message.plain().contains("; " + who + " had grown by 19.8 MiB/s for the 6.0"),
              grower > 0)
        << only().message.plain();
  }
}

TEST_F(ExitsTest, CountersTellWhichLimit) {
  sent(1, 101, SIGKILL, 128, 101);
  counters(1, "/job/w", 1, 0);
  counters(1, "/job", 1, 1);
  counters(1, "", 14);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kOomKilledByCgroup);
  EXPECT_EQ(text(finding, "limited_cgroup"), "/job");
  EXPECT_EQ(number(finding, "oom_kills"), 1);
}

TEST_F(ExitsTest, FilesInMemoryFilledTheGroup) {
  for (const bool is_open : {false, true}) {
    scene.run().ledgers.clear();
    scene.ledger(0.1, {});
    ShmSegment file{.inode = 7, .name = "cache/a.npy", .size_bytes = 40 * kMiB};
    if (is_open) file.holders.push_back({.key = key_of(101), .in_tree = true, .fds = 1});
    scene.ledger(0.6, {file});
    scene.run().samples.back().cgroup = CgroupMemory{.version = 2,
                                                     .path = "/job/w",
                                                     .used_bytes = 64 * kMiB,
                                                     .limit_bytes = 64 * kMiB,
                                                     .shmem_bytes = 41 * kMiB};
    if (!is_open) {
      log(1, 101, false, "/job");
      scene.exit_by_signal(101, 1.01, SIGKILL);
    }
    const Finding finding = only();
    EXPECT_EQ(finding.code, FindingCode::kOomKilledByCgroup);
    const auto said = HasSubstr("40.0 MiB of that are 1 file in /dev/shm");
    if (is_open) {
      EXPECT_THAT(finding.message.plain(), Not(said));
    } else {
      EXPECT_THAT(finding.message.plain(), said);
      EXPECT_THAT(finding.remedies.front().title.plain(), HasSubstr("Remove files"));
    }
  }
}

TEST_F(ExitsTest, FilesInMemoryAreCountedAlsoJustAfterTheKill) {
  scene.run().samples.back().cgroup = CgroupMemory{.version = 2,
                                                   .path = "/job/w",
                                                   .used_bytes = 64 * kMiB,
                                                   .limit_bytes = 64 * kMiB,
                                                   .shmem_bytes = 41 * kMiB};
  log(1, 101, false, "/job");
  scene.exit_by_signal(101, 1.01, SIGKILL);
  ShmSegment file{.inode = 7, .name = "cache/a.npy", .size_bytes = 40 * kMiB};
  for (const bool had_holder : {false, true}) {
    scene.run().ledgers.clear();
    scene.ledger(0.1, {});
    ShmSegment held = file;
    held.holders.push_back({.key = key_of(101), .in_tree = true, .fds = 1});
    scene.ledger(0.2, had_holder ? std::vector{held} : std::vector<ShmSegment>());
    scene.ledger(1.3, {file});
    EXPECT_EQ(only().message.plain().contains("40.0 MiB of that are 1 file"), !had_holder);
  }
}

TEST_F(ExitsTest, AKillOfAWholeGroupIsOneFindingAndSaysWhy) {
  for (OomCounters& record : scene.run().oom_counters)
    record.group_kills = 0;
  for (const int32_t pid : {kParent, 101, 102, 103}) {
    killed(1, pid, SIGKILL, 128, 101);
  }
  counters(1, "/job/w", 4);
  counters(1, "/job", 4, 1);
  scene.run().oom_counters.back().group_kills = 1;
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kOomKilledByCgroup);
  EXPECT_EQ(number(finding, "whole_group_kills"), 1);
}

TEST_F(ExitsTest, WithoutRightsACounterThatRoseIsLikelyEnough) {
  hide_signals();
  counters(1, "/job/w", 1, 1);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  EXPECT_EQ(only().code, FindingCode::kOomKilledByCgroup);
}

TEST_F(ExitsTest, MoreDeathsThanKillsAreNotCertain) {
  hide_signals();
  counters(1, "/job/w", 1, 1);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  scene.exit_by_signal(102, 1.02, SIGKILL);
  EXPECT_EQ(only().confidence, Confidence::kPossible);
}

TEST_F(ExitsTest, ACounterOfLastWeekProvesNothing) {
  hide_signals();
  scene.run().oom_counters.clear();
  counters(0, "/job/w", 7, 7);
  counters(0, "", 20);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  ASSERT_FALSE(finding.alternatives.empty());
}

TEST_F(ExitsTest, TheHostRanOut) {
  log(1, kParent, true, "");
  scene.exit_by_signal(kParent, 1.01, SIGKILL);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kOomKilledByHost);
  EXPECT_THAT(finding, Says("the machine ran out of memory"));
}

TEST_F(ExitsTest, WithoutALogTheHostIsTheCauseWhereItWasStarvedAndNoLimitWasHit) {
  sent(1, 101, SIGKILL, 128, 101);
  counters(1, "/job/w", 1, 0);
  counters(1, "/job", 1, 0);
  HostMemory memory;
  memory.total_bytes = 64 * kGiB;
  memory.available_bytes = 100 * kMiB;
  scene.run().samples.back().host = memory;
  scene.exit_by_signal(101, 1.01, SIGKILL);
  EXPECT_EQ(only().code, FindingCode::kOomKilledByHost);
}

TEST_F(ExitsTest, AProcessThatKillsIsNamedAndIsNoOomKiller) {
  sent(1, 101, SIGKILL, 0, kStranger);
  counters(1, "/job/w", 1, 1);  // of another process of the group, just then
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kKilledBySignal, Confidence::kCertain));
  EXPECT_THAT(finding, Says("process 4242 (slurmstepd) sent"));
  EXPECT_THAT(finding.alternatives.front().cause, HasSubstr("DLP0501"));
}

TEST_F(ExitsTest, ALibraryThatEndsForkedCopiesIsNamed) {
  killed(1, 101, SIGTERM, -6, 101);
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(only(), Says("which it sent itself"));
  EXPECT_THAT(only(), Not(Says("Numba")));
  scene.run().events.push_back({.at = Scene::at(1),
                                .kind = "library-that-ends-forked-copies",
                                .text = "/lib/omppool.so",
                                .process = key_of(101)});
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kWorkerCrashed);
  EXPECT_THAT(finding, Says("Numba's threads on OpenMP"));
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  scene.run().exits.pop_back();
  EXPECT_EQ(only().severity, Severity::kError) << "a pool waits for what it was to do";
  killed(1.2, 102, SIGTERM, -6, 102);
  EXPECT_THAT(only(), Says("worker 101 and worker 102 were ended"));
  EXPECT_THAT(what_remedies_set(finding), testing::Contains(HasSubstr("NUMBA_THREADING_LAYER")));
}

TEST_F(ExitsTest, UnseenSenderButNotTheOomKiller) {
  hide_signals();
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 1U);
  EXPECT_THAT(verdict.findings.front(), Says("dlprobe could not see who sent it"));
  const auto& evidence = verdict.findings.front().evidence;
  const auto sender = std::ranges::find(evidence, "sender", &Evidence::name);
  ASSERT_NE(sender, evidence.end());
  EXPECT_THAT(std::get<Message>(sender->value).plain(), HasSubstr("not seen: "));
  EXPECT_THAT(verdict.findings.front().alternatives.back().why_not.plain(),
              HasSubstr("stood at 13"));
  EXPECT_TRUE(verdict.gaps.empty());
}

TEST_F(ExitsTest, WhereNoCounterWasReadItIsAGap) {
  hide_signals();
  scene.run().oom_counters.clear();
  scene.exit_by_signal(101, 1.01, SIGKILL);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_THAT(verdict.gaps.front().what.plain(), HasSubstr("OOM killer"));
}

TEST_F(ExitsTest, WorkersThatTheirOwnTrainerEndsAreNoNews) {
  for (const int32_t worker : {101, 102, 103}) {
    const int signal = worker == 101 ? SIGKILL : SIGTERM;
    killed(1, worker, signal, 0, kParent);
  }
  scene.exit_with(kParent, 2, 1);
  EXPECT_EQ(examine(), Verdict());
}

// By no signal with which a library ends its children.
TEST_F(ExitsTest, AWorkerThatItsTrainerKillsByItsOwnCodeIsWhyItFails) {
  killed(1, 101, SIGUSR1, 0, kParent);
  EXPECT_EQ(examine(), Verdict()) << "the trainer goes on";
  scene.exit_with(kParent, 2, 1);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  EXPECT_THAT(finding, Says("killed by SIGUSR1, which trainer 100 sent"));
}

TEST_F(ExitsTest, AWorkerThatKilledItselfIsWhyTheJobThenStandsStill) {
  killed(1, 101, SIGKILL, 0, 101);
  EXPECT_EQ(examine(), Verdict()) << "the job goes on";
  EXPECT_TRUE(find(examine({new_finding(FindingCode::kBatchLostInWorker, Confidence::kCertain)}),
                   FindingCode::kKilledBySignal));
}

TEST_F(ExitsTest, WhatAProcessSentItselfIsInNobodysRecords) {
  killed(1, 101, SIGUSR1, -6, 101);
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(only(), AdvisesFirst("It sent that signal itself"));
  scene.run().signals.clear();
  scene.run().exits.clear();
  hide_signals();
  scene.exit_by_signal(101, 1.01, SIGALRM);
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(only(), AdvisesFirst("A timer of its own ran out"));
}

TEST_F(ExitsTest, UnseenSigtermOfWorkersBelongsToTheEndOfTheTrainer) {
  hide_signals();
  for (const int32_t worker : {101, 102})
    scene.exit_by_signal(worker, 1, SIGTERM);
  scene.exit_with(kParent, 1.2, 1);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, SigtermFromOutsideIsNews) {
  sent(1, 101, SIGTERM, 0, kStranger);
  scene.exit_by_signal(101, 1, SIGTERM);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, AHandlerThatOnlyTheTrainerHasIsNamed) {
  killed(1, 101, SIGUSR1, 0, kStranger);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_THAT(only(), Not(Says("handler"))) << "it was not sent it";
  sent(1, kParent, SIGUSR1, 0, kStranger);
  EXPECT_THAT(only(), Says("trainer 100, which was sent it too, has a handler"));
  EXPECT_THAT(only(), AdvisesFirst("Ignore SIGUSR1 in the workers"));
}

TEST_F(ExitsTest, AWholeJobThatIsStopped) {
  for (const int32_t pid : {101, 102, 103, kParent}) {
    killed(1, pid, SIGTERM, 0, kStranger);
  }
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  EXPECT_EQ(finding.processes.size(), 4U);
  EXPECT_THAT(finding, Says("all 4 processes of the job", "scheduler"));
}

TEST_F(ExitsTest, InterruptedByTheUser) {
  for (const int32_t pid : {101, 102, kParent}) {
    killed(1, pid, SIGINT, 128, 7);
  }
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, WhatDlprobePassesOnIsNoNews) {
  sent(1, kParent, SIGTERM, 0, kStranger);
  scene.run().signals.back().by_dlprobe = true;
  scene.exit_by_signal(kParent, 1.01, SIGTERM);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, OrphansThatEndLaterAreNoNews) {
  log(1, kParent, false, "/job");
  scene.exit_by_signal(kParent, 1.01, SIGKILL);
  scene.exit_with(101, 2, 1);
  scene.exit_by_signal(102, 3, SIGTERM);
  EXPECT_EQ(only().processes, std::vector<ProcessKey>{key_of(kParent)});
}

TEST_F(ExitsTest, ACrashNamesTheLibrary) {
  sent(1, 101, SIGSEGV, 1, 101);
  scene.run().signals.back().code_file = "/usr/lib/libdecode.so.2";
  sent(1, 101, SIGSEGV, -6, 101);  // torch's handler raises it again
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  scene.exit_with(kParent, 1.5, 1);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerCrashed, Confidence::kCertain));
  EXPECT_THAT(finding, Says("SIGSEGV in code of libdecode.so.2"));
}

TEST_F(ExitsTest, TheKernelLogTellsWhereItCrashed) {
  log_fault("segfault at 10 ip 7f sp 7f error 4 in libfoo.so[7f00+10] likely on CPU 1");
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  EXPECT_THAT(only(), Says("in code of libfoo.so"));
}

TEST_F(ExitsTest, AFaultAtTheStackPointerIsAStackThatOverflowed) {
  log_fault("segfault at 7ffc7bf66f60 ip 7f10 sp 7ffc7bf66f40 error 6 in a.so[7f00+10]");
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  EXPECT_THAT(only(), Says("overflowed its stack"));
  scene.run().kernel_log.clear();
  log_fault("segfault at 10 ip 7f10 sp 7ffc7bf66f40 error 4 in a.so[7f00+10]");
  EXPECT_THAT(only(), Says("crashed"));
}

TEST_F(ExitsTest, AStackWithoutRoomForTheHandlerOverflowed) {
  sent(1, 101, SIGSEGV, 2, 101);
  scene.run().signals.back().thread = 101;
  sent(1.0001, 101, SIGSEGV, 128, 101);
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  scene.run().processes[1].stack_limit = Limit{.soft = kMiB, .hard = std::nullopt};
  EXPECT_THAT(only(), Says("overflowed its stack", "1.0 MiB of stack (ulimit -s)"));
  scene.run().signals.front().thread = 102;
  EXPECT_THAT(only().message.plain(), HasSubstr("the stack of another thread"));
  scene.run().signals.front().code_address = scene.run().signals.back().code_address = 0x7f10;
  EXPECT_THAT(only().message.plain(), HasSubstr("overflowed its stack"));
  scene.run().signals.back().code_address = 0x5510;  // in the handler: of a broken heap
  EXPECT_THAT(only().message.plain(), HasSubstr("crashed: SIGSEGV"));
  scene.run().signals.back().code = -6;
  EXPECT_THAT(only(), Says("crashed: SIGSEGV"));
}

TEST_F(ExitsTest, AJobThatEndsWellWithoutACrashedWorkerMayLackResults) {
  sent(1, 101, SIGSEGV, 2, 101);
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  EXPECT_THAT(only().message.plain(), Not(HasSubstr("results may be missing")));
  scene.exit_with(kParent, 2, 0);
  EXPECT_THAT(only().message.plain(), EndsWith("without it, so results may be missing"));
  StartEvent other{.at = Scene::at(1.5), .kind = StartEventKind::kStarted};
  other.process = key_of(kParent);
  scene.run().start_events.push_back(other);
  EXPECT_THAT(only().message.plain(), Not(HasSubstr("results may be missing")));
}

TEST_F(ExitsTest, AMainThreadAtItsLimitOverflowedItsStack) {
  sent(1, 101, SIGSEGV, 1, 101);
  scene.run().signals.back().stack_used = kMiB - 100;
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  EXPECT_THAT(only(), Says("crashed"));
  scene.run().processes[1].stack_limit = Limit{.soft = kMiB, .hard = std::nullopt};
  EXPECT_THAT(only(), Says("overflowed its stack"));
  scene.run().processes[1].stack_limit = Limit{.soft = 8 * kMiB, .hard = std::nullopt};
  EXPECT_THAT(only(), Says("crashed"));
}

TEST_F(ExitsTest, AProcessThatCrashedTellsItsLine) {
  killed(1, 101, SIGABRT, -6, 101);
  StartEvent crash{.at = Scene::at(1.02), .kind = StartEventKind::kCrashed};
  crash.process = key_of(101);
  crash.message = "Aborted";
  crash.file = "/job/pack.py";
  crash.line = 4;
  crash.function = "pack";
  scene.run().start_events.push_back(crash);
  EXPECT_THAT(only(), Says("crashed: SIGABRT at pack.py:4 in pack"));
  EXPECT_THAT(only(), AdvisesFirst("pack.py:4"));
  scene.run().start_events.back().type = "elsewhere";
  EXPECT_THAT(only(), Says("a thread without Python"));
  EXPECT_THAT(only(), Not(AdvisesFirst("pack.py")));
  scene.run().start_events.back().process = key_of(102);
  EXPECT_THAT(only(), Not(Says("pack.py")));
}

TEST_F(ExitsTest, AProcessOnAGpuThatAbortsIsRunWithItsKernelsOneByOne) {
  killed(1, 101, SIGABRT, -6, 101);
  EXPECT_THAT(only().remedies.front().commands.front().plain(), Not(HasSubstr("CUDA")));
  auto& processes = scene.run().samples.back().processes;
  std::ranges::find(processes, key_of(101), &ProcessSample::key)->fds = FdKinds{.devices = 20};
  EXPECT_THAT(only().remedies.front().commands.front().plain(), HasSubstr("CUDA_LAUNCH_BLOCKING"));
}

TEST_F(ExitsTest, APythonRecursionIsAnOverflow) {
  killed(1, 101, SIGSEGV, 1, 101);
  StartEvent crash{.at = Scene::at(1.02), .kind = StartEventKind::kCrashed};
  crash.process = key_of(101);
  crash.type = "recursion";
  crash.file = "/job/tree.py";
  crash.line = 6;
  crash.function = "__len__";
  scene.run().start_events.push_back(crash);
  EXPECT_THAT(only(),
              Says("overflowed its stack: SIGSEGV at tree.py:6 in __len__, which is called by "
                   "itself"));
  EXPECT_THAT(only(), AdvisesFirst("sys.setrecursionlimit"));
}

TEST_F(ExitsTest, AWorkerThatKilledItselfBeforeTheJobHungIsACause) {
  killed(1, 101, SIGKILL, 0, 101);
  EXPECT_TRUE(examine().findings.empty()) << "the job goes on";
  scene.run().end = RunEnd{.at = Scene::at(20), .reason = RunEndReason::kSubjectEnded};
  scene.run().end->text = "no progress";
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kKilledBySignal, Severity::kError));
  EXPECT_THAT(finding, Says("a lock that it held"));
  StartEvent start{.at = Scene::at(2), .kind = StartEventKind::kStarted};
  start.process = key_of(kParent);
  scene.run().start_events.push_back(start);
  EXPECT_TRUE(examine().findings.empty()) << "it was replaced";
}

StartEvent call_at(double at_s, int32_t process, int64_t signal, std::optional<int32_t> to) {
  StartEvent call{.at = Scene::at(at_s), .kind = StartEventKind::kSignals};
  call.process = key_of(process);
  call.child_pid = to;
  call.count = signal;
  call.file = "/job/guard.py";
  call.line = 19;
  call.function = "run";
  return call;
}

TEST_F(ExitsTest, ASignalByACallOfTheJobHasItsLine) {
  sent(1, 101, SIGKILL, 0, 102);
  scene.exit_by_signal(101, 1.01, SIGKILL);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_THAT(only().message.plain(), Not(HasSubstr("guard.py")));
  auto& events = scene.run().start_events;
  events.push_back(call_at(0.999, 102, SIGKILL, 101));
  EXPECT_THAT(only().message.plain(), HasSubstr("sent at guard.py:19 in run"));
  EXPECT_THAT(only().remedies.front().title.plain(), HasSubstr("guard.py:19"));
  events.back().child_pid = -7;
  EXPECT_THAT(only().message.plain(), HasSubstr("guard.py:19")) << "to a group";
  scene.run().signals.clear();
  events.back().child_pid = 101;
  EXPECT_THAT(examine().findings.front().message.plain(), HasSubstr("sent at guard.py:19 in run"));
  events.back().child_pid = 103;
  EXPECT_THAT(examine().findings.front().message.plain(), Not(HasSubstr("guard.py")));
}

TEST_F(ExitsTest, AnAlarmIsOfATimerOfItsOwn) {
  scene.exit_by_signal(101, 1.01, SIGALRM);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_THAT(only().message.plain(), HasSubstr("could not see who sent it"));
  auto& events = scene.run().start_events;
  events.push_back(call_at(0.5, 101, SIGALRM, std::nullopt));
  events.back().seconds = 0.6;
  EXPECT_THAT(only().message.plain(), HasSubstr("timer of its own ran out, which it had set at "
                                                "guard.py:19 in run"));
  EXPECT_THAT(only().remedies.front().title.plain(), HasSubstr("Cancel the timer at guard.py:19"));
  events.back().process = key_of(102);
  EXPECT_THAT(only().message.plain(), HasSubstr("could not see who sent it"));
}

TEST_F(ExitsTest, AManagerThatTheTrainerEndedIsWhyWorkersFail) {
  killed(1, 101, SIGTERM, 0, kParent);
  scene.exit_with(102, 1.2, 1);
  scene.exit_with(kParent, 1.5, 1);
  StartEvent failed{.at = Scene::at(1.1), .kind = StartEventKind::kFailed};
  failed.process = key_of(102);
  failed.ended = Ended::kProcess;
  scene.run().start_events.push_back(failed);
  for (const Finding& finding : examine().findings)
    EXPECT_NE(finding.code, FindingCode::kKilledBySignal) << "a trainer ends its workers";
  scene.run().start_events.back().wanted = "manager";
  const Finding finding = examine().findings.front();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  EXPECT_THAT(finding, Says("the server of a Manager"));
}

TEST_F(ExitsTest, ASignalOfTheParentsThreadIsNotTheTrainersWish) {
  killed(1, 101, SIGTERM, 0, kParent);
  scene.exit_with(kParent, 1.5, 1);
  scene.run().signals.back().by_ended = true;
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kKilledBySignal, Confidence::kLikely));
  EXPECT_THAT(finding, Says("PR_SET_PDEATHSIG"));
  scene.run().exits.back().wait_status = 0;
  EXPECT_TRUE(examine().findings.empty()) << "the trainer did without it";
}

TEST_F(ExitsTest, ABrokenPipeThatFailsTheTrainerIsACause) {
  scene.exit_by_signal(101, 1, SIGPIPE);
  scene.exit_with(kParent, 1.2, 0);
  EXPECT_TRUE(examine().findings.empty());
  scene.run().exits.back().wait_status = 1 << 8;
  EXPECT_THAT(only(), Says("SIGPIPE"));
}

TEST_F(ExitsTest, WhoInterruptsDlprobeInterruptsTheCommandToo) {
  killed(1, kParent, SIGINT, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
  scene.run().end = RunEnd{.at = Scene::at(1.1), .reason = RunEndReason::kInterrupted};
  EXPECT_TRUE(examine().findings.empty());
  scene.run().signals.back().signal = SIGTERM;
  scene.run().exits.back().wait_status = SIGTERM;
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal) << "so a scheduler ends a job";
}

TEST_F(ExitsTest, ALauncherThatIsInterruptedEndsItsRanks) {
  constexpr int32_t kEnded = 200;
  scene.process(kEnded, Role::kTrainer);
  scene.run().processes.back().ppid = kParent;
  killed(1, kEnded, SIGTERM, 0, kParent);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
  scene.run().end = RunEnd{.at = Scene::at(2), .reason = RunEndReason::kInterrupted};
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(ExitsTest, SigsysIsOfASeccompFilter) {
  scene.exit_by_signal(101, 1, SIGSYS);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_THAT(only(), Says("system call that a seccomp filter forbids"));
  scene.run().exits.clear();
  killed(1, 101, SIGSYS, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, AbortIsACrashAndSomebodysSigsegvIsNot) {
  killed(1, 101, SIGABRT, -6, 101);
  EXPECT_EQ(only().code, FindingCode::kWorkerCrashed);
  scene.run().signals.clear();
  scene.run().exits.clear();
  killed(1, 101, SIGSEGV, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, ACrashOfAChildThatItsParentMayHandleIsNoErrorYet) {
  killed(1, 101, SIGABRT, -6, 101);
  EXPECT_EQ(only().severity, Severity::kError) << "multiprocessing may have started it";
  StartEvent started{.at = Scene::at(0), .kind = StartEventKind::kInterpreter};
  started.process = key_of(kParent);
  scene.run().start_events.push_back(started);
  EXPECT_EQ(only().severity, Severity::kWarning);
  scene.exit_with(kParent, 1.5, 128 + SIGABRT);
  EXPECT_EQ(only().severity, Severity::kError);
}

TEST_F(ExitsTest, WorkerThatExitsByItself) {
  scene.exit_with(101, 1, 3);
  scene.exit_with(kParent, 2, 1);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Severity::kError));
  EXPECT_THAT(finding, Says("code 3"));
}

TEST_F(ExitsTest, ExitCodesOfAJobThatEndsWellAreANote) {
  scene.exit_with(101, 1, 3);
  scene.exit_with(kParent, 2, 0);
  EXPECT_EQ(only().severity, Severity::kInfo);
}

TEST_F(ExitsTest, AWorkerThatLeftATaskOfAPoolLostItsResult) {
  for (const int code : {0, 3}) {
    scene.run().exits.clear();
    scene.exit_with(101, 1, code);
    scene.exit_with(kParent, 2, 0);
    StartEvent left{.at = Scene::at(0.99),
                    .kind = StartEventKind::kExits,
                    .process = key_of(101),
                    .message = "os._exit",
                    .count = code,
                    .ended = Ended::kTask};
    scene.run().start_events = {left};
    for (const Finding& finding : examine().findings)
      EXPECT_EQ(finding.severity, Severity::kInfo) << "of an executor, or of its own";
    scene.run().start_events.front().wanted = "pool";
    EXPECT_EQ(only().severity, Severity::kWarning);
    EXPECT_THAT(only(), Says("it called os._exit; its Pool never gets the result of that task"));
  }
}

// As a pool that ends a worker whose task takes too long.
TEST_F(ExitsTest, AWorkerThatItsParentAskedToEndIsANoteInAJobThatEndsWell) {
  sent(1, 101, SIGTERM, 0, kParent);
  StartEvent left{
      .at = Scene::at(1.05), .kind = StartEventKind::kExits, .process = key_of(101), .count = 15};
  scene.run().start_events.push_back(left);
  scene.exit_with(101, 1.1, 15);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
  EXPECT_NE(only().severity, Severity::kInfo) << "what the trainer makes of it is not known";
  scene.exit_with(kParent, 9, 0);
  EXPECT_EQ(only().severity, Severity::kInfo);
}

TEST_F(ExitsTest, AnExitCodeOfEachWorkerOfLoadersThatFollowOneAnotherIsANote) {
  are_workers_of_torch();
  scene.exit_with(101, 1, 1);
  EXPECT_EQ(only().severity, Severity::kWarning);
  for (ProcessInfo& process : scene.run().processes)
    if (process.key == key_of(102)) process.seen_at = Scene::at(2);
  EXPECT_EQ(only().severity, Severity::kInfo);
}

TEST_F(ExitsTest, ExitCodeZeroCountsWhereTheSiblingsLivedOn) {
  are_workers_of_torch();
  scene.exit_with(101, 1, 0);
  scene.exit_with(102, 6, 0);
  scene.exit_with(103, 6, 0);
  scene.exit_with(kParent, 6.1, 1);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kWorkerExited);
  EXPECT_EQ(finding.processes, std::vector<ProcessKey>{key_of(101)});
}

TEST_F(ExitsTest, ExitCodeZeroOfAnyOtherWorkerIsItsOwnBusiness) {
  scene.exit_with(101, 1, 0);
  scene.exit_with(102, 6, 0);
  scene.exit_with(103, 6, 0);
  scene.exit_with(kParent, 6.1, 1);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, AnExitCodeOfAnyOtherWorkerMayBeAnAnswer) {
  scene.exit_with(101, 1, 3);
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_EQ(only().confidence, Confidence::kLikely);
  are_workers_of_torch();
  EXPECT_EQ(only().confidence, Confidence::kCertain);
}

TEST_F(ExitsTest, AReaderThatHasEnoughKillsNobody) {
  scene.exit_by_signal(kParent, 1, SIGPIPE);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, KeysOfTheTerminalAreTheUsersOwn) {
  sent(1, kParent, SIGQUIT, 128, kParent);
  scene.exit_by_signal(kParent, 1, SIGQUIT);
  EXPECT_EQ(examine(), Verdict());
  scene.run().signals.back() = {};
  sent(1, kParent, SIGQUIT, 0, kParent);  // once more, after a handler
  EXPECT_EQ(examine(), Verdict());
  scene.run().signals.back() = {};
  sent(1, kParent, SIGQUIT, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, WithoutRightsATrainerMayHaveEndedItsWorkers) {
  hide_signals();
  scene.exit_by_signal(101, 1, SIGTERM);
  EXPECT_EQ(examine(), Verdict());  // while it goes on
  scene.exit_with(kParent, 2, 1);
  EXPECT_EQ(examine(), Verdict());
  are_workers_of_torch();  // which exit with code 0 if it is their trainer who asks
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, WithoutRightsAKillIsNoErrorAsLongAsTheTrainerGoesOnOrEndsWell) {
  hide_signals();
  scene.exit_by_signal(101, 1, SIGKILL);
  EXPECT_EQ(only().severity, Severity::kWarning);
  scene.exit_with(kParent, 2, 0);
  EXPECT_EQ(examine().findings, std::vector<Finding>());
  scene.run().exits.back().wait_status = 256;
  EXPECT_EQ(only().severity, Severity::kError);
}

TEST_F(ExitsTest, SigxfszInItsOwnNameIsThatOfTheLimit) {
  sent(1, 101, SIGXFSZ, 0, 101);
  scene.exit_by_signal(101, 1, SIGXFSZ);
  scene.exit_with(kParent, 1.2, 1);
  ProcessInfo& worker = *std::ranges::find(scene.run().processes, key_of(101), &ProcessInfo::key);
  worker.file_size_limit = Limit{.soft = 4096, .hard = std::nullopt};
  EXPECT_THAT(only(), Says("RLIMIT_FSIZE"));
  EXPECT_EQ(only().confidence, Confidence::kCertain);
  worker.file_size_limit = Limit{};  // unlimited when it was first seen
  EXPECT_THAT(only(), Says("RLIMIT_FSIZE"));
  EXPECT_EQ(only().confidence, Confidence::kLikely);
}

TEST_F(ExitsTest, ExitCodeZeroCountsWhereTheSiblingsAreEndedAtOnce) {
  are_workers_of_torch();
  scene.exit_with(101, 1, 0);
  for (const int32_t worker : {102, 103}) {
    sent(1.1, worker, SIGTERM, 0, kParent);
    scene.exit_with(worker, 1.1, 0);
  }
  scene.exit_with(kParent, 1.5, 1);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
  // With PyTorch's handler a worker that is told to end exits with 0, too.
  sent(0.9, 101, SIGTERM, 0, kParent);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, AWorkerThatIsSlowToEndIsEndedLater) {
  scene.exit_with(101, 1, 0);
  sent(6.1, 102, SIGTERM, 0, kParent);
  scene.exit_by_signal(102, 6.1, SIGTERM);
  scene.exit_with(103, 1, 0);
  scene.exit_with(kParent, 9.2, 1);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, WorkersThatEndTogetherAreNoNewsEvenIfTheTrainerFailsLater) {
  for (const int32_t worker : {101, 102, 103})
    scene.exit_with(worker, 1, 0);
  scene.exit_with(kParent, 4, 1);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, OtherChildrenMayFail) {
  scene.process(200, Role::kOther);
  scene.exit_with(200, 1, 7);
  scene.process(201, Role::kOther);
  scene.exit_by_signal(201, 1, SIGSEGV);
  EXPECT_EQ(examine(), Verdict());
}

TEST_F(ExitsTest, AnOomKillOfAnotherChildIsAWarning) {
  scene.process(200, Role::kOther);
  log(1, 200, false, "/job");
  scene.exit_by_signal(200, 1.01, SIGKILL);
  EXPECT_EQ(only().severity, Severity::kWarning);
}

TEST_F(ExitsTest, HangUp) {
  for (const int32_t pid : {kParent, 101}) {
    killed(1, pid, SIGHUP, 128, 7);
  }
  EXPECT_THAT(only(), Is(FindingCode::kSessionHangup, Confidence::kCertain));
}

TEST_F(ExitsTest, AShellThatPassesTheHangUpOnIsOneAStrangerIsNot) {
  scene.run().processes.front().session = kStranger;
  killed(1, kParent, SIGHUP, 0, kStranger);
  EXPECT_EQ(only().code, FindingCode::kSessionHangup);
  scene.run().processes.front().session = 1;
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
}

TEST_F(ExitsTest, CpuTimeLimit) {
  for (ProcessInfo& process : scene.run().processes)
    process.cpu_time_limit = Limit{.soft = 10, .hard = 10};
  scene.cpu_ticks = 950;
  scene.run().samples.clear();
  scene.sample(0.9, 0);
  for (ProcessSample& process : scene.run().samples.back().processes)
    process.rss_bytes = kMiB;
  killed(1, 101, SIGKILL, 128, 101);
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  EXPECT_THAT(finding, Says("CPU time limit of 10 s"));
}

TEST_F(ExitsTest, BusErrors) {
  killed(1, 101, SIGBUS, 2, 101);
  EXPECT_THAT(only(), Is(FindingCode::kBusErrorOnFileMapping, Confidence::kLikely));
  scene.run().signals.front().code = 4;  // BUS_MCEERR_AR
  EXPECT_EQ(only().code, FindingCode::kWorkerCrashed);
  EXPECT_THAT(only(), Says("a memory error of the hardware"));
}

TEST_F(ExitsTest, ABusErrorOfAMappedFileNamesIt) {
  killed(1, 101, SIGBUS, 2, 101);
  Event file{.at = Scene::at(1), .kind = "mapped-file-cut-short", .process = key_of(101)};
  file.text = "/data/x has 4.0 KiB, and 8.0 KiB of it are mapped";
  scene.run().events = {file};
  EXPECT_THAT(only(), Says("/data/x has 4.0 KiB"));
  EXPECT_THAT(only(), AdvisesFirst("Do not rewrite"));
  scene.run().events.push_back(file);
  scene.run().events.back().text = "/data/y has 4.0 KiB, and 8.0 KiB of it are mapped";
  EXPECT_THAT(only(), Not(Says("/data/"))) << "either of them";
  scene.run().events = {{.at = Scene::at(1),
                         .kind = "mapped-file-without-room",
                         .text = "the file system of /scratch/x is full: 0 B of 12.0 MiB free",
                         .process = key_of(101)}};
  EXPECT_EQ(only().code, FindingCode::kBusErrorOnFileMapping);
  EXPECT_THAT(only(), Says("the file system of /scratch/x is full"));
  EXPECT_THAT(only().remedies.front().commands.back().plain(), HasSubstr("posix_fallocate"));
  EXPECT_EQ(only().remedies.size(), 1U);
  scene.run().events.front().kind = "file-system-without-room";
  EXPECT_THAT(only().message.plain(), HasSubstr("maybe one there: the file system of /scratch/x"));
  scene.run().events.front().process = key_of(102);
  EXPECT_THAT(only(), Not(Says("/scratch/x"))) << "another process's";
}

TEST_F(ExitsTest, WhatAnotherFindingExplainsIsLeftToIt) {
  scene.exit_by_signal(101, 1.01, SIGBUS);
  Finding full;
  full.code = FindingCode::kShmExhausted;
  full.processes = {key_of(101)};
  full.runs = {0};
  EXPECT_EQ(examine({full}), Verdict());
  full.processes = {key_of(102)};
  EXPECT_EQ(examine({full}).findings.size(), 1U);
}

TEST_F(ExitsTest, AProcessThatSomebodyWaitsForIsNotExplainedByTheWait) {
  scene.exit_by_signal(101, 1.01, SIGSEGV);
  Finding waits;
  waits.code = FindingCode::kLockHolderDead;
  waits.processes = {key_of(101)};
  EXPECT_EQ(examine({waits}).findings.size(), 1U);
}

TEST_F(ExitsTest, AnEndThatNobodySawIsSaid) {
  scene.exit_by_signal(101, 1, 0);
  scene.run().exits.back().wait_status = os_failure("PIDFD_GET_INFO", ENOTTY);
  const Verdict verdict = examine();
  EXPECT_TRUE(verdict.findings.empty());
  ASSERT_EQ(verdict.limits.size(), 1U);
  EXPECT_THAT(verdict.limits.front().what.plain(), HasSubstr("worker 101"));
}

/// A job whose interpreters have the witness.
class Raised : public ExitsTest {
 protected:
  void tell(double at_s, int32_t pid, StartEvent event) {
    event.at = Scene::at(at_s);
    event.process = key_of(pid);
    scene.run().start_events.push_back(std::move(event));
  }

  void failed(double at_s, int32_t pid, Ended ended, std::string place) {
    tell(at_s, pid,
         {.kind = StartEventKind::kFailed,
          .message = "KeyError: 'x'",
          .type = "KeyError",
          .file = place.empty() ? "" : "/job/data.py",
          .line = place.empty() ? 0 : 7,
          .function = place,
          .ended = ended,
          .raised_in =
              place.empty() ? "/lib/torch/_utils.py:543 reraise" : "/job/data.py:7 " + place,
          .again = place.empty() ? "KeyError" : ""});
  }

  /// The trainer, of an exception that it raised there.
  void job_fails(double at_s, const std::string& place) {
    failed(at_s, kParent, Ended::kProcess, place);
    scene.exit_with(kParent, at_s + 0.1, 1);
  }

  /// Of the trainer, and no worker.
  void child(int32_t pid) {
    scene.process(pid, Role::kOther);
    scene.run().processes.back().ppid = kParent;
  }
};

TEST_F(Raised, WhatIsRaisedOnceTheUserInterruptsIsNoNews) {
  failed(1, kParent, Ended::kProcess, "launch_agent");
  scene.exit_with(kParent, 1.3, 1);
  scene.run().end = RunEnd{.at = Scene::at(2), .reason = RunEndReason::kInterrupted};
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "before the interrupt";
  sent(0.9, kParent, SIGINT, 128, 7);
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Raised, ATrainerThatRaisesItAgainIsNotWhereItBegan) {
  failed(1, 102, Ended::kWorker, "__getitem__");
  job_fails(1.2, "");
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kUncaughtException, Confidence::kCertain));
  EXPECT_THAT(finding, Says("worker 102 failed", "data.py:7 in __getitem__"));
}

TEST_F(Raised, WhatItWasRaisedFromIsTheCause) {
  failed(1, 102, Ended::kWorker, "__getitem__");
  job_fails(1.2, "");
  scene.run().start_events.front().chain = {"ValueError: no row at /job/data.py:5 in row",
                                            "JSONDecodeError: at 7 in x at /job/rows.py:4 in parse",
                                            "while handling KeyError: 'k' at /job/c.py:2 in get"};
  EXPECT_THAT(only(),
              Says("KeyError: 'x' at data.py:7 in __getitem__, caused by JSONDecodeError: at 7 "
                   "in x at rows.py:4 in parse"));
  EXPECT_THAT(only(), AdvisesFirst("Fix it at rows.py:4"));
  scene.run().start_events.front().chain = {"OSError: [Errno 5] at 3 in all"};
  EXPECT_THAT(only().message.plain(), EndsWith("caused by OSError: [Errno 5] at 3 in all"));
  EXPECT_THAT(only(), AdvisesFirst("Fix it at data.py:7"));
  scene.run().start_events.front().chain = {"while handling KeyError: 'k' at /job/c.py:2 in get"};
  EXPECT_THAT(only(), Not(Says("caused by")));
}

TEST_F(Raised, WhatItSharesSinceForkMayBeWhy) {
  failed(1, 102, Ended::kWorker, "__getitem__");
  job_fails(1.2, "");
  const auto share = [&](std::string what) {
    scene.run().start_events.front().shared_file = std::move(what);
    return only();
  };
  EXPECT_THAT(share("/job/data.rec"),
              Says("maybe because it shares the file position of data.rec"));
  EXPECT_THAT(only(), AdvisesFirst("Open data.rec in the worker"));
  EXPECT_THAT(share("10.0.0.5:6379"),
              Says("maybe because it shares its connection to 10.0.0.5:6379"));
  std::erase_if(scene.run().processes, [](const ProcessInfo& each) {
    return each.role == Role::kWorker && each.key != key_of(102);
  });
  EXPECT_THAT(only(), Not(Says("shares"))) << "with nobody";
}

TEST_F(Raised, ATrainerThatRaisedNothingIsNotSaidToHaveFailedWithItsWorker) {
  scene.run().begin.command = {"python", "-u", "eval.py", "--epochs", "3"};
  failed(1, 102, Ended::kWorker, "");
  scene.run().start_events.back().again = "";
  scene.run().start_events.back().raised_in =
      "/venv/lib/python3.11/site-packages/torch/utils/data/_utils/collate.py:275 collate";
  scene.exit_with(kParent, 1.3, 3);
  const Finding finding = only();
  EXPECT_EQ(finding.message.plain(),
            "worker 102 failed: KeyError: 'x' in torch/utils/data/_utils/collate.py:275 collate; "
            "its trainer exited with code 3 without an exception that dlprobe saw");
  EXPECT_EQ(finding.confidence, Confidence::kLikely);
  EXPECT_EQ(finding.remedies.front().commands.back().plain(), "python -m pdb -c continue eval.py");
}

TEST_F(Raised, WhatAWorkerMadeTextOfIsWhereAnExceptionCameFrom) {
  failed(1, 102, Ended::kNothing, "load");
  scene.run().start_events.back().kind = StartEventKind::kPutInWords;
  job_fails(1.2, "unwrap");
  EXPECT_THAT(only(), Says("trainer 100 ended with an uncaught exception: KeyError: 'x'"));
  StartEvent& last = scene.run().start_events.back();
  last.type = "RemoteError";
  last.message = "rep.RemoteError: Traceback ... KeyError: 'x'";
  scene.run().start_events.front().file = "/job/rows.py";
  EXPECT_THAT(only(), Says("worker 102 failed: KeyError: 'x' at rows.py:7 in load; trainer 100 was "
                           "told so and ended with RemoteError at data.py:7 in unwrap"));
  EXPECT_THAT(only(), AdvisesFirst("Fix it at rows.py:7"));
  last.message = "rep.RemoteError: no result";
  EXPECT_THAT(only(), Says("trainer 100 ended with an uncaught exception"));
}

TEST_F(Raised, WhatWasHandledWhereAProcessLeftIsSaid) {
  tell(1, 102,
       {.kind = StartEventKind::kExits,
        .message = "os._exit",
        .file = "/job/actor.py",
        .line = 6,
        .count = 4,
        .chain = {"while handling FileNotFoundError: rom at /job/roms.py:3 in load",
                  "while handling KeyError: 1"}});
  scene.exit_with(102, 1.1, 4);
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(),
              Says("it called os._exit at actor.py:6 while it handled FileNotFoundError: rom "
                   "at roms.py:3 in load"));
  EXPECT_THAT(only(), AdvisesFirst("Fix it at roms.py:3"));
}

TEST_F(Raised, ACallbackOfAPoolThatFailsIsNoEndOfAThread) {
  failed(1, kParent, Ended::kThread, "on_result");
  scene.run().start_events.back().wanted = "callback";
  EXPECT_THAT(only(), Says("a callback of a Pool of trainer 100 failed"));
}

TEST_F(Raised, ANameThatASpawnedProcessLacksAndItsParentHasIsNamed) {
  for (const double at : {1.0, 1.2}) {
    const bool is_parent = at > 1;
    failed(at, is_parent ? kParent : 102, is_parent ? Ended::kProcess : Ended::kTask, "features");
    StartEvent& event = scene.run().start_events.back();
    event.type = "NameError";
    event.path = is_parent ? "table" : "";
    event.again = is_parent ? "NameError" : "";
  }
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "fork would have copied it";
  for (ProcessInfo& process : scene.run().processes)
    if (process.key.pid == 102) process.start_method = StartMethod::kSpawn;
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kStateNotInherited, Confidence::kCertain));
  EXPECT_THAT(finding, Says("main module of trainer 100 has table"));
  EXPECT_THAT(finding, AdvisesFirst("Pass table to the processes"));
}

TEST_F(Raised, OfWorkersThatAllFailTheFirstIsHandedOn) {
  failed(1, 102, Ended::kWorker, "__getitem__");
  failed(1.1, 103, Ended::kWorker, "__getitem__");
  job_fails(1.2, "");
  EXPECT_THAT(only(), Says("worker 102 failed"));
  scene.exit_with(102, 1.05, 0);
  EXPECT_THAT(only(), Says("worker 103 failed")) << "102 was of a loader before";
}

TEST_F(Raised, AThreadThatDiedIsWhyItsConsumerWaitedInVain) {
  failed(1, kParent, Ended::kThread, "prefetch");
  failed(6, kParent, Ended::kProcess, "");
  scene.run().start_events.back().again = "Empty";
  scene.exit_with(kParent, 6.1, 1);
  EXPECT_THAT(only(), Says("a thread of trainer", "in prefetch"));
}

TEST_F(Raised, ARankThatLeftBeforeOthersFailedInACollectiveIsNamed) {
  scene.exit_with(102, 1, 0);
  failed(1.1, 101, Ended::kProcess, "train");
  scene.run().start_events.back().raised_in =
      "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:1437 all_reduce";
  scene.exit_with(101, 1.2, 1);
  scene.exit_with(kParent, 1.3, 1);
  const Verdict verdict = examine();
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kUnevenData);
  EXPECT_THAT(verdict.findings.front(),
              Says("102 ended with exit code 0 while worker 101 waited for it in all_reduce"));
  scene.run().start_events.back().raised_in = "/job/data.py:7 train";
  for (const Finding& finding : examine().findings)
    EXPECT_NE(finding.code, FindingCode::kUnevenData) << "it was no collective operation";
}

TEST_F(Raised, ARankThatLeftWithAnErrorIsNamedAndNotWhoLostIt) {
  for (ProcessInfo& process : scene.run().processes)
    process.role = process.key == key_of(kParent) ? Role::kLauncher : Role::kTrainer;
  failed(1.1, 101, Ended::kProcess, "train");
  scene.run().start_events.back().raised_in =
      "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py:1437 all_reduce";
  scene.exit_with(101, 1.2, 1);
  scene.exit_with(kParent, 2.5, 1);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "no rank has left";
  scene.exit_with(102, 1.9, 3);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Severity::kError));
  EXPECT_THAT(finding, Says("102 exited by itself with code 3"));
  failed(1.15, 102, Ended::kProcess, "train");
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "it has said why";
}

TEST_F(Raised, ARankForWhichItsLauncherFailedIsNamed) {
  for (ProcessInfo& process : scene.run().processes)
    process.role = process.key == key_of(kParent) ? Role::kLauncher : Role::kTrainer;
  scene.exit_with(102, 1, 3);
  failed(1.5, kParent, Ended::kProcess, "");
  scene.exit_with(kParent, 2, 1);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
  scene.run().start_events.back().again = "";
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "the launcher's own fault";
}

TEST_F(Raised, OfATableInAnExceptionTheFirstLineIsSaid) {
  failed(1, kParent, Ended::kProcess, "train");
  scene.run().start_events.back().message = "RuntimeError: shapes differ\n=====\n| 1 | 2 |";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("shapes differ at"));
}

TEST_F(Raised, WhatTheTrainerItselfRaisesIsItsOwn) {
  failed(1, 102, Ended::kTask, "sample");
  job_fails(1.2, "train");
  EXPECT_THAT(only(), Says("in train"));
}

TEST_F(Raised, WhatALibraryRaisesForItIsItsOwnToo) {
  failed(1, 102, Ended::kTask, "sample");
  failed(1.2, kParent, Ended::kProcess, "");
  scene.run().start_events.back().again = "";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("_utils.py:543"));
}

TEST_F(Raised, OfSeveralProgramsOfAShellTheFirstIsLikely) {
  scene.process(401, Role::kOther);
  scene.process(402, Role::kOther);
  failed(1, 401, Ended::kProcess, "convert");
  failed(2, 402, Ended::kProcess, "train");
  scene.exit_with(401, 1.1, 1);
  scene.exit_with(402, 2.1, 1);
  scene.exit_with(kParent, 2.2, 1);
  EXPECT_THAT(only(), Says("in convert"));
  EXPECT_EQ(only().confidence, Confidence::kLikely);
}

TEST_F(Raised, AChildWhoseFailureItsParentTookIsNoNews) {
  child(401);
  failed(1, 401, Ended::kProcess, "convert");
  scene.exit_with(401, 1.1, 1);
  scene.exit_with(kParent, 1.2, 0);
  EXPECT_TRUE(examine().findings.empty()) << "its parent ended well";
  ProcessExit& end = scene.run().exits.back();
  end.wait_status = 1 << 8;
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "its parent passed it on";
  tell(0.1, kParent, {.kind = StartEventKind::kInterpreter});
  end.at = Scene::at(9);
  EXPECT_TRUE(examine().findings.empty()) << "it went on, and failed of something else";
  failed(8.9, kParent, Ended::kProcess, "train");
  EXPECT_THAT(only(), Says("in train"));
}

// Workers ask a manager in vain that the trainer's "finally" shut down.
TEST_F(Raised, AnExceptionThatShutAManagerDownComesBeforeWorkersThatMissIt) {
  failed(1, 101, Ended::kProcess, "beat");
  scene.run().start_events.back().wanted = "manager";
  failed(1.1, kParent, Ended::kProcess, "report");
  scene.exit_with(101, 1.05, 1);
  scene.exit_with(kParent, 1.2, 1);
  EXPECT_EQ(examine().findings.front().code, FindingCode::kWorkerExited)
      << "the trainer may have failed of it";
  scene.run().start_events.back().wanted = "shutdown";
  EXPECT_THAT(only().message.plain(), HasSubstr("in report"));
  scene.run().start_events.back().wanted = "";
  scene.run().start_events.front().at = Scene::at(1.15);
  EXPECT_THAT(only().message.plain(), HasSubstr("in report"));
}

TEST_F(Raised, ALauncherThatEndsTheOthersFailsOfTheFirstHoweverLongThatTakes) {
  for (const int32_t rank : {401, 402})
    child(rank);
  failed(1, 401, Ended::kProcess, "train");
  scene.exit_with(401, 1.1, 1);
  scene.exit_with(kParent, 9, 3);
  EXPECT_TRUE(examine().findings.empty()) << "its code is another one";
  scene.exit_by_signal(402, 8, SIGTERM);
  EXPECT_THAT(only(), Says("in train"));
}

TEST_F(Raised, AShellEndsByTheCodeOfTheChildThatCameLast) {
  for (const int32_t program : {401, 402}) {
    child(program);
    failed(program == 401 ? 1 : 5, program, Ended::kProcess, program == 401 ? "convert" : "train");
    scene.exit_with(program, program == 401 ? 1.1 : 5.1, 1);
  }
  scene.exit_with(kParent, 9, 1);
  EXPECT_THAT(only(), Says("in train"));
}

TEST_F(Raised, TheForkServerOfPython36EndsAllItsProcessesByCode1) {
  for (ProcessInfo& process : scene.run().processes)
    process.start_method = StartMethod::kForkserver;
  tell(0.1, kParent, {.kind = StartEventKind::kInterpreter, .type = "3.6.15"});
  scene.exit_with(101, 1, 1);
  scene.exit_with(kParent, 2, 0);
  EXPECT_TRUE(examine().findings.empty());
  tell(0.9, 101, {.kind = StartEventKind::kExits, .message = "sys.exit", .count = 3});
  EXPECT_EQ(only().code, FindingCode::kWorkerExited) << "it told so";
  scene.run().start_events.pop_back();
  scene.run().start_events.back().type = "3.7.16";
  EXPECT_EQ(only().code, FindingCode::kWorkerExited) << "since 3.7 it is the process's own";
}

TEST_F(Raised, ATaskIsToBeCalledInTheMainProcess) {
  failed(1, 101, Ended::kTask, "sample");
  job_fails(1.2, "");
  EXPECT_THAT(only().remedies.front().commands.front().plain(), HasSubstr("instead of pool.map"));
  for (StartEvent& event : scene.run().start_events)
    if (event.ended == Ended::kTask) event.called_at = "decode('a.jpg', ...)";
  EXPECT_THAT(only().remedies.front().commands.front().plain(),
              HasSubstr("decode('a.jpg', ...)  # instead of the call of the pool"));
}

TEST_F(Raised, AProcessThatLeavesBreaksItsPool) {
  constexpr int32_t kOfPool = 301;
  tell(1, kOfPool,
       {.kind = StartEventKind::kExits,
        .message = "os._exit",
        .file = "/job/a.py",
        .line = 4,
        .count = 7});
  job_fails(1.2, "");
  EXPECT_THAT(only(), Says("called os._exit at a.py:4, and the job ended with KeyError"));
}

TEST_F(Raised, AProgramThatExitsAfterwardsMayHaveHadAnotherReason) {
  failed(1, 102, Ended::kTask, "sample");
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().confidence, Confidence::kLikely);
}

TEST_F(Raised, AJobThatEndsWellHasCaughtIt) {
  failed(1, 102, Ended::kTask, "sample");
  scene.exit_with(kParent, 1.3, 0);
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Raised, WhatAnotherFindingExplainsIsNotToldTwice) {
  failed(1.2, kParent, Ended::kProcess, "");
  scene.exit_by_signal(101, 1, SIGSEGV);
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kWorkerCrashed);
}

/// A pool whose initializer fails in each worker, a tenth of a second after its start.
class FailingPool : public Raised {
 protected:
  static constexpr int32_t kFirst = 301;
  static constexpr int kMany = 14;

  FailingPool() {
    std::erase_if(scene.run().processes,
                  [](const ProcessInfo& process) { return process.role == Role::kWorker; });
  }

  void start_worker(int32_t pid, double at_s) {
    scene.process(pid, Role::kWorker);
    ProcessInfo& process = scene.run().processes.back();
    process.ppid = kParent;
    process.seen_at = Scene::at(at_s);
  }

  /// From 1 s on.
  void fails(int times, double every_s = 1) {
    for (int i = 0; i < times; ++i) {
      const double at = 1 + every_s * i;
      start_worker(kFirst + i, at);
      failed(at + 0.09, kFirst + i, Ended::kInitializer, "setup");
      scene.exit_with(kFirst + i, at + 0.1, 1);
    }
  }
};

TEST_F(FailingPool, ItsInitializerComesFirst) {
  fails(kMany);
  scene.sample(15, 0);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kUncaughtException, Severity::kError));
  EXPECT_EQ(finding.message.plain(),
            "the initializer of the pool of trainer 100 fails in each worker: KeyError: 'x' at "
            "data.py:7 in setup");
}

TEST_F(FailingPool, WhatItsTrainerThenRaisesIsOfThat) {
  fails(kMany);
  job_fails(15, "main");
  EXPECT_THAT(only(), Says("fails in each worker"));
}

TEST_F(FailingPool, AtFirstAWorkerMayYetGetPastIt) {
  fails(kMany, 0.1);
  start_worker(kFirst + kMany, 2.4);
  scene.sample(3, 0);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
}

TEST_F(FailingPool, NoWorkerHasFailedForLong) {
  fails(kMany, 0.5);
  start_worker(kFirst + kMany, 8);
  scene.sample(11, 0);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
}

TEST_F(FailingPool, AWorkerThatIsLeftWithoutItsTrainerEndsWell) {
  fails(kMany);
  start_worker(kFirst + kMany, 14.5);
  scene.exit_with(kFirst + kMany, 14.95, 0);
  scene.exit_by_signal(kParent, 15, SIGTERM);
  const Verdict verdict = examine();
  ASSERT_FALSE(verdict.findings.empty());
  EXPECT_TRUE(find(verdict, FindingCode::kUncaughtException));
  EXPECT_FALSE(find(verdict, FindingCode::kWorkerExited));
}

/// An executor whose task leaves its process, and that is taken anew each time.
class BreakingPool : public FailingPool {
 protected:
  void leaves(int times, Ended ended) {
    for (int i = 0; i < times; ++i) {
      start_worker(kFirst + i, 1 + i);
      tell(1.05 + i, kFirst + i,
           {.kind = StartEventKind::kExits,
            .message = "os._exit",
            .file = "/job/codec.py",
            .line = 6,
            .function = "decode",
            .count = 3,
            .ended = ended});
      scene.exit_with(kFirst + i, 1.1 + i, 3);
    }
  }
};

TEST_F(BreakingPool, IsAnErrorOfItsTask) {
  leaves(kMany, Ended::kTask);
  scene.sample(15, 0);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Severity::kError));
  EXPECT_EQ(finding.message.plain(),
            "each worker that trainer 100 starts ends with an error, again and again: 14 workers "
            "in 13.0 s; the first, worker 301, exited by itself with code 3: it called os._exit "
            "at codec.py:6 in decode");
  EXPECT_THAT(finding.remedies.back().title.plain(), HasSubstr("give up when a pool breaks"));
}

TEST_F(BreakingPool, WithoutAPoolTheCodeMayBeAnAnswer) {
  leaves(kMany, Ended::kNothing);
  scene.sample(15, 0);
  EXPECT_EQ(only().severity, Severity::kWarning);
}

TEST_F(BreakingPool, OneThatSucceedsAtLastIsNone) {
  leaves(kMany, Ended::kTask);
  start_worker(kFirst + kMany, 15);
  scene.exit_with(kFirst + kMany, 16, 0);
  scene.sample(25, 0);
  const Finding finding = only();
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Not(Says("again and again")));
}

TEST_F(BreakingPool, CrashesAreTheSame) {
  for (int i = 0; i < kMany; ++i) {
    start_worker(kFirst + i, 1 + i);
    scene.exit_by_signal(kFirst + i, 1.1 + i, SIGSEGV);
  }
  scene.sample(15, 0);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerCrashed, Severity::kError));
  EXPECT_THAT(finding, Says("again and again: 14 workers"));
}

TEST_F(FailingPool, AFewTimesMayBeAccidents) {
  fails(9);
  scene.sample(15, 0);
  EXPECT_THAT(only(), Is(FindingCode::kWorkerExited, Severity::kWarning));
}

TEST_F(FailingPool, AWorkerThatLivesOnIsPastIt) {
  start_worker(kFirst + kMany, 2.2);
  fails(kMany);
  scene.sample(15, 0);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
}

TEST_F(FailingPool, AWorkerThatEndedWellWasPastIt) {
  fails(kMany);
  start_worker(kFirst + kMany, 2.2);
  scene.exit_with(kFirst + kMany, 14, 0);
  scene.sample(15, 0);
  EXPECT_EQ(only().code, FindingCode::kWorkerExited);
}

TEST_F(FailingPool, AJobThatEndedWellDidWithoutIt) {
  fails(kMany);
  scene.exit_with(kParent, 3, 0);
  for (const Finding& finding : examine().findings)
    EXPECT_EQ(finding.severity, Severity::kInfo);
}

TEST_F(Raised, AWorkersExitCodeHasItsReason) {
  failed(1, 101, Ended::kProcess, "sample");
  scene.exit_with(101, 1, 1);
  scene.exit_with(kParent, 2, 1);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Confidence::kCertain));
  EXPECT_THAT(finding, Says("nobody caught KeyError: 'x' at data.py:7"));
  EXPECT_THAT(finding, AdvisesFirst("Fix it at data.py:7"));
}

TEST_F(Raised, WhatWaitsBecauseOfAnExceptionDoesNotExplainIt) {
  failed(1, 102, Ended::kThread, "fill");
  Finding waits;
  waits.code = FindingCode::kRankBehind;
  waits.severity = Severity::kWarning;
  waits.processes = {key_of(102)};
  EXPECT_EQ(find(examine({waits}), FindingCode::kUncaughtException)->severity, Severity::kWarning);
  waits.consequence_of = FindingCode::kUncaughtException;
  EXPECT_EQ(find(examine({waits}), FindingCode::kUncaughtException)->severity, Severity::kError);
  scene.exit_with(kParent, 2, 1);
  waits.severity = Severity::kError;
  EXPECT_TRUE(find(examine({waits}), FindingCode::kUncaughtException));
  waits.consequence_of.reset();
  EXPECT_FALSE(find(examine({waits}), FindingCode::kUncaughtException));
}

TEST_F(Raised, ATrainerMayHaveLivedWithAWorkersEnd) {
  tell(1, 101,
       {.kind = StartEventKind::kExits, .message = "os._exit", .file = "/job/data.py", .line = 9});
  scene.exit_with(101, 1, 3);
  job_fails(1.9, "train");
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 2);
  EXPECT_EQ(verdict.findings.front().code, FindingCode::kWorkerExited);
  for (const Finding& finding : verdict.findings)
    EXPECT_EQ(finding.confidence, Confidence::kLikely);
}

// CUDA names each process on the GPU.
TEST_F(Raised, TheHeadlineHasTheBeginningOfALongMessage) {
  std::string words = "torch.OutOfMemoryError: CUDA out of memory.";
  while (words.size() < 400)
    words += " Process 4711 has 1.21 GiB memory in use.";
  tell(1.2, kParent, {.kind = StartEventKind::kFailed, .message = words, .ended = Ended::kProcess});
  scene.exit_with(kParent, 1.3, 1);
  const std::string headline = examine().findings.front().message.plain();
  EXPECT_THAT(headline, HasSubstr("CUDA out of memory. Process 4711 has"));
  EXPECT_THAT(headline, HasSubstr(" ..."));
  EXPECT_LT(headline.size(), 260U);
}

TEST_F(Raised, ARefusedGpuMemoryHasARemedyThatHelps) {
  StartEvent event{.kind = StartEventKind::kFailed,
                   .message = "torch.OutOfMemoryError: CUDA out of memory.",
                   .type = "OutOfMemoryError",
                   .file = "/job/lm.py",
                   .line = 39,
                   .function = "Block.forward",
                   .ended = Ended::kProcess,
                   .called_at = "/job/lm.py:61 in perplexity"};
  tell(1.2, kParent, event);
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only().message.plain(), EndsWith("Block.forward, called at lm.py:61 in perplexity"));
  EXPECT_THAT(only(), AdvisesFirst("batch smaller"));
  scene.run().start_events.back().wanted = "graph";
  EXPECT_THAT(only(), Says("in eval() mode"));
  EXPECT_THAT(only(), AdvisesFirst("no_grad() at lm.py:61"));
  scene.run().start_events.back().called_at = "/job/lm.py:39 in Block.forward";
  EXPECT_THAT(only(), Not(Says("called at")));
  scene.run().start_events.back().message = "job.OutOfMemoryError: of its own";
  EXPECT_THAT(only(), AdvisesFirst("Fix it"));
}

TEST_F(Raised, AFailureOfTheGpuMayBeHeardOfLater) {
  failed(1.2, kParent, Ended::kProcess, "train");
  StartEvent& event = scene.run().start_events.back();
  event.type = "AcceleratorError";
  event.message = "torch.AcceleratorError: CUDA error: device-side assert triggered";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("may have heard there"));
  EXPECT_THAT(only().remedies.front().commands.front().plain(), HasSubstr("CUDA_LAUNCH_BLOCKING"));
}

TEST_F(Raised, APathThatIsTooLongForASocketSaysSo) {
  failed(1.2, kParent, Ended::kFeeder, "train");
  StartEvent& event = scene.run().start_events.back();
  event.wanted = "socket";
  event.path = "/tmp/***/listener";  // secrets are masked
  event.count = 137;
  event.limit = 107;
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("has 137 bytes, and 107 are the most"));
}

TEST_F(Raised, ATensorWhoseSenderHasEndedIsSaidSo) {
  failed(1.2, kParent, Ended::kProcess, "train");
  scene.run().start_events.back().wanted = "sender";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("the process that sent it has ended"));
  scene.run().start_events.back().error_number = ENOENT;
  EXPECT_THAT(only(), Says("or its folder for temporary files was removed"));
  scene.run().start_events.back().error_number.reset();
  scene.run().start_events.back().child_pid = 77;
  EXPECT_THAT(only(), Says("process 77, which sent the tensor, has ended"));
  EXPECT_THAT(only(), AdvisesFirst("alive"));
}

TEST_F(Raised, ATensorThatSomethingRemovedIsSaidSo) {
  failed(1.2, kParent, Ended::kProcess, "train");
  StartEvent& event = scene.run().start_events.back();
  event.wanted = "block";
  event.child_pid = 101;
  event.path = "/dev/shm/torch_101_7_1";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("something removed /dev/shm/torch_101_7_1, while process 101"));
  EXPECT_THAT(only(), AdvisesFirst("RemoveIPC"));
}

TEST_F(Raised, ABlockThatTheTrackerOfAReaderRemovedIsSaidSo) {
  for (const bool is_worker : {false, true}) {
    scene.run().exits.clear();
    scene.run().start_events.clear();
    failed(1.2, is_worker ? 101 : kParent, Ended::kProcess, "attach");
    StartEvent& event = scene.run().start_events.back();
    event.wanted = "tracker";
    event.child_pid = 77;
    event.path = "python3 reader.py";
    scene.exit_with(is_worker ? 101 : kParent, 1.3, 1);
    if (is_worker) scene.exit_with(kParent, 1.4, 1);
    const Finding finding = examine().findings.front();
    EXPECT_THAT(finding, Says("the resource tracker of process 77 (python3 reader.py) removed"));
    EXPECT_THAT(finding.remedies.front().commands.front().plain(), HasSubstr("track=False"));
  }
}

TEST_F(Raised, ALockThatWasFreedBeforeItCameIsSaidSo) {
  failed(1.2, 101, Ended::kProcess, "");
  scene.run().start_events.back().wanted = "lock";
  scene.exit_with(101, 1.3, 1);
  scene.exit_with(kParent, 1.4, 1);
  const Finding finding = examine().findings.front();
  EXPECT_THAT(finding, Says("had kept no reference to it"));
  EXPECT_THAT(finding, AdvisesFirst("in a variable"));
}

TEST_F(Raised, WhoHasTheFileLockedIsNamed) {
  failed(1, kParent, Ended::kProcess, "open");
  StartEvent& event = scene.run().start_events.back();
  event.wanted = "locked";
  event.path = "/data/tokens.db";
  event.child_pid = 101;
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(only(), Says("; worker 101 had tokens.db locked"));
  EXPECT_THAT(only(), AdvisesFirst("Close the file"));
  event.type = "OperationalError";
  EXPECT_THAT(only(), AdvisesFirst("Commit each change at once"));
  event.child_pid = 4711;
  EXPECT_THAT(only(), Says("; process 4711 had tokens.db locked"));
}

TEST_F(Raised, AnObjectThatRefusesToWorkAfterAForkAndAHiddenModuleAreNamed) {
  failed(1, 101, Ended::kProcess, "fetch");
  scene.run().start_events.back().wanted = "creator";
  scene.run().start_events.back().child_pid = kParent;
  scene.exit_with(101, 1.3, 1);
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(examine().findings.front(), Says("made that object before the fork"));
  scene.run().start_events.back().wanted = "module";
  scene.run().start_events.back().path = "/job/signal.py";
  EXPECT_THAT(examine().findings.front(), Says("/job/signal.py hides Python's own module"));
}

TEST_F(Raised, WorkThatComesTooLateIsSaidSo) {
  failed(1, kParent, Ended::kThread, "flush");
  scene.run().start_events.back().wanted = "interpreter";
  scene.exit_with(kParent, 2, 0);
  EXPECT_THAT(only(), Says("the main thread had ended by then"));
  EXPECT_THAT(only(), AdvisesFirst("Wait for the thread"));
  scene.run().start_events.back().wanted = "executor";
  EXPECT_THAT(only(), Says("had been closed before"));
}

TEST_F(Raised, AProbeKnowsOfItAndDoesNotFailOnIt) {
  job_fails(1.2, "train");
  const Verdict verdict = probes::shm::kProbe.examine(scene.recording);
  ASSERT_EQ(verdict.findings.size(), 1);
  EXPECT_THAT(verdict.findings.front(), Is(FindingCode::kUncaughtException, Severity::kInfo));
  EXPECT_THAT(verdict.all_well.plain(), HasSubstr("Found beside: DLP0514 uncaught-exception"));
  EXPECT_THAT(verdict.gaps, testing::IsEmpty());
}

TEST_F(Raised, AThreadThatIsLostIsToldWhileTheProgramRuns) {
  failed(1, kParent, Ended::kThread, "feed");
  const Finding finding = only();
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("did not end with it"));
  scene.exit_with(kParent, 2, 0);
  EXPECT_THAT(only().message.plain(), HasSubstr("ended well without it"));
  failed(0.9, 101, Ended::kWorker, "collate");
  std::ranges::rotate(scene.run().start_events, std::prev(scene.run().start_events.end()));
  scene.run().start_events.back().again = "KeyError";
  EXPECT_THAT(only().message.plain(), HasSubstr("worker 101 failed, and a thread of trainer"));
  EXPECT_THAT(only().message.plain(), HasSubstr("in collate; its program ended well without it"));
  scene.run().start_events.back().wanted = "threading.excepthook";
  EXPECT_TRUE(examine().findings.empty()) << "a hook of its own handles it";
}

TEST_F(Raised, ATaskForWhoseResultNobodyAsksIsToldAsItsProcessSaidIt) {
  failed(1, 101, Ended::kTask, "decode");
  scene.exit_with(kParent, 2, 0);
  EXPECT_TRUE(examine().findings.empty()) << "somebody may have asked";
  tell(1.5, kParent,
       {.kind = StartEventKind::kResultLost,
        .message = "KeyError: 'x'",
        .type = "KeyError",
        .again = "KeyError"});
  const Finding finding = only();
  EXPECT_THAT(finding,
              Is(FindingCode::kUncaughtException, Severity::kWarning, Confidence::kLikely));
  EXPECT_THAT(finding,
              Says("a task in worker 101 failed, and nobody asked for its result: KeyError: "
                   "'x' at data.py:7 in decode; its program ended well without it"));
  scene.run().start_events.back().type = "BrokenProcessPool";
  EXPECT_TRUE(examine().findings.empty()) << "its process says why it ended";
}

TEST_F(Raised, DataThatEndedAtAnExceptionWithWhichTheProgramWentOnIsTold) {
  failed(1, 101, Ended::kWorker, "__iter__");
  scene.exit_with(kParent, 2, 0);
  const auto went_on = [&] {
    tell(1.5, kParent,
         {.kind = StartEventKind::kResultLost,
          .type = "KeyError",
          .again = "KeyError",
          .loader = 7});
  };
  went_on();
  EXPECT_TRUE(examine().findings.empty()) << "it may have gone on to its next sample";
  scene.run().start_events.front().wanted = "end";
  const Finding finding = only();
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding,
              Says("an exception ended the data of worker 101, and its other samples never "
                   "came: KeyError: 'x' at data.py:7 in __iter__"));
  scene.run().start_events.back().loader.reset();
  EXPECT_TRUE(examine().findings.empty()) << "that is a task's";
}

TEST_F(Raised, ATaskOfAThreadForWhoseResultNobodyAsksIsTold) {
  tell(1.5, kParent,
       {.kind = StartEventKind::kResultLost,
        .message = "KeyError: 'x'",
        .type = "KeyError",
        .file = "/job/data.py",
        .line = 7,
        .function = "decode"});
  EXPECT_THAT(only(), Says("a task in trainer 100 failed"));
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(examine().findings, testing::IsEmpty()) << "it failed of something else";
}

TEST_F(Raised, AThreadIsNotWhyAProgramLeavesByItsHandlerOfASignal) {
  failed(1, kParent, Ended::kThread, "feed");
  scene.exit_with(kParent, 3, 7);
  EXPECT_EQ(only().severity, Severity::kError);
  sent(2.9, kParent, SIGTERM, 0, kParent);
  const Finding finding = only();
  EXPECT_EQ(finding.severity, Severity::kWarning);
  EXPECT_THAT(finding, Says("sent SIGTERM by itself, caught it and exited",
                            "before, an uncaught exception ended a thread"));
}

TEST_F(Raised, AWorkerThatIsLostIsToldWhereItsProgramEndsWell) {
  failed(1, 101, Ended::kProcess, "load");
  scene.exit_with(kParent, 2, 0);
  EXPECT_EQ(only().severity, Severity::kWarning);
  tell(1.5, kParent, {.kind = StartEventKind::kStarted});
  EXPECT_TRUE(examine().findings.empty()) << "it was tried again";
}

TEST_F(Raised, AChildWhoseExitCodeItsProgramAskedForIsNotLost) {
  failed(1, 101, Ended::kProcess, "load");
  scene.exit_with(kParent, 2, 0);
  tell(1.5, kParent, {.kind = StartEventKind::kCodeRead, .child_pid = 102});
  EXPECT_EQ(only().severity, Severity::kWarning) << "of another one";
  scene.run().start_events.back().child_pid = 101;
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Raised, AChildTooBriefToBeKnownIsLostIfMultiprocessingStartedIt) {
  failed(1, 901, Ended::kProcess, "load");
  scene.exit_with(kParent, 2, 0);
  EXPECT_TRUE(examine().findings.empty()) << "a program of its own";
  tell(0.9, kParent, {.kind = StartEventKind::kStarted, .child_pid = 901});
  EXPECT_EQ(only().severity, Severity::kWarning);
}

TEST_F(Raised, ADataSetThatStopsIterationEndsTheEpochEarly) {
  failed(1, 101, Ended::kWorker, "load");
  scene.exit_with(kParent, 2, 0);
  EXPECT_TRUE(examine().findings.empty()) << "the trainer caught it";
  scene.run().start_events.back().type = "StopIteration";
  EXPECT_THAT(only(), Says("for the end of the data"));
}

TEST_F(Raised, ATrainerThatKillsItsWorkerIsItsCause) {
  sent(1, 101, SIGKILL, 0, kParent);
  scene.exit_by_signal(101, 1, SIGKILL);
  failed(1.2, kParent, Ended::kProcess, "");
  scene.run().start_events.back().again = "RuntimeError";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kKilledBySignal);
  scene.run().start_events.back().again = "";
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "it failed by itself";
}

// An executor sends SIGTERM to all that it has, and the end of the one that left is seen later.
TEST_F(Raised, APoolThatEndsTheOthersForOneThatLeftIsNoCause) {
  for (ProcessInfo& process : scene.run().processes)
    process.signals_caught = 0;
  for (const int code : {0, 1}) {
    scene.run().exits.clear();
    scene.run().signals.clear();
    scene.run().start_events.clear();
    for (const int32_t worker : {101, 102})
      sent(1, worker, SIGTERM, 0, kParent);
    scene.exit_by_signal(101, 1.01, SIGTERM);
    scene.exit_with(102, 1.05, code);
    failed(1.2, kParent, Ended::kProcess, "");
    scene.run().start_events.back().again = "BrokenProcessPool";
    scene.exit_with(kParent, 1.3, 1);
    EXPECT_FALSE(find(examine(), FindingCode::kKilledBySignal)) << code;
    scene.run().exits[1].wait_status = SIGTERM;
    EXPECT_TRUE(find(examine(), FindingCode::kKilledBySignal)) << "nobody left";
  }
}

TEST_F(Raised, WhoLeavesWithCodeZeroIsMissedWhereSomebodyWaitsInVain) {
  tell(1, 101,
       {.kind = StartEventKind::kExits,
        .message = "sys.exit",
        .file = "/job/data.py",
        .line = 9,
        .count = 0});
  scene.exit_with(101, 1, 0);
  job_fails(1.2, "");
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Confidence::kLikely));
  EXPECT_THAT(finding, Says("called sys.exit at data.py:9"));
  scene.run().start_events.back().again = "";
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "it was done with its work";
}

TEST_F(Raised, ASignalThatWasCaughtIsWhyItLeft) {
  sent(0.9, 101, SIGTERM, 0, kStranger);
  tell(1, 101,
       {.kind = StartEventKind::kExits,
        .message = "os._exit",
        .file = "/job/data.py",
        .line = 9,
        .count = 0});
  scene.exit_with(101, 1, 0);
  job_fails(1.2, "");
  const Finding finding = only();
  EXPECT_EQ(finding.code, FindingCode::kKilledBySignal);
  EXPECT_THAT(finding, Says("was sent SIGTERM by process", "exited with code 0"));
}

TEST_F(Raised, ATaskThatFailedIsTheCauseThoughItsPoolEndsItsWorkers) {
  failed(0.8, 101, Ended::kTask, "sample");
  sent(0.9, 101, SIGTERM, 0, kParent);
  scene.exit_with(101, 1, 0);
  job_fails(1.2, "");
  EXPECT_EQ(only().code, FindingCode::kUncaughtException);
}

TEST_F(Raised, ADeathThatWasSurvivedIsNotTheCause) {
  sent(1, 101, SIGKILL, 0, kStranger);
  scene.exit_by_signal(101, 1, SIGKILL);
  tell(1.5, kParent, {.kind = StartEventKind::kStarted});
  job_fails(8, "train");
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 2U);
  for (const Finding& finding : verdict.findings) {
    const bool is_death = finding.code == FindingCode::kKilledBySignal;
    EXPECT_EQ(finding.severity, is_death ? Severity::kWarning : Severity::kError);
  }
  scene.run().start_events.erase(scene.run().start_events.begin());
  EXPECT_EQ(examine().findings.front().severity, Severity::kError) << "nobody took its place";
}

TEST_F(Raised, AManagerThatIsGoneIsSaid) {
  failed(1, 102, Ended::kWorker, "__getitem__");
  scene.run().start_events.back().wanted = "manager";
  scene.run().start_events.back().error_number = ECONNRESET;
  job_fails(1.2, "");
  EXPECT_FALSE(only().message.plain().contains("Manager")) << "it may have answered until then";
  scene.run().start_events.front().error_number = ENOENT;
  EXPECT_THAT(only(), Says("a multiprocessing.Manager that had been shut down"));
}

// As those of loky, which are no workers of multiprocessing's own kind: it ends the others then.
TEST_F(Raised, AChildThatBrokeItsPoolComesBeforeTheException) {
  for (const int32_t pid : {401, 402}) {
    child(pid);
    tell(0.5, kParent, {.kind = StartEventKind::kStarted, .child_pid = pid});
  }
  std::ranges::sort(scene.run().processes, {}, &ProcessInfo::key);
  killed(1, 401, SIGSEGV, 1, 401);
  killed(1.05, 402, SIGKILL, 0, kParent);
  job_fails(1.2, "");
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerCrashed, Severity::kError));
  EXPECT_THAT(finding, Says("process 401 crashed"));
  scene.run().signals.clear();
  EXPECT_THAT(only(), Says("process 401 crashed")) << "though no sender was seen";
  scene.run().start_events.erase(scene.run().start_events.begin());
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "a program of the trainer's own";
}

TEST_F(Raised, AChildThatTheTrainerKilledIsNotWhy) {
  child(401);
  std::ranges::sort(scene.run().processes, {}, &ProcessInfo::key);
  killed(1, 401, SIGKILL, 0, kParent);
  job_fails(1.2, "train");
  EXPECT_EQ(only().code, FindingCode::kUncaughtException);
  EXPECT_FALSE(only().message.plain().contains("just before"));
  scene.run().signals.front().sender_pid = kStranger;
  scene.run().signals.front().sender.reset();
  EXPECT_THAT(only(), Says("just before, process 401", "SIGKILL"));
}

TEST_F(Raised, WhatEndsOneWorkerAfterTheOtherIsWhyTheTrainerGaveUp) {
  const auto dies = [&](double at_s, int32_t pid) {
    tell(0.1, kParent, {.kind = StartEventKind::kStarted, .child_pid = pid});
    killed(at_s, pid, SIGSEGV, 1, pid);
  };
  dies(1, 101);
  tell(1.1, kParent, {.kind = StartEventKind::kStarted});
  job_fails(4, "gather");
  EXPECT_EQ(must_find(examine(), FindingCode::kWorkerCrashed).severity, Severity::kWarning);
  dies(1.5, 102);
  EXPECT_EQ(only().severity, Severity::kError) << "and the exception is not told as another one";
}

TEST_F(Raised, ACrashJustBeforeWasNotSurvivedThoughAPoolReplacedIt) {
  killed(1, 101, SIGSEGV, 1, 101);
  tell(1.1, kParent, {.kind = StartEventKind::kStarted});
  job_fails(2, "map");
  EXPECT_THAT(only(), Is(FindingCode::kWorkerCrashed, Severity::kError));
}

TEST_F(Raised, AChildThatFailedJustBeforeIsToldBesideIt) {
  constexpr int32_t kDecoder = 401;
  scene.process(kDecoder, Role::kOther);
  scene.run().processes.back().ppid = kParent;
  std::ranges::sort(scene.run().processes, {}, &ProcessInfo::key);
  scene.exit_with(kDecoder, 1, 3);
  job_fails(1.2, "train");
  EXPECT_THAT(only(), Says("just before, process 401", "exited with code 3"));
  EXPECT_EQ(only().confidence, Confidence::kLikely);
}

TEST_F(Raised, WhoCallsExitSaysWhere) {
  tell(1, 101,
       {.kind = StartEventKind::kExits, .message = "os._exit", .file = "/job/data.py", .line = 9});
  scene.exit_with(101, 1, 3);
  scene.exit_with(kParent, 2, 1);
  EXPECT_THAT(only(), Says("it called os._exit at data.py:9"));
}

TEST_F(Raised, ATrainerWhoseThreadEndsItSaysWhere) {
  scene.exit_with(kParent, 2, 137);
  EXPECT_TRUE(examine().findings.empty()) << "nobody called os._exit";
  tell(1.9, kParent,
       {.kind = StartEventKind::kExits,
        .message = "os._exit",
        .file = "/job/guard.py",
        .line = 7,
        .function = "guard",
        .count = 137});
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kWorkerExited, Severity::kError));
  EXPECT_THAT(finding, Says("exited by itself with code 137: it called os._exit at guard.py:7"));
  scene.process(50, Role::kOther);
  scene.run().processes.front().ppid = 50;
  EXPECT_TRUE(examine().findings.empty()) << "who started it may start it again";
  scene.exit_with(50, 2.1, 137);
  EXPECT_EQ(only().severity, Severity::kError) << "it passed that on";
  scene.run().exits.pop_back();
  scene.run().processes.pop_back();
  failed(1.5, 101, Ended::kWorker, "load");
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "it left because of that";
  scene.run().start_events.pop_back();
  scene.exit_by_signal(101, 1.5, SIGSEGV);
  EXPECT_EQ(only().code, FindingCode::kWorkerCrashed) << "it left because of that";
  scene.run().exits.pop_back();
  sent(1.8, kParent, SIGTERM, 0, kStranger);
  EXPECT_TRUE(examine().findings.empty()) << "its handler of a signal";
  scene.run().signals.clear();
  Finding hang;
  hang.code = FindingCode::kLockHolderDead;
  hang.severity = Severity::kError;
  EXPECT_TRUE(examine({hang}).findings.empty()) << "a watchdog of its own";
}

/// A job whose trainer was refused a process or a thread.
class Refused : public Raised {
 protected:
  Refused() {
    read({});
    tell(1.2, kParent,
         {.kind = StartEventKind::kRefused,
          .cause = StartRefusal::kNoProcess,
          .message = "BlockingIOError: [Errno 11] Resource temporarily unavailable",
          .file = "/job/train.py",
          .line = 13,
          .function = "main",
          .limit = 8});
    job_fails(1.2, "main");
  }

  StartEvent& refusal() { return scene.run().start_events.front(); }

  // Before the command's start, or when `process` was refused one.
  void read(std::optional<ProcessKey> process, uint64_t refusals = 0, uint64_t of_user = 3,
            uint64_t of_group = 3) {
    scene.run().task_facts.push_back({.at = Scene::at(process ? 1.21 : 0),
                                      .process = process,
                                      .processes = Limit{.soft = 8, .hard = 8},
                                      .tasks_of_user = of_user,
                                      .groups = {{.folder = "/sys/fs/cgroup/pids/job",
                                                  .limit = 20,
                                                  .taken = of_group,
                                                  .refusals = 5 + refusals}},
                                      .tasks = uint64_t{300},
                                      .most_tasks = uint64_t{30000}});
  }
};

TEST_F(Refused, WhatTheGroupCountedIsItsLimit) {
  read(key_of(kParent), 1, 8);
  const Finding finding = only();
  EXPECT_THAT(finding, Is(FindingCode::kProcessLimitReached, Confidence::kCertain));
  EXPECT_THAT(finding, Says("at train.py:13 in main", "pids.max"));
  EXPECT_THAT(finding.remedies.front().commands.front().plain(),
              HasSubstr("/sys/fs/cgroup/pids/job/pids.max"));
}

TEST_F(Refused, WithoutThatOnlyTheUsersLimitIsLeft) {
  read(key_of(kParent), 0);
  const Finding finding = only();
  EXPECT_THAT(finding, Says("ulimit -u"));
  EXPECT_EQ(finding.confidence, Confidence::kCertain);
}

TEST_F(Refused, ThreadsThatNeverEndedTakeMostOfIt) {
  const auto message_of = [this](const std::function<int32_t(int)>& threads) {
    scene.run().samples.clear();
    for (int tick = 0; tick < 12; ++tick) {
      scene.sample(tick / 10.0, 0);
      for (ProcessSample& each : scene.run().samples.back().processes)
        each.threads = each.key.pid == 101 ? threads(tick) : 1;
    }
    return only().message.plain();
  };
  read(key_of(kParent), 0, 14);
  scene.run().task_facts.back().processes->soft = 14;
  refusal().limit = 14;
  EXPECT_THAT(message_of([](int tick) { return 1 + tick; }),
              HasSubstr("; 12 of them are threads of worker 101, which came one after another and "
                        "never ended"));
  EXPECT_THAT(only(), AdvisesFirst("wait for each to end"));
  EXPECT_THAT(message_of([](int tick) { return tick < 6 ? 1 : 12; }),
              testing::Not(HasSubstr("never ended")))
      << "a pool";
  EXPECT_THAT(message_of([](int tick) { return 1 + tick % 4 * 3; }),
              testing::Not(HasSubstr("never ended")))
      << "they come and go";
}

TEST_F(Refused, WhoSetsItsOwnLimitIsToldSo) {
  read(key_of(kParent), 0);
  refusal().limit = 6;
  EXPECT_THAT(only(), AdvisesFirst("or its launcher sets this limit"));
}

TEST_F(Refused, AThreadMayBeRefusedForWantOfMemory) {
  refusal().cause = StartRefusal::kNoThread;
  read(key_of(kParent), 0, 2);
  scene.run().task_facts.back().processes->soft = 100;
  refusal().limit = 100;
  EXPECT_EQ(only().code, FindingCode::kUncaughtException);
}

TEST_F(Refused, WhatItSawItselfCountsWhereOthersHaveEndedSince) {
  refusal().cause = StartRefusal::kNoThread;
  read(key_of(kParent), 0, 2);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException);
  refusal().count = 8;
  EXPECT_EQ(only().code, FindingCode::kProcessLimitReached);
  EXPECT_EQ(only().confidence, Confidence::kCertain);
  scene.recording.header.host.overcommit_memory = 0;
  scene.run().task_facts.back().processes->soft = 24;
  refusal().limit = 24;
  EXPECT_EQ(only().confidence, Confidence::kLikely);
  scene.recording.header.host.overcommit_memory = 2;
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "its stack may be what was refused";
}

TEST_F(Refused, AJobThatEndsWellDidWithout) {
  read(key_of(kParent), 1);
  scene.run().exits.back().wait_status = 0;
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(Refused, AWorkerThatDiesOfItNeedsNoOtherReason) {
  refusal().process = key_of(101);
  read(key_of(101), 1);
  scene.exit_with(101, 1.25, 1);
  EXPECT_EQ(only().code, FindingCode::kProcessLimitReached);
}

TEST_F(Raised, ATemporaryFileWithoutSpaceIsThatFoldersFault) {
  failed(1.2, kParent, Ended::kProcess, "save");
  StartEvent& event = scene.run().start_events.front();
  event.error_number = ENOSPC;
  event.path = "/scratch/tmp/x";
  event.free_bytes = 0;
  event.free_inodes = 5;
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "a disk for data";
  event.is_temporary = true;
  EXPECT_EQ(only().code, FindingCode::kTemporaryFolderUnusable);
  EXPECT_EQ(only().confidence, Confidence::kCertain);
  event.bytes = 100 * kMiB;
  event.count = 3;
  event.made_bytes = kMiB;
  EXPECT_THAT(only().message.plain(), EndsWith("its file system is full"));
  event.made_bytes = 99 * kMiB;
  EXPECT_THAT(only().message.plain(),
              EndsWith("3 files of its user, of 99.0 MiB, were written there since the command "
                       "began"));
  EXPECT_THAT(only().remedies.front().title.plain(), HasSubstr("Delete temporary files"));
  event.free_inodes = 0;
  EXPECT_THAT(only(), Says("no free inodes"));
}

TEST_F(Raised, AFileThatMayNotBeMadeInTheTemporaryFolderIsThatFoldersFault) {
  failed(1.2, kParent, Ended::kProcess, "save");
  StartEvent& event = scene.run().start_events.front();
  event.error_number = EACCES;
  event.path = "/scratch/tmp/x";
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "the witness found the folder usable";
  event.is_temporary = true;
  EXPECT_EQ(only().code, FindingCode::kTemporaryFolderUnusable);
  EXPECT_THAT(only(), Says("cannot write to the folder for temporary files"));
}

TEST_F(Raised, AFullFileSystemIsNamed) {
  failed(1.2, kParent, Ended::kProcess, "save");
  StartEvent& event = scene.run().start_events.front();
  event.path = "/scratch/cache/x";
  event.bytes = 8 * kMiB;
  event.free_bytes = kMiB;
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Not(Says("file system"))) << "it has room";
  event.free_bytes = 0;
  EXPECT_THAT(only(), Says("the file system of /scratch/cache/x is full: 0 B of 8.0 MiB free"));
  EXPECT_THAT(only().remedies.front().commands.front().plain(), "df -h /scratch/cache/x");
  event.free_inodes = 0;
  EXPECT_THAT(only(), Says("no free inodes"));
  event.error_number = EDQUOT;
  EXPECT_THAT(only(), Says("quota"));
}

TEST_F(Raised, ALimitOfTheSizeOfFilesIsNamed) {
  failed(1.2, kParent, Ended::kProcess, "save");
  StartEvent& event = scene.run().start_events.front();
  event.error_number = EFBIG;
  event.wanted = "file size";
  event.limit = 4 * kMiB;
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_THAT(only(), Says("at most 4.0 MiB (RLIMIT_FSIZE)"));
  EXPECT_THAT(only().remedies.front().commands.front().plain(), "ulimit -f unlimited");
}

TEST_F(Raised, TooManyOpenFilesOfAnotherLimitIsNotThatOfDescriptors) {
  failed(1.2, kParent, Ended::kProcess, "watch");
  StartEvent& event = scene.run().start_events.front();
  event.error_number = EMFILE;
  event.wanted = "inotify instances (at most 128 of a user)";
  event.count = 18;
  event.limit = 20000;
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().code, FindingCode::kUncaughtException);
  EXPECT_THAT(only(), Says("that of inotify instances (at most 128 of a user), not of its "
                           "descriptors: 18 of 20000 were open"));
  EXPECT_THAT(only().remedies.front().commands.front().plain(),
              HasSubstr("fs.inotify.max_user_instances"));
  event.wanted = "another resource";
  EXPECT_THAT(only().remedies.front().commands.front().plain(), HasSubstr("fs.fanotify"));
}

TEST_F(Raised, TheDebuggersScriptIsThatOfTheProcess) {
  scene.run().begin.command = {"./job.sh"};
  failed(1.2, kParent, Ended::kProcess, "save");
  for (ProcessInfo& process : scene.run().processes) {
    if (process.key == key_of(kParent)) process.cmdline = {"python", "-u", "/job/fit.py", "x"};
  }
  scene.exit_with(kParent, 1.3, 1);
  EXPECT_EQ(only().remedies.front().commands.back().plain(),
            "python -m pdb -c continue /job/fit.py");
}

TEST_F(Raised, ADebuggerIsAdvisedWhereItStops) {
  tell(0, kParent, {.kind = StartEventKind::kLoaderMade});
  scene.exit_with(kParent, 3, 1);
  const auto commands = [&](int32_t pid, Ended ended) {
    std::erase_if(scene.run().start_events,
                  [](const StartEvent& each) { return each.kind == StartEventKind::kFailed; });
    failed(1, pid, ended, "load");
    const Finding finding = only();
    std::string all;
    for (const Message& each : finding.remedies.front().commands)
      all += each.plain() + "\n";
    return all;
  };
  EXPECT_THAT(commands(102, Ended::kWorker), HasSubstr("num_workers=0"));
  EXPECT_EQ(commands(kParent, Ended::kThread), "");
  EXPECT_EQ(commands(kParent, Ended::kProcess), "python -m pdb -c continue train.py\n");
  EXPECT_THAT(commands(102, Ended::kTask), HasSubstr("list(map("));
  EXPECT_THAT(commands(102, Ended::kTask), Not(HasSubstr("DataLoader")));
  for (ProcessInfo& process : scene.run().processes)
    process.rank = {.rank = 1, .world_size = 2, .source = "RANK"};
  EXPECT_EQ(commands(kParent, Ended::kProcess), "") << "it needs its launcher";
}

TEST_F(Raised, WhatCannotBePinnedIsReturnedOnTheCpu) {
  failed(1, kParent, Ended::kThread, "");
  scene.run().start_events.back().raised_in =
      "/venv/lib/python3.12/site-packages/torch/utils/data/_utils/pin_memory.py:57 pin_memory";
  scene.run().start_events.back().again = "";
  scene.exit_with(kParent, 2, 1);
  EXPECT_EQ(only().remedies.front().commands.front().plain(), "DataLoader(..., pin_memory=False)");
}

TEST_F(Raised, SamplesOfWhichNoBatchIsMadeAreTold) {
  failed(1, 102, Ended::kWorker, "");
  scene.exit_with(kParent, 2, 1);
  StartEvent& event = scene.run().start_events.back();
  event.wanted = "alike";
  event.path = "sample 4: [3]; sample 7: [4]";
  EXPECT_THAT(only(), Says("not alike: sample 4: [3]; sample 7: [4]"));
  EXPECT_THAT(only(), AdvisesFirst("pad, crop, resize"));
  event.wanted = "batch";
  event.path = "sample 4: Image";
  EXPECT_THAT(only(), Says("no batch is made of sample 4: Image"));
  EXPECT_THAT(only(), AdvisesFirst("ToTensor()"));
}

TEST_F(Raised, ALongMessageEndsWithASentence) {
  failed(1, kParent, Ended::kProcess, "step");
  scene.exit_with(kParent, 2, 1);
  StartEvent& event = scene.run().start_events.back();
  const std::string sentence = "There " + std::string(170, 'a') + " not used in producing loss";
  event.message = sentence + ". You can enable more";
  EXPECT_THAT(only(), Says("not used in producing loss ... at"));
  event.message = sentence;
  EXPECT_THAT(only(), Says("not used in producing loss at"));
  event.message = "There are " + std::string(300, 'a') + " of them";
  EXPECT_THAT(only(), Says("There are ... at"));
}

TEST_F(Raised, MemoryThatALimitOfTheProcessRefused) {
  failed(1.2, kParent, Ended::kProcess, "load");
  StartEvent& event = scene.run().start_events.front();
  scene.exit_with(kParent, 1.3, 1);
  event.wanted = "address space";
  event.limit = 100 * kMiB;
  event.bytes = 90 * kMiB;
  EXPECT_THAT(only(), Is(FindingCode::kMemoryLimitTooLow, Severity::kError, Confidence::kCertain));
  event.bytes = 10 * kMiB;
  EXPECT_EQ(only().confidence, Confidence::kLikely);
  event.type = "RuntimeError";
  EXPECT_EQ(only().code, FindingCode::kUncaughtException) << "there was room";
  event.bytes = 95 * kMiB;
  EXPECT_EQ(only().code, FindingCode::kMemoryLimitTooLow) << "torch's allocator";
  EXPECT_EQ(only().confidence, Confidence::kLikely);
}

TEST_F(Raised, ForkOfMemoryThatIsLargerInOnePieceThanTheMachine) {
  failed(1.2, kParent, Ended::kProcess, "load");
  StartEvent& event = scene.run().start_events.front();
  scene.exit_with(kParent, 1.3, 1);
  event.wanted = "copy";
  event.limit = 24 * kGiB;
  event.bytes = 29 * kGiB;
  EXPECT_THAT(only(),
              Is(FindingCode::kForkRefusedByOvercommit, Severity::kError, Confidence::kCertain));
  EXPECT_THAT(only(), Says("29.0 GiB of its memory are in one piece"));
}

TEST_F(Raised, MemoryThatWasRefusedToAWorkerIsWhyItsPoolHangs) {
  failed(1, 101, Ended::kProcess, "load");
  StartEvent& event = scene.run().start_events.front();
  event.wanted = "address space";
  event.limit = 100 * kMiB;
  event.bytes = 99 * kMiB;
  scene.exit_with(101, 1.1, 1);
  scene.exit_by_signal(kParent, 60, SIGTERM);
  const Finding hang{.code = FindingCode::kBatchLostInWorker,
                     .severity = Severity::kError,
                     .processes = {key_of(kParent)}};
  EXPECT_TRUE(find(examine({hang}), FindingCode::kMemoryLimitTooLow));
  const Finding leak{.code = FindingCode::kWorkerMemoryLeak, .severity = Severity::kError};
  EXPECT_FALSE(find(examine({leak}), FindingCode::kMemoryLimitTooLow));
}

TEST_F(Raised, MemoryThatGrewUntilItsLimitRefusedMore) {
  for (const double full_s : {10.0, 2.0}) {
    scene.run().samples.clear();
    scene.run().start_events.clear();
    scene.run().exits.clear();
    for (double at_s = 0; at_s <= 6; at_s += 0.1) {
      scene.sample(at_s, 0);
      for (ProcessSample& each : scene.run().samples.back().processes) {
        each.rss_bytes = static_cast<uint64_t>(20 * std::min(at_s, full_s) + 50) * kMiB;
        each.rss_shared_bytes = 10 * kMiB;
      }
    }
    job_fails(6.2, "load");
    StartEvent& event = scene.run().start_events.front();
    event.wanted = "address space";
    event.limit = 200 * kMiB;
    event.bytes = 190 * kMiB;
    const bool grows = full_s > 6;
    const Finding finding = only();
    EXPECT_EQ(finding.message.plain().contains("; it had grown by "), grows)
        << finding.message.plain();
    EXPECT_EQ(finding.remedies.size(), grows ? 2U : 1U);
  }
}

/// A trainer with 6 GiB of its own that fails, while 15 of 24 GiB are free.
class RefusedFork : public ExitsTest {
 protected:
  static constexpr uint64_t kGiB = 1024 * kMiB;

  RefusedFork() {
    scene.recording.header.host.overcommit_memory = 2;
    scene.sample(1, 0);
    memory = HostMemory{.total_bytes = 24 * kGiB, .available_bytes = 15 * kGiB};
    memory.commit_limit_bytes = 14 * kGiB;
    memory.committed_bytes = 9 * kGiB;
    ProcessSample& trainer = scene.run().samples.back().processes.front();
    trainer.rss_bytes = 6 * kGiB + kMiB;
    trainer.rss_shared_bytes = kMiB;
    scene.exit_with(kParent, 2, 1);
  }

  Verdict told() {
    scene.run().samples.back().host = memory;
    return examine();
  }

  HostMemory memory;
};

TEST_F(RefusedFork, ACopyBeyondTheLimitIsTold) {
  const Finding finding = only_finding(told());
  EXPECT_THAT(finding,
              Is(FindingCode::kForkRefusedByOvercommit, Severity::kError, Confidence::kLikely));
  EXPECT_EQ(number(finding, "left"), int64_t{5 * kGiB});
  EXPECT_EQ(number(finding, "own_memory"), int64_t{6 * kGiB});
}

TEST_F(RefusedFork, WithoutTheFactNothingIsSaid) {
  scene.recording.header.host.overcommit_memory.reset();
  EXPECT_EQ(told(), Verdict());
}

TEST_F(RefusedFork, AKernelThatGuessesRefusesNoFork) {
  scene.recording.header.host.overcommit_memory = 0;
  EXPECT_EQ(told(), Verdict());
}

TEST_F(RefusedFork, ACopyWithinTheLimitIsNotWhatFailed) {
  memory.committed_bytes = 2 * kGiB;
  EXPECT_EQ(told(), Verdict());
}

TEST_F(RefusedFork, WithoutFreeMemoryItIsTheMemoryThatLacks) {
  memory.available_bytes = kGiB;
  EXPECT_EQ(told(), Verdict());
}

TEST_F(ExitsTest, AJobThatFailedWhileItWasWatchedIsNotWell) {
  scene.run().begin.subject = SubjectKind::kPid;
  scene.run().begin.root = key_of(kParent);
  scene.run().end = RunEnd{.at = Scene::at(3), .reason = RunEndReason::kSubjectEnded};
  scene.exit_with(kParent, 3, 1);
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_EQ(verdict.gaps.front().what.plain(), "why the job exited with code 1");
  scene.run().exits.back().wait_status = 0;
  EXPECT_TRUE(examine().gaps.empty());
}

}  // namespace
}  // namespace dlprobe
