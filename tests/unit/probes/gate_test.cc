#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "probes/probe.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

/// A machine on which all is well, and a gate that starts nothing.
class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    dlprobe::Run& run = recording.runs.emplace_back();
    recording.header.realtime_ns = 1'795'000'000LL * kSecond;
    recording.header.host.max_map_count = 65530;
    run.begin.plan = LoaderPlan{.workers = 4, .batch_size = 4};
    run.begin.open_files_limit = Limit{.soft = 1024, .hard = 4096};
    run.mounts.push_back({.device = 7, .mount_point = "/dev/shm", .fs_type = "tmpfs"});
    run.shm_use.push_back({.at = 1, .device = 7, .size_bytes = kGiB, .used_bytes = 0});
    run.ledgers.push_back({.at = 1, .device = 7, .whole_machine = true, .processes_scanned = 10});
    GateFacts facts;
    facts.level = "quick";
    facts.processes = Limit{.soft = 1000, .hard = 1000};
    facts.tasks_of_user = uint64_t{100};
    facts.tasks = uint64_t{300};
    facts.most_tasks = uint64_t{30000};
    facts.files_open = uint64_t{100};
    facts.most_files = uint64_t{100000};
    facts.memory = HostMemory{.total_bytes = 8 * kGiB, .available_bytes = 4 * kGiB};
    facts.cpus_online = 8;
    facts.cpus_usable = 8;
    facts.ptrace_scope = 1;
    facts.temporary = {.path = "/tmp", .free_bytes = kGiB};
    run.gate = std::move(facts);
    run.end = RunEnd{.at = 2, .reason = RunEndReason::kNotStarted, .text = "quick"};
  }

  GateFacts& facts() { return *recording.runs.front().gate; }
  Verdict examine() const { return probes::gate::kProbe.examine(recording); }

  const NamedCheck& check(const Verdict& verdict, std::string_view id) const {
    const auto found = std::ranges::find(verdict.checks, id, &NamedCheck::id);
    EXPECT_NE(found, verdict.checks.end()) << id;
    return *found;
  }

  // The finding that the facts lead to, with its check.
  void expect(FindingCode code, Severity severity, std::string_view id) const {
    const Verdict verdict = examine();
    ASSERT_EQ(verdict.findings.size(), 1U);
    EXPECT_EQ(verdict.findings.front().code, code);
    EXPECT_EQ(verdict.findings.front().severity, severity);
    EXPECT_EQ(check(verdict, id).status,
              severity == Severity::kError ? CheckStatus::kFail : CheckStatus::kWarn);
  }

  Recording recording;
};

TEST_F(GateTest, WhereAllIsWellEveryCheckPasses) {
  const Verdict verdict = examine();
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_TRUE(verdict.gaps.empty());
  EXPECT_GT(verdict.checks.size(), 10U);
  for (const NamedCheck& each : verdict.checks) {
    const bool is_skipped = each.id == "host.data-folder" || each.id.starts_with("loader.") ||
                            each.id.starts_with("python.");
    EXPECT_EQ(each.status, is_skipped ? CheckStatus::kSkipped : CheckStatus::kPass) << each.id;
    EXPECT_FALSE(each.text.empty()) << each.id;
  }
}

TEST_F(GateTest, TheNearestLimitOfProcessesCounts) {
  facts().tasks_of_user = uint64_t{970};
  expect(FindingCode::kProcessLimitReached, Severity::kWarning, "limits.processes");
  facts().tasks_of_user = uint64_t{997};
  expect(FindingCode::kProcessLimitReached, Severity::kError, "limits.processes");
  facts().tasks_of_user = uint64_t{100};
  facts().cgroup_tasks_limit = 20;
  facts().cgroup_tasks = 20;
  expect(FindingCode::kProcessLimitReached, Severity::kError, "limits.processes");
  EXPECT_THAT(examine().findings.front().message.plain(), HasSubstr("pids.max"));
}

TEST_F(GateTest, FewerCpusThanWorkersWhereTheMachineHasMore) {
  facts().cpus_usable = 2;
  expect(FindingCode::kCpuAffinityNarrowed, Severity::kWarning, "cpu.usable");
  facts().cpus_usable = 8;
  facts().cpu_quota = 3;
  expect(FindingCode::kCpuAffinityNarrowed, Severity::kWarning, "cpu.usable");
  facts().cpu_quota = 6;
  EXPECT_TRUE(examine().findings.empty());
  // A small machine is no narrowed one, but no worker has a CPU of its own there.
  facts().cpu_quota.reset();
  facts().cpus_usable = facts().cpus_online = 2;
  const Verdict verdict = examine();
  EXPECT_TRUE(verdict.findings.empty());
  const auto cpus = std::ranges::find(verdict.checks, "cpu.usable", &NamedCheck::id);
  ASSERT_NE(cpus, verdict.checks.end());
  EXPECT_EQ(cpus->status, CheckStatus::kSkipped);
  EXPECT_THAT(cpus->text.plain(), HasSubstr("2 of 2 CPUs usable for 4 workers"));
}

TEST_F(GateTest, MemoryThatTheBatchesAloneTake) {
  facts().memory->available_bytes = kMiB;
  expect(FindingCode::kMemoryLimitTooLow, Severity::kError, "memory.room");
  facts().memory->available_bytes = 4 * kGiB;
  // Page cache is given back.
  facts().cgroup = CgroupMemory{
      .path = "/job", .used_bytes = 100 * kMiB, .limit_bytes = 101 * kMiB, .file_bytes = 90 * kMiB};
  EXPECT_TRUE(examine().findings.empty());
  facts().cgroup->file_bytes = 0;
  expect(FindingCode::kMemoryLimitTooLow, Severity::kError, "memory.room");
}

TEST_F(GateTest, FilesOfTheWholeMachine) {
  facts().files_open = uint64_t{99'990};
  expect(FindingCode::kFdLimitTooLow, Severity::kError, "limits.open-files");
  EXPECT_THAT(examine().findings.front().message.plain(), HasSubstr("fs.file-max"));
}

TEST_F(GateTest, SharedMemoryOnADisk) {
  recording.runs.front().mounts.front().fs_type = "overlay";
  expect(FindingCode::kShmNotTmpfs, Severity::kWarning, "shm.size");
  recording.runs.front().mounts.front().fs_type = "";  // not known
  EXPECT_TRUE(examine().findings.empty());
}

// A run of the loader, of which no verdict is known yet.
class GateRunTest : public GateTest {
 protected:
  GateRunTest() {
    facts().level = "default";
    facts().deadline = 20 * kSecond;
    facts().data = FolderFacts{.path = "/data", .entries = 3};
    run().begin.plan->data_dir = "/data";
    run().begin.plan->workers = 1;
    run().end = RunEnd{.at = kSecond, .reason = RunEndReason::kSubjectEnded, .text = ""};
  }

  dlprobe::Run& run() { return recording.runs.front(); }
  void tell(std::string_view kind, std::string text) {
    run().events.push_back({.at = 5, .kind = std::string(kind), .text = as_text(text)});
  }
};

TEST_F(GateRunTest, ImagesOfWhichNoneCanBeDecoded) {
  tell(kLoaderBrokenImage, "/data/a.jpg: not an image OpenCV can decode");
  tell(kLoaderError, "none of the 3 images can be decoded");
  expect(FindingCode::kDataNotReadable, Severity::kError, "host.data-folder");
  EXPECT_THAT(check(examine(), "loader.fork.file_descriptor").text.plain(),
              HasSubstr("none of the 3"));
}

TEST_F(GateRunTest, SomeImagesThatCannotBeDecoded) {
  tell(kLoaderBrokenImage, "/data/a.jpg: not an image OpenCV can decode");
  run().done = LoaderDone{.at = kSecond, .images = 40, .seconds = 1, .broken_images = 2};
  expect(FindingCode::kDataNotReadable, Severity::kWarning, "host.data-folder");
  EXPECT_EQ(check(examine(), "loader.fork.file_descriptor").status, CheckStatus::kPass);
}

TEST_F(GateRunTest, AFolderWithoutImagesIsNoFinding) {
  tell(kLoaderNoImage, "--data '/data' holds no image");
  run().done = LoaderDone{.at = kSecond, .images = 40, .seconds = 1};
  EXPECT_TRUE(examine().findings.empty());
  EXPECT_THAT(check(examine(), "loader.fork.file_descriptor").text.plain(),
              HasSubstr("built-in images"));
}

TEST_F(GateRunTest, ARunThatWasCutOffIsNoPassWhateverWarningThereIs) {
  run().end->reason = RunEndReason::kTimeUp;
  facts().cpus_usable = 1;
  facts().cpus_online = 8;
  const Verdict verdict = examine();
  ASSERT_EQ(verdict.findings.size(), 1U);
  ASSERT_EQ(verdict.findings.front().severity, Severity::kWarning);
  EXPECT_EQ(check(verdict, "loader.fork.file_descriptor").status, CheckStatus::kIncomplete);
  ASSERT_EQ(verdict.gaps.size(), 1U);
  EXPECT_EQ(verdict.gaps.front().remedy.plain(), "--deadline 60s");
}

TEST_F(GateTest, Folders) {
  facts().temporary.trouble = "create a file in /tmp: Read-only file system (EROFS)";
  expect(FindingCode::kTemporaryFolderUnusable, Severity::kError, "host.temporary-folder");
  facts().temporary = {.path = "/tmp", .free_bytes = kMiB};
  expect(FindingCode::kTemporaryFolderUnusable, Severity::kWarning, "host.temporary-folder");
  facts().temporary.free_bytes = kGiB;
  facts().data = FolderFacts{.path = "/data", .trouble = "it did not answer in time"};
  expect(FindingCode::kDataNotReadable, Severity::kError, "host.data-folder");
}

TEST_F(GateTest, AClockThatWasNeverSet) {
  recording.header.realtime_ns = 1000 * kSecond;
  expect(FindingCode::kClockWrong, Severity::kWarning, "host.clock");
}

TEST_F(GateTest, WhatOthersMayUseIsNotJudged) {
  dlprobe::Run& run = recording.runs.front();
  run.ledgers.front().processes_unreadable = 3;
  EXPECT_EQ(check(examine(), "shm.left-overs").status, CheckStatus::kPass);
  run.ledgers.front().omitted_segments = 2;
  EXPECT_EQ(check(examine(), "shm.left-overs").status, CheckStatus::kSkipped);
  EXPECT_THAT(check(examine(), "shm.left-overs").text.plain(),
              HasSubstr("could not check 3 processes"));
}

TEST_F(GateTest, StacksThatCouldNotBeReadAreNoPass) {
  facts().ptrace_scope = 3;
  EXPECT_EQ(check(examine(), "host.stacks").status, CheckStatus::kSkipped);
  facts().may_trace_all = true;
  EXPECT_EQ(check(examine(), "host.stacks").status, CheckStatus::kPass);
  facts().may_trace_all = false;
  facts().ptrace_scope = failure(ErrorCode::kForbidden, "open it");
  EXPECT_EQ(check(examine(), "host.stacks").status, CheckStatus::kSkipped);
}

TEST_F(GateTest, MoreThreadsThanCpus) {
  facts().thread_settings = {{"OMP_NUM_THREADS", "8"}, {"OMP_THREAD_LIMIT", "999"}};
  EXPECT_TRUE(examine().findings.empty());
  facts().thread_settings.front().value = "16,2";
  expect(FindingCode::kThreadOversubscription, Severity::kWarning, "cpu.threads");
  // A quota is nothing that libraries look at.
  facts().thread_settings.clear();
  facts().cpus_usable = facts().cpus_online = 64;
  facts().cpu_quota = 8;
  expect(FindingCode::kThreadOversubscription, Severity::kWarning, "cpu.threads");
  facts().thread_settings = {{"OMP_NUM_THREADS", "8"}};
  EXPECT_TRUE(examine().findings.empty());
}

TEST_F(GateTest, AFolderThatTheDeadlineCutOffIsNoVerdict) {
  facts().data = FolderFacts{.path = "/data", .not_known = "no answer within 1 ms"};
  const Verdict verdict = examine();
  EXPECT_TRUE(verdict.findings.empty());
  EXPECT_EQ(check(verdict, "host.data-folder").status, CheckStatus::kIncomplete);
  EXPECT_EQ(verdict.gaps.size(), 1U);
}

TEST_F(GateTest, AnInterpreterThatNobodyNamedCountsWithTorchAlone) {
  facts().python = PythonFacts{.asked = "python3", .trouble = "it does not start"};
  EXPECT_TRUE(examine().findings.empty());
  EXPECT_EQ(check(examine(), "python.found").status, CheckStatus::kSkipped);
  facts().python->is_named = true;
  expect(FindingCode::kInterpreterUnusable, Severity::kError, "python.found");
  facts().python->is_late = true;
  EXPECT_EQ(check(examine(), "python.found").status, CheckStatus::kIncomplete);
  EXPECT_EQ(examine().gaps.size(), 1U);
}

TEST_F(GateTest, OpenMpRuntimesOfPackagesUnderFork) {
  facts().python = PythonFacts{.asked = "python3",
                               .executable = "/usr/bin/python3",
                               .version = "3.11.2",
                               .packages = {{.name = "torch", .version = "2.13.0"}},
                               .libraries = {{.name = "libgomp.so.1", .packages = {"torch"}}}};
  EXPECT_TRUE(examine().findings.empty());
  EXPECT_EQ(check(examine(), "python.openmp").status, CheckStatus::kPass);
  facts().python->libraries.push_back({.name = "libiomp5.so", .packages = {"mkl"}});
  expect(FindingCode::kTwoOpenMpRuntimes, Severity::kWarning, "python.openmp");
  // A process that imported all of them had one.
  facts().python->was_asked_to_import = true;
  facts().python->loaded_openmp = {"/lib/libgomp.so.1"};
  EXPECT_TRUE(examine().findings.empty());
  facts().python->not_read = "the deadline came";
  EXPECT_EQ(check(examine(), "python.openmp").status, CheckStatus::kSkipped);
}

TEST_F(GateTest, AModuleThatCannotBeImported) {
  facts().python = PythonFacts{.asked = "python3",
                               .is_named = true,
                               .executable = "/usr/bin/python3",
                               .was_asked_to_import = true,
                               .imports = {{.module = "torch", .trouble = "ImportError: no"}}};
  expect(FindingCode::kInterpreterUnusable, Severity::kError, "python.imports");
}

TEST_F(GateTest, WhatCouldNotBeReadIsNoPass) {
  facts().memory = failure(ErrorCode::kForbidden, "open /proc/meminfo");
  const Verdict verdict = examine();
  EXPECT_EQ(check(verdict, "memory.room").status, CheckStatus::kIncomplete);
  ASSERT_EQ(verdict.gaps.size(), 1U);
  recording.runs.front().ledgers.clear();
  recording.runs.front().shm_use.clear();
  EXPECT_EQ(examine().gaps.size(), 3U);
  recording.runs.front().gate.reset();
  EXPECT_FALSE(examine().gaps.empty());
}

TEST_F(GateTest, ALoaderThatTheDeadlineEndedIsNoPass) {
  facts().level = "default";
  recording.runs.front().end->reason = RunEndReason::kTimeUp;
  const Verdict verdict = examine();
  EXPECT_EQ(verdict.checks.back().status, CheckStatus::kIncomplete);
  EXPECT_FALSE(verdict.gaps.empty());
  EXPECT_THAT(verdict.checks.back().text.plain(), HasSubstr("deadline"));
}

}  // namespace
}  // namespace dlprobe
