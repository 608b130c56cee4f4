#include "lib/collect/tree_collector.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>

#include "lib/base/units.h"
#include "lib/collect/shm/ledger.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_events.h"
#include "tests/support/fake_files.h"
#include "tests/support/made_up_process.h"
#include "tests/support/record_list.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

constexpr uint64_t kShmDevice = 29;

/// A machine with one trainer (pid 100), its /dev/shm, and processes as a test adds them.
class MadeUpMachine : public testing::Test {
 protected:
  void SetUp() override {
    add_process(100, 50, "python3", "/usr/bin/python3.11");
    set_use(1U << 20U);
    files_->set_stat("/dev/shm", {.device = kShmDevice});
    files_->add(
        "/proc/meminfo",
        "MemTotal: 8 kB\nMemAvailable: 4 kB\nShmem: 1 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
    files_->add("/proc/vmstat", "oom_kill 2\n");
    files_->add("/proc/self/mountinfo", "31 1 0:40 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    files_->add("/sys/fs/cgroup/job/memory.current", "4096\n");
    files_->add("/sys/fs/cgroup/job/memory.stat", "anon 1\nshmem 2048\n");
    files_->add("/sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 1\n");
    files_->add("/sys/fs/cgroup/job/memory.max", "8192\n");
  }

  static std::string stat_text(int32_t pid, int32_t ppid, const std::string& comm, char state,
                               int exit_code) {
    return dlprobe::stat_text(
        {.pid = pid, .ppid = ppid, .comm = comm, .state = state, .wait_status = exit_code});
  }

  void add_process(int32_t pid, int32_t ppid, const std::string& comm, const std::string& exe) {
    dlprobe::add_process(*files_, {.pid = pid, .ppid = ppid, .comm = comm, .exe = exe});
  }

  void set_io_calls(int32_t pid, int calls) {
    files_->add(fmt::format("/proc/{}/io", pid), fmt::format("syscr: {}\nsyscw: 0\n", calls));
  }

  void set_use(uint64_t used) {
    files_->set_use(
        "/dev/shm",
        {.size_bytes = uint64_t{1} << 30U, .used_bytes = used, .inodes = 100, .inodes_used = 2});
  }

  TreeCollector collector() {
    return TreeCollector(
        {.root = files_, .clock = clock_, .processes = std::make_shared<ProcessAccess>()},
        {.pid = 100, .start_ticks = 1000}, {}, records_);
  }
  void tick_after(TreeCollector& collector, BootNs time) {
    clock_->advance(time);
    collector.tick();
  }

  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
  std::shared_ptr<FakeClock> clock_ = std::make_shared<FakeClock>(1'000'000'000);
  RecordList records_;
};

TEST_F(MadeUpMachine, ResidentMemoryIsReadWhereItMovedAndOnceASecond) {
  const auto newest = [this] {
    return records_.all<Sample>().back().processes.front().rss_bytes.value_or(0);
  };
  TreeCollector collector = this->collector();
  collector.tick();
  const uint64_t page = newest() / 10;
  files_->add("/proc/100/statm", "100 20 4 0 0 0 0\n");
  tick_after(collector, kSecond / 2);
  EXPECT_EQ(newest(), 10 * page) << "stat says that nothing moved";
  files_->add("/proc/100/stat", dlprobe::stat_text({.pid = 100, .ppid = 50, .minor_faults = 6}));
  tick_after(collector, kSecond / 4);
  EXPECT_EQ(newest(), 20 * page);
  files_->add("/proc/100/statm", "100 30 4 0 0 0 0\n");
  tick_after(collector, kSecond / 2);
  EXPECT_EQ(newest(), 30 * page);
}

TEST_F(MadeUpMachine, ALoaderMovesWhenItReadsOrWrites) {
  TreeCollector collector = this->collector();
  collector.tick();
  const BootNs began = clock_->now();
  EXPECT_EQ(collector.last_motion(), began);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), began) << "nothing was read or written";
  set_io_calls(100, 2);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), clock_->now());
}

TEST_F(MadeUpMachine, ALoaderWhoseWorkersReadForNobodyDoesNotMove) {
  TreeCollector collector = this->collector();
  add_process(101, 100, "pt_data_worker", "/usr/bin/python3.11");
  collector.tick();
  tick_after(collector, kSecond);
  const BootNs began = collector.last_motion();
  set_io_calls(101, 20);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), began) << "the trainer got nothing";
  set_io_calls(100, 2);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), clock_->now() - kSecond) << "the worker did nothing";
  set_io_calls(100, 3);
  set_io_calls(101, 21);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), clock_->now());
}

// A manager of multiprocessing whose queue the trainer asks again and again.
TEST_F(MadeUpMachine, AWorkerThatOnlyAnswersInOtherThreadsDoesNotMove) {
  TreeCollector collector = this->collector();
  add_process(101, 100, "pt_data_worker", "/usr/bin/python3.11");
  files_->add("/proc/101/task/101/io", "syscr: 1\nsyscw: 0\n");
  collector.tick();
  tick_after(collector, kSecond);
  const BootNs began = collector.last_motion();
  set_io_calls(100, 20);
  set_io_calls(101, 20);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), began);
  set_io_calls(100, 40);
  set_io_calls(101, 40);
  files_->add("/proc/101/task/101/io", "syscr: 2\nsyscw: 0\n");
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), clock_->now()) << "its main thread took an index";
}

TEST_F(MadeUpMachine, ARankThatOnlyAsksWhetherTheOthersHaveComeDoesNotMove) {
  files_->add("/proc/100/environ", std::string("RANK=0\0WORLD_SIZE=2\0", 20));
  TreeCollector collector = this->collector();
  collector.tick();
  const BootNs began = clock_->now();
  set_io_calls(100, 200);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), began) << "it computed nothing";
}

TEST_F(MadeUpMachine, ARankMayBeIdleThoughOthersMove) {
  files_->add("/proc/100/environ", std::string("RANK=0\0WORLD_SIZE=2\0", 20));
  TreeCollector collector = this->collector();
  add_process(101, 100, "pt_data_worker", "/usr/bin/python3.11");
  collector.tick();
  const BootNs began = clock_->now();
  set_io_calls(101, 20);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.rank_idle_since(), began);
  set_io_calls(100, 2);
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.rank_idle_since(), clock_->now());
}

// As one that waits in NCCL.
TEST_F(MadeUpMachine, ARankThatComputesAndCallsNothingMayWait) {
  constexpr int kASecond = 100;  // ticks
  files_->add("/proc/100/environ", std::string("RANK=0\0WORLD_SIZE=2\0", 20));
  TreeCollector collector = this->collector();
  collector.tick();
  const BootNs began = clock_->now();
  files_->add("/proc/100/stat",
              dlprobe::stat_text({.pid = 100, .ppid = 1, .state = 'R', .cpu_ticks = kASecond}));
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.rank_idle_since(), began);
}

TEST_F(MadeUpMachine, ALoaderWhoseMotionCannotBeSeenMoves) {
  TreeCollector collector = this->collector();
  collector.tick();
  files_->remove("/proc/100/io");
  tick_after(collector, kSecond);
  EXPECT_EQ(collector.last_motion(), clock_->now());
}

TEST_F(MadeUpMachine, AfterALookThatMayBeTornMotionIsLookedForAtOnce) {
  TreeCollector collector = this->collector();
  collector.tick();
  tick_after(collector, kSecond / 5);
  const BootNs looked = collector.looked_for_motion_at();
  EXPECT_LT(looked, clock_->now());
  collector.take_snapshot();
  tick_after(collector, kSecond / 5);
  EXPECT_EQ(collector.looked_for_motion_at(), clock_->now());
}

TEST_F(MadeUpMachine, WhereDeathsMatterNewChildrenAreSoonSeen) {
  TreeCollector collector(
      {.root = files_, .clock = clock_, .processes = std::make_shared<ProcessAccess>()},
      {.pid = 100, .start_ticks = 1000}, {.deaths = true}, records_);
  EXPECT_LT(collector.tick() - clock_->now(), 10 * kMillisecond);
  files_->add("/proc/100/task/100/children", "101 ");
  add_process(101, 100, "python3", "/usr/bin/python3");
  tick_after(collector, 10 * kMillisecond);
  EXPECT_THAT(records_.all<ProcessInfo>(), SizeIs(::testing::Ge(2U)));
  tick_after(collector, 60 * kSecond);
  EXPECT_EQ(collector.tick() - clock_->now(), 100 * kMillisecond) << "it has started long ago";
}

TEST_F(MadeUpMachine, DescriptorsOfAStartingLoaderThatFillBetweenTwoSamplesCount) {
  const auto set_count = [&](uint64_t count) {
    files_->set_stat("/proc/100/fd", {.size_bytes = count});
  };
  set_count(10);
  TreeCollector collector(
      {.root = files_, .clock = clock_, .processes = std::make_shared<ProcessAccess>()},
      {.pid = 100, .start_ticks = 1000}, {.deaths = true}, records_);
  collector.tick();
  set_count(1024);
  tick_after(collector, 10 * kMillisecond);
  set_count(10);
  tick_after(collector, 90 * kMillisecond);
  const auto samples = records_.all<Sample>();
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(**samples[1].processes[0].fd_count, 1024U);
}

TEST_F(MadeUpMachine, TheCgroupOfADyingProcessIsNotBelieved) {
  TreeCollector collector(
      {.root = files_, .clock = clock_, .processes = std::make_shared<ProcessAccess>()},
      {.pid = 100, .start_ticks = 1000}, {.deaths = true}, records_);
  collector.tick();
  std::string stat = stat_text(100, 1, "python3", 'R', 9);
  files_->add("/proc/100/stat", stat.replace(stat.find(" 1100 "), 6, " 0 "));  // no memory any more
  files_->add("/proc/100/cgroup", "0::/\n");
  tick_after(collector, kSecond);
  for (const ProcessInfo& info : records_.all<ProcessInfo>())
    EXPECT_EQ(*info.cgroup, "/job");
}

TEST_F(MadeUpMachine, TheFirstTickTellsWhatThereIs) {
  TreeCollector collector = this->collector();
  const BootNs next = collector.tick();
  EXPECT_EQ(next, clock_->now() + 100 * kMillisecond);
  const auto infos = records_.all<ProcessInfo>();
  ASSERT_THAT(infos, SizeIs(1));
  EXPECT_EQ(infos[0].role, Role::kTrainer);
  EXPECT_EQ(infos[0].uid, 7U);
  EXPECT_THAT(infos[0].cmdline, ElementsAre("python3", "--token=***"));
  EXPECT_EQ(infos[0].open_files_limit->soft, 1024U);
  EXPECT_EQ(*infos[0].cgroup, "/job");
  const auto mounts = records_.all<ShmMount>();
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].device, kShmDevice);
  EXPECT_EQ(mounts[0].options, "rw,size=1024k");
  EXPECT_EQ(mounts[0].mount_namespace, 4026531841U);
  const auto samples = records_.all<Sample>();
  ASSERT_THAT(samples, SizeIs(1));
  ASSERT_THAT(samples[0].processes, SizeIs(1));
  EXPECT_EQ(**samples[0].processes[0].fd_count, 2U);
  EXPECT_EQ(**samples[0].processes[0].swap_bytes, 4096U);
  EXPECT_EQ(**samples[0].processes[0].pss_bytes, 20U * 1024);
  EXPECT_EQ((*samples[0].host)->oom_kills, 2U);
  EXPECT_EQ(samples[0].shm[0]->used_bytes, 1U << 20U);
  ASSERT_TRUE(samples[0].cgroup);
  EXPECT_EQ(**samples[0].cgroup, (CgroupMemory{.version = 2,
                                               .path = "/job",
                                               .used_bytes = 4096,
                                               .limit_bytes = 8192,
                                               .shmem_bytes = 2048,
                                               .oom_kills = 1,
                                               .anon_bytes = 1}));
  EXPECT_TRUE(collector.alive());
  EXPECT_TRUE(collector.trainer_alive());
}

TEST_F(MadeUpMachine, ChildrenAreFoundAndStayAfterTheyWereOrphaned) {
  TreeCollector collector = this->collector();
  collector.tick();
  add_process(101, 100, "python3", "/usr/bin/python3.11");
  tick_after(collector, 100 * kMillisecond);
  EXPECT_THAT(records_.all<Sample>().back().processes, SizeIs(2));
  files_->add("/proc/101/stat", stat_text(101, 1, "python3", 'S', 0));
  files_->remove("/proc/100");
  tick_after(collector, 100 * kMillisecond);
  tick_after(collector, 100 * kMillisecond);
  ASSERT_THAT(records_.all<Sample>().back().processes, SizeIs(1));
  EXPECT_EQ(records_.all<Sample>().back().processes[0].ppid, 1);
  EXPECT_EQ(records_.all<ProcessInfo>().back().ppid, 100) << "whose child it was";
  EXPECT_TRUE(collector.alive());
  EXPECT_FALSE(collector.trainer_alive());
}

TEST_F(MadeUpMachine, AZombieTellsHowItEnded) {
  TreeCollector collector = this->collector();
  collector.tick();
  files_->add("/proc/100/stat", stat_text(100, 50, "python3", 'Z', 7));
  tick_after(collector, 100 * kMillisecond);
  const auto exits = records_.all<ProcessExit>();
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_EQ(exits[0].wait_status, 7);
  EXPECT_EQ(exits[0].source, "zombie stat");
  EXPECT_FALSE(collector.alive());
}

TEST_F(MadeUpMachine, WhatTheParentSawCounts) {
  TreeCollector collector = this->collector();
  collector.tick();
  collector.note_exit({.pid = 100, .start_ticks = 1000}, 9, "waitid");
  files_->remove("/proc/100");
  tick_after(collector, 100 * kMillisecond);
  const auto exits = records_.all<ProcessExit>();
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_EQ(exits[0].wait_status, 9);
  EXPECT_EQ(exits[0].source, "waitid");
}

TEST_F(MadeUpMachine, AChildOlderThanTheRootIsNoneOfIts) {
  TreeCollector collector = this->collector();
  collector.tick();
  collector.note_exit({.pid = 90, .start_ticks = 900}, 9, "waitid");
  EXPECT_THAT(records_.all<ProcessExit>(), SizeIs(0));
  collector.note_exit({.pid = 110, .start_ticks = 1100}, 9, "waitid");
  EXPECT_THAT(records_.all<ProcessExit>(), SizeIs(1));
}

TEST_F(MadeUpMachine, AnEndThatNobodySawCarriesItsReason) {
  TreeCollector collector = this->collector();
  collector.tick();
  files_->remove("/proc/100");
  tick_after(collector, 100 * kMillisecond);
  const auto exits = records_.all<ProcessExit>();
  ASSERT_THAT(exits, SizeIs(1));
  ASSERT_FALSE(exits[0].wait_status);
  EXPECT_EQ(exits[0].wait_status.error().code, ErrorCode::kUnsupported);
  for (const Gap& gap : records_.all<Gap>())
    ADD_FAILURE() << gap.what.plain() << ": " << gap.why.plain();
}

TEST_F(MadeUpMachine, APidThatWasGivenToAnotherIsNotTakenForIt) {
  TreeCollector collector = this->collector();
  collector.tick();
  files_->remove("/proc/100");
  tick_after(collector, 100 * kMillisecond);
  add_process(100, 50, "sshd", "/usr/sbin/sshd");
  files_->add("/proc/100/stat",
              "100 (sshd) S 50 1 1 0 -1 0 5 0 6 0 1 2 0 0 20 0 1 0 77777 1 1 1 5 9 7 0 0 0 0 0 0 "
              "0 0 0 17 0 0 0 0 0 0 0 0 0 7 8 0 0 0\n");
  records_.clear();
  tick_after(collector, 2000 * kMillisecond);
  EXPECT_THAT(records_.all<ProcessInfo>(), SizeIs(0));
  EXPECT_FALSE(collector.alive());
}

TEST_F(MadeUpMachine, ANearlyFullMountIsLookedAtBetweenSamples) {
  set_use((uint64_t{1} << 30U) - (uint64_t{64} << 20U));  // 64 MiB free: 10.7 ms at 6000 MiB/s
  TreeCollector collector = this->collector();
  const BootNs next = collector.tick();
  EXPECT_GE(next - clock_->now(), 10 * kMillisecond);
  EXPECT_LT(next - clock_->now(), 12 * kMillisecond);
  set_use((uint64_t{1} << 30U) - 4096);
  tick_after(collector, 11 * kMillisecond);
  EXPECT_THAT(records_.all<Sample>(), SizeIs(1));
  ASSERT_THAT(records_.all<ShmUse>(), SizeIs(1));
  EXPECT_EQ(collector.tick(), clock_->now() + 2 * kMillisecond) << "it is full, and it changes";
  EXPECT_THAT(records_.all<ShmUse>(), SizeIs(1)) << "unchanged use was recorded again";
  tick_after(collector, 1001 * kMillisecond);
  EXPECT_EQ(collector.tick(), clock_->now() + 10 * kMillisecond) << "it is full, and calm";
}

TEST_F(MadeUpMachine, AMountThatFillsIsAccountedForAtOnce) {
  set_use(0);
  TreeCollector collector = this->collector();
  collector.tick();
  ASSERT_THAT(records_.all<ShmLedger>(), SizeIs(1)) << "of the start";
  EXPECT_TRUE(records_.all<ShmLedger>().front().whole_machine);
  set_use(uint64_t{600} << 20U);
  tick_after(collector, 20 * kMillisecond);
  EXPECT_THAT(records_.all<ShmLedger>(), SizeIs(1)) << "one was taken just now";
  set_use(uint64_t{900} << 20U);
  tick_after(collector, 20 * kMillisecond);
  EXPECT_THAT(records_.all<ShmLedger>(), SizeIs(2)) << "it is about to be full";
  set_use(uint64_t{950} << 20U);
  tick_after(collector, 20 * kMillisecond);
  EXPECT_THAT(records_.all<ShmLedger>(), SizeIs(2)) << "once is enough";
  tick_after(collector, 200 * kMillisecond);
  EXPECT_THAT(records_.all<ShmLedger>(), SizeIs(3));
}

TEST_F(MadeUpMachine, WhatWasJustAccountedForIsNotAgainUnlessSomethingChanged) {
  const auto count = [this] { return records_.all<ShmLedger>().size(); };
  TreeCollector collector = this->collector();
  collector.tick();
  clock_->advance(100 * kMillisecond);
  collector.take_ledger();
  EXPECT_EQ(count(), 1U);
  set_use(2U << 20U);
  collector.take_ledger();
  EXPECT_EQ(count(), 2U) << "the use changed";
  clock_->advance(kSecond);
  collector.take_ledger();
  EXPECT_EQ(count(), 3U) << "it is a while ago";
  add_process(101, 100, "python3", "/usr/bin/python3.11");
  files_->add("/proc/100/task/100/children", "101 ");
  tick_after(collector, 100 * kMillisecond);
  collector.take_ledger();
  EXPECT_EQ(count(), 4U) << "the tree changed";
}

TEST_F(MadeUpMachine, OneDescriptorMoreOfManyIsLookedAtAfterAWhile) {
  constexpr int kMany = 64;
  const auto open = [&](int count) {
    for (int fd = 0; fd < count; ++fd) {
      const std::string path = fmt::format("/proc/100/fd/{}", fd);
      files_->add_link(path, "/dev/null");
      files_->set_stat(path, {.device = 5, .mode = S_IFCHR, .links = 1});
    }
    files_->set_stat("/proc/100/fd", {.size_bytes = static_cast<uint64_t>(count)});
  };
  const auto newest = [this] { return records_.all<Sample>().back().processes.front().fds; };
  open(kMany);
  TreeCollector collector = this->collector();
  collector.tick();
  ASSERT_TRUE(newest());
  EXPECT_EQ((**newest())[FdKind::kDevice], 64U) << "told by the closer look";
  open(kMany + 1);
  tick_after(collector, kSecond);
  EXPECT_FALSE(newest());
  open(kMany + 4);
  tick_after(collector, kSecond);
  ASSERT_TRUE(newest());
  open(kMany + 5);
  tick_after(collector, kSecond);
  EXPECT_FALSE(newest());
  tick_after(collector, 9 * kSecond);
  EXPECT_TRUE(newest());
}

TEST_F(MadeUpMachine, AFileThatIsRemovedDuringTheLookWasNotLeftByAnybody) {
  const Machine machine{
      .root = files_, .clock = clock_, .processes = std::make_shared<ProcessAccess>()};
  ProcessTree tree(machine, {.pid = 100, .start_ticks = 1000}, 0);
  DeadlineReader reader;
  tree.discover(reader);
  ShmMounts mounts(machine);
  mounts.update(tree, true);
  for (const char* name : {"/dev/shm/torch_101_1_0", "/dev/shm/torch_101_1_1"}) {
    files_->set_stat(name, {.device = kShmDevice,
                            .inode = static_cast<uint64_t>(name[21]),
                            .mode = S_IFREG | 0600U,
                            .size_bytes = 4096,
                            .allocated_bytes = 4096});
  }
  LedgerKeeper keeper(machine, reader);
  const std::vector<ShmLedger> ledgers =
      keeper.take(tree, mounts, LedgerKeeper::Scope::kTree,
                  [this] { files_->remove("/dev/shm/torch_101_1_0"); });
  ASSERT_THAT(ledgers, SizeIs(1));
  ASSERT_THAT(ledgers[0].segments, SizeIs(1));
  EXPECT_EQ(ledgers[0].segments[0].name, "torch_101_1_1");
}

TEST_F(MadeUpMachine, WhoFillsAMountIsFoundBetweenTwoSamples) {
  set_use(0);
  TreeCollector collector = this->collector();
  collector.tick();
  tick_after(collector, 1001 * kMillisecond);
  add_process(101, 100, "python3", "/usr/bin/python3.11");
  set_use(uint64_t{100} << 20U);
  tick_after(collector, 50 * kMillisecond);
  EXPECT_THAT(records_.all<Sample>(), SizeIs(2)) << "no sample is due";
  EXPECT_THAT(records_.all<ProcessInfo>(),
              testing::Contains(
                  testing::Field(&ProcessInfo::key, ProcessKey{.pid = 101, .start_ticks = 1010})));
}

TEST_F(MadeUpMachine, WhatMayNotBeReadIsAReasonAndNotAZero) {
  files_->fail("/proc/100/smaps_rollup", EACCES);
  files_->fail("/proc/100/limits", EACCES);
  files_->fail("/proc/100/status", EACCES);
  TreeCollector collector = this->collector();
  collector.tick();
  const ProcessInfo process = records_.all<ProcessInfo>()[0];
  EXPECT_EQ(process.open_files_limit.error().code, ErrorCode::kForbidden);
  EXPECT_EQ(process.uid.error().code, ErrorCode::kForbidden);
  EXPECT_EQ(process.signals_caught.error().code, ErrorCode::kForbidden);
  const auto sample = records_.all<Sample>()[0];
  ASSERT_TRUE(sample.processes[0].pss_bytes);
  EXPECT_EQ(sample.processes[0].pss_bytes->error().code, ErrorCode::kForbidden);
}

TEST_F(MadeUpMachine, AHandlerThatIsSetLaterIsTold) {
  TreeCollector collector = this->collector();
  collector.tick();
  const auto caught = [&] { return records_.all<ProcessInfo>().back().signals_caught; };
  EXPECT_EQ(caught(), 0U);
  files_->add("/proc/100/status",
              "Name:\tpython3\nPid:\t100\nPPid:\t1\nTracerPid:\t0\nUid:\t7\t7\t7\t7\nNSpid:\t100\n"
              "VmSwap:\t 4 kB\nThreads:\t1\nSigCgt:\t4000\nnonvoluntary_ctxt_switches:\t0\n");
  for (int second = 0; second < 5; ++second)
    tick_after(collector, kSecond);
  EXPECT_EQ(caught(), 0x4000U);
}

TEST_F(MadeUpMachine, AHiddenNamespaceFallsBackToTheSameDevice) {
  files_->fail("/proc/100/ns/mnt", EACCES);
  TreeCollector collector = this->collector();
  collector.tick();
  const auto mounts = records_.all<ShmMount>();
  ASSERT_THAT(mounts, SizeIs(1));
  EXPECT_EQ(mounts[0].seen_through.pid, 0);
}

/// The same machine, whose kernel tells of signals and deaths.
class TalkativeMachine : public MadeUpMachine {
 protected:
  void SetUp() override {
    MadeUpMachine::SetUp();
    files_->add_link("/proc/self/ns/pid", "pid:[4026531836]");
    files_->add("/proc/900/comm", "slurmstepd\n");
    files_->add("/proc/900/cmdline", std::string("slurmstepd\0--token=abc\0", 23));
    add_process(101, 100, "python3", "/usr/bin/python3.11");
    files_->add("/proc/100/task/100/children", "101 ");
  }

  TreeCollector listener() {
    CollectOptions options;
    options.deaths = true;
    return TreeCollector({.root = files_,
                          .clock = clock_,
                          .processes = std::make_shared<ProcessAccess>(),
                          .sockets = nullptr,
                          .events = events_},
                         {.pid = 100, .start_ticks = 1000}, options, records_);
  }

  std::shared_ptr<FakeEvents> events_ = std::make_shared<FakeEvents>();
};

TEST_F(TalkativeMachine, ASignalToAMemberIsRecordedWithItsSender) {
  TreeCollector collector = listener();
  collector.tick();
  events_->send(clock_->now(), 900, 101, 9, 0);
  events_->send(clock_->now(), 900, 555, 9, 0);  // somebody else's
  tick_after(collector, kSecond);
  const auto signals = records_.all<SignalSent>();
  ASSERT_THAT(signals, SizeIs(1));
  EXPECT_EQ(signals[0].target.pid, 101);
  EXPECT_EQ(signals[0].signal, 9);
  EXPECT_EQ(signals[0].sender_comm, "slurmstepd");
  EXPECT_EQ(signals[0].sender_command, "slurmstepd --token=***");
  EXPECT_EQ(signals[0].sender, std::nullopt);
  EXPECT_FALSE(signals[0].by_dlprobe);
}

TEST_F(TalkativeMachine, ASenderOfTheTreeIsKnownAsSuch) {
  TreeCollector collector = listener();
  collector.tick();
  events_->send(clock_->now(), 100, 101, 15, 0);
  tick_after(collector, kSecond);
  const auto signals = records_.all<SignalSent>();
  ASSERT_THAT(signals, SizeIs(1));
  EXPECT_EQ(signals[0].sender, (ProcessKey{.pid = 100, .start_ticks = 1000}));
}

TEST_F(TalkativeMachine, ASignalToAWorkerThatIsFoundLaterCounts) {
  TreeCollector collector = listener();
  collector.tick();
  events_->send(clock_->now(), 900, 102, 9, 0);
  collector.tick();
  add_process(102, 100, "python3", "/usr/bin/python3.11");
  files_->add("/proc/100/task/100/children", "101 102 ");
  tick_after(collector, kSecond / 2);
  tick_after(collector, kSecond / 10);
  EXPECT_THAT(records_.all<SignalSent>(), SizeIs(1));
}

TEST_F(TalkativeMachine, LinesOfTheKernelsLogAboutMembers) {
  TreeCollector collector = listener();
  collector.tick();
  events_->print("memory: usage 64kB, limit 64kB, failcnt 3");
  events_->print(
      "Memory cgroup out of memory: Killed process 101 (python3) total-vm:9kB, anon-rss:4kB");
  events_->print(
      "Memory cgroup out of memory: Killed process 555 (python3) total-vm:9kB, anon-rss:4kB");
  events_->print("usb 1-1: new device");
  tick_after(collector, kSecond);
  const auto lines = records_.all<KernelLogLine>();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0].process.pid, 101);
  EXPECT_EQ(lines[0].anonymous_bytes, 4096U);
  EXPECT_EQ(lines[0].limit_bytes, 64 * kKiB);
}

TEST_F(TalkativeMachine, CountersOfOomKillsAreRecordedAtTheStartAndWhenTheyMove) {
  files_->add("/sys/fs/cgroup/job/memory.events.local", "oom 0\noom_kill 0\n");
  TreeCollector collector = listener();
  collector.tick();
  for (int second = 0; second < 3; ++second)
    tick_after(collector, kSecond);
  ASSERT_THAT(records_.all<OomCounters>(), SizeIs(2));  // the group and the host
  EXPECT_EQ(records_.all<OomCounters>()[0].cgroup, "/job");
  EXPECT_EQ(records_.all<OomCounters>()[0].limit_bytes, 8192U);
  EXPECT_EQ(records_.all<OomCounters>()[1].kills, 2U);
  files_->add("/sys/fs/cgroup/job/memory.events", "oom 1\noom_kill 2\n");
  files_->add("/sys/fs/cgroup/job/memory.events.local", "oom 1\noom_kill 2\n");
  collector.note_exit({.pid = 101, .start_ticks = 1010}, 9, "waitid");
  ASSERT_THAT(records_.all<OomCounters>(), SizeIs(3));
  EXPECT_EQ(records_.all<OomCounters>()[2].kills, 2U);
  EXPECT_EQ(records_.all<OomCounters>()[2].limit_hits, 1U);
}

TEST_F(TalkativeMachine, WhatMayNotBeListenedToIsNoGapButAnEvent) {
  events_->forbid();
  TreeCollector collector = listener();
  collector.tick();
  const auto events = records_.all<Event>();
  ASSERT_THAT(events, SizeIs(2));
  EXPECT_EQ(events[0].kind, "signals-not-traced");
  EXPECT_EQ(events[1].kind, "kernel-log-not-read");
}

TEST_F(TalkativeMachine, InAPidNamespaceTheKernelsPidsMeanNothing) {
  files_->add_link("/proc/self/ns/pid", "pid:[4026532000]");
  TreeCollector collector = listener();
  collector.tick();
  events_->send(clock_->now(), 900, 101, 9, 0);
  tick_after(collector, kSecond);
  EXPECT_THAT(records_.all<SignalSent>(), SizeIs(0));
  EXPECT_THAT(records_.all<Event>(), SizeIs(2));
}

TEST_F(TalkativeMachine, LostSignalsAreSaid) {
  TreeCollector collector = listener();
  collector.tick();
  events_->lose(3);
  tick_after(collector, kSecond);
  const auto events = records_.all<Event>();
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].kind, "signals-not-traced");
}

}  // namespace
}  // namespace dlprobe
