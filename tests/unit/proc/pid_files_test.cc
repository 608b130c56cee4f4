#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include <csignal>
#include <string>

#include "lib/model/process.h"
#include "lib/proc/fdinfo.h"
#include "lib/proc/maps.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/pid_io.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_statm.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/sched_file.h"
#include "lib/proc/smaps_rollup.h"
#include "lib/proc/syscall_file.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;

/// Every proper prefix of a good text is refused: a short read never passes for a whole one.
template <class Parse>
void expect_every_truncation_refused(const std::string& text, Parse parse) {
  ASSERT_TRUE(parse(text));
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(parse(text.substr(0, length))) << "of the first " << length << " bytes";
  }
}

// Linux 6.18.
const std::string kStat =
    "8931 (cat) R 8929 8929 6377 0 -1 4194304 101 0 7 0 3 4 0 0 20 0 2 0 124727 3133440 410 "
    "18446744073709551615 94115778179072 94115778198953 140735671943472 0 0 0 0 0 16384 0 0 0 17 0 "
    "0 0 "
    "0 0 0 94115778214960 94115778216576 94116825608192 140735671945901 140735671945974 "
    "140735671945974 140735671947243 9\n";

// Linux 6.18, the first lines.
const std::string kSched =
    "cat (25322, #threads: 1)\n"
    "-------------------------------------------------------------------\n"
    "se.exec_start                                :      43561729.432785\n";

TEST(SchedFile, GivesTheClockOfTheLastRun) {
  EXPECT_EQ(must(parse_sched_file(kSched)), 43561729432785U);
  expect_every_truncation_refused(kSched, parse_sched_file);
}

TEST(SchedFile, RefusesWhatIsNoTime) {
  for (const std::string number : {"", "-1.000000", "1", "1.5", "18446744073709551615.000000"}) {
    EXPECT_FALSE(parse_sched_file("\nse.exec_start : " + number + "\n")) << number;
  }
}

TEST(PidStat, GivesTheFieldsOfTheManual) {
  const auto stat = must(parse_pid_stat(kStat));
  EXPECT_EQ(stat.pid, 8931);
  EXPECT_EQ(stat.comm, "cat");
  EXPECT_EQ(stat.state, 'R');
  EXPECT_EQ(stat.ppid, 8929);
  EXPECT_EQ(stat.memory.minor_faults, 101U);
  EXPECT_EQ(stat.memory.major_faults, 7U);
  EXPECT_EQ(stat.utime_ticks, 3U);
  EXPECT_EQ(stat.stime_ticks, 4U);
  EXPECT_EQ(stat.threads, 2);
  EXPECT_EQ(stat.start_ticks, 124727U);
  EXPECT_EQ(stat.start_code, 94115778179072U);
  EXPECT_EQ(stat.start_stack, 140735671943472U);
  EXPECT_EQ(stat.arg_start, 140735671945901U);
  EXPECT_EQ(stat.processor, 0);
  EXPECT_EQ(stat.exit_code, 9);
  EXPECT_FALSE(is_kernel_thread(stat));
}

TEST(PidStat, CommMayHoldBlanksParenthesesAndNewlines) {
  for (const std::string comm : {"a b", ") R 1", "((", "x) (y", "new\nline", ""}) {
    std::string text = kStat;
    text.replace(text.find("cat"), 3, comm);
    const auto stat = parse_pid_stat(text);
    ASSERT_TRUE(stat) << comm;
    EXPECT_EQ(stat->comm, comm);
    EXPECT_EQ(stat->ppid, 8929);
  }
}

TEST(PidStat, AProcessHasEndedWhenAllOfItsThreadsHave) {
  EXPECT_FALSE(has_ended({.state = 'R', .threads = 1}));
  EXPECT_TRUE(has_ended({.state = 'Z', .threads = 1}));
  EXPECT_TRUE(has_ended({.state = 'X', .threads = 0}));
  // Its main thread has called pthread_exit.
  EXPECT_FALSE(has_ended({.state = 'Z', .threads = 2}));
}

TEST(PidStat, RefusesEveryTruncation) {
  expect_every_truncation_refused(kStat, parse_pid_stat);
}

TEST(PidStat, TakesFieldsThatANewerKernelAdds) {
  std::string text = kStat;
  text.insert(text.size() - 1, " 1 2 3");
  EXPECT_TRUE(parse_pid_stat(text));
}

TEST(PidStat, RefusesWhatIsNotANumber) {
  std::string text = kStat;
  text.replace(text.find("124727"), 6, "-24727");
  const auto stat = parse_pid_stat(text);
  ASSERT_FALSE(stat);
  EXPECT_EQ(stat.error().code, ErrorCode::kMalformed);
}

TEST(PidStatm, GivesPages) {
  EXPECT_EQ(must(parse_pid_statm("765 438 410 5 0 123 0\n")),
            (PidStatm{.size = 765, .resident = 438, .shared = 410}));
}

TEST(PidStatm, RefusesEveryTruncationAndMoreFields) {
  expect_every_truncation_refused("765 438 410 5 0 123 0\n", parse_pid_statm);
  EXPECT_FALSE(parse_pid_statm("765 438 410 5 0 123 0 1\n"));
}

const std::string kStatusTail =
    "Threads:\t3\nSigQ:\t0/96365\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n"
    "SigBlk:\t0000000000000000\nSigIgn:\t0000000001001000\nSigCgt:\t00000001000044c2\n"
    "CapInh:\t0000000000000000\nSeccomp:\t0\nvoluntary_ctxt_switches:\t18\n"
    "nonvoluntary_ctxt_switches:\t4\n";

const std::string kStatus618 =
    "Name:\tpt_data_worker\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t4711\nNgid:\t0\nPid:\t4711\n"
    "PPid:\t4700\nTracerPid:\t0\nUid:\t1000\t1001\t1000\t1000\nGid:\t0\t0\t0\t0\nFDSize:"
    "\t256\nGroups:\t \n"
    "NStgid:\t4711\t12\nNSpid:\t4711\t12\nNSpgid:\t4711\t12\nNSsid:\t1\t1\nKthread:\t0\n"
    "VmPeak:\t    3060 kB\nVmRSS:\t    1752 kB\nRssAnon:\t     112 kB\nRssFile:\t    1640 kB\n"
    "RssShmem:\t       8 kB\nVmSwap:\t      12 kB\n" +
    kStatusTail;

TEST(PidStatus, GivesTheFieldsOfLinux618) {
  const auto status = must(parse_pid_status(kStatus618));
  EXPECT_EQ(status.tgid, 4711);
  EXPECT_EQ(status.uid, 1000U);
  EXPECT_THAT(status.namespace_pids, ElementsAre(4711, 12));
  EXPECT_EQ(status.threads, 3);
  EXPECT_EQ(status.swap_bytes, 12U * 1024);
}

TEST(PidStatus, KnowsTheSignalsThatTorchWorkersCatch) {
  const auto status = must(parse_pid_status(kStatus618));
  const ProcessInfo info{.signals_caught = status.signals_caught};
  for (const int signal : {SIGBUS, SIGSEGV, SIGFPE, SIGTERM})
    EXPECT_EQ(info.catches(signal), true);
  EXPECT_EQ(info.catches(SIGCHLD), false);
}

TEST(PidStatus, AKernelThreadOfLinux61HasNoMemory) {
  const auto status =
      must(parse_pid_status("Name:\tkworker/0:1\nState:\tI "
                            "(idle)\nTgid:\t9\nPid:\t9\nPPid:\t2\nTracerPid:\t0\nUid:\t0\t0\t0\t0\n"
                            "NSpid:\t9\n" +
                            kStatusTail));
  EXPECT_FALSE(status.swap_bytes);
}

TEST(PidStatus, AProcessCannotForgeALineByItsName) {
  // The kernel escapes newlines in Name, so a name cannot make a line of its own.
  std::string text = kStatus618;
  text.replace(text.find("pt_data_worker"), 14, "x\\nTracerPid:\\t1");
  EXPECT_EQ(must(parse_pid_status(text)).tracer_pid, 0);
}

TEST(PidStatus, RefusesEveryTruncation) {
  expect_every_truncation_refused(kStatus618, parse_pid_status);
}

const std::string kLimits =
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max cpu time              unlimited            unlimited            seconds   \n"
    "Max open files            1024                 524288               files     \n"
    "Max realtime timeout      unlimited            unlimited            us        \n";

TEST(PidLimits, GivesOpenFiles) {
  const auto limit = must(parse_open_files_limit(kLimits));
  EXPECT_EQ(limit.soft, 1024U);
  EXPECT_EQ(limit.hard, 524288U);
}

TEST(PidLimits, UnlimitedIsNothing) {
  std::string text = kLimits;
  text.replace(text.find("524288   "), 9, "unlimited");
  EXPECT_FALSE(must(parse_open_files_limit(text)).hard);
}

TEST(PidLimits, RefusesEveryTruncation) {
  expect_every_truncation_refused(kLimits, parse_open_files_limit);
}

TEST(PidCgroup, FindsTheMemoryHierarchyOfV1) {
  const auto entries =
      parse_pid_cgroup("9:name=systemd:/\n4:memory:/job/a:b\n3:cpu,cpuacct:/x\n0::/\n");
  ASSERT_TRUE(entries);
  ASSERT_EQ(entries->size(), 4U);
  const CgroupEntry* memory = controller_cgroup(*entries, "memory");
  ASSERT_NE(memory, nullptr);
  EXPECT_EQ(memory->path, "/job/a:b");
  EXPECT_THAT((*entries)[2].controllers, ElementsAre("cpu", "cpuacct"));
}

TEST(PidCgroup, FallsBackToV2AndToNone) {
  const auto unified = must(parse_pid_cgroup("0::/user.slice/x.scope\n"));
  ASSERT_NE(controller_cgroup(unified, "memory"), nullptr);
  EXPECT_EQ(controller_cgroup(unified, "memory")->path, "/user.slice/x.scope");
  EXPECT_EQ(controller_cgroup(must(parse_pid_cgroup("3:cpu:/\n")), "memory"), nullptr);
  EXPECT_FALSE(parse_pid_cgroup("3:cpu\n"));
  EXPECT_FALSE(parse_pid_cgroup("0::/user.slice/x.scope"));
}

TEST(Maps, GivesSharedMappingsOfFilesAlone) {
  const auto entries = must(parse_shared_maps(
      "562e7ba29000-562e7ba2b000 r--p 00000000 fe:00 260131                     /usr/bin/cat\n"
      "7f0000000000-7f0001000000 rw-s 00000000 00:1d 42                         "
      "/dev/shm/torch_1_2_3 (deleted)\n"
      "7f0002000000-7f0003000000 rw-s 00000000 00:01 77                         /dev/zero "
      "(deleted)\n"
      "7fca06646000-7fca06668000 rw-p 00000000 00:00 0 \n"
      "7ffe4cda0000-7ffe4cda4000 rw-s 00000000 00:00 0                          [anon_shmem:x]\n"));
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0], (SharedMapping{.begin = 0x7f0000000000,
                                       .end = 0x7f0001000000,
                                       .device = makedev(0, 0x1d),
                                       .inode = 42,
                                       .name = "/dev/shm/torch_1_2_3 (deleted)"}));
}

TEST(Maps, RefusesWhatIsCutOffOrIsNoMapping) {
  EXPECT_TRUE(parse_shared_maps("")->empty());  // a kernel thread, a zombie
  EXPECT_FALSE(parse_shared_maps("562e7ba29000-562e7ba2b000 r--p 00000000 fe:00 1 "));
  EXPECT_FALSE(parse_shared_maps("562e7ba2b000-562e7ba29000 r--p 00000000 fe:00 1 \n"));
  EXPECT_FALSE(parse_shared_maps("nonsense\n"));
}

const std::string kRollup =
    "55e643363000-7ffe4cda4000 ---p 00000000 00:00 0                          [rollup]\n"
    "Rss:                1616 kB\nPss:                 382 kB\nPss_Dirty:           112 kB\n"
    "Pss_Anon:             90 kB\nPrivate_Clean:         8 kB\nPrivate_Dirty:        72 kB\n"
    "Swap:                  4 kB\nSwapPss:               0 kB\nLocked:                0 kB\n";

TEST(SmapsRollup, GivesSums) {
  EXPECT_EQ(must(parse_smaps_rollup(kRollup)), (SmapsRollup{.rss_bytes = 1616 * 1024,
                                                            .pss_bytes = 382 * 1024,
                                                            .swap_bytes = 4096,
                                                            .pss_anon_bytes = 90 * 1024,
                                                            .private_bytes = 80 * 1024}));
  expect_every_truncation_refused(kRollup, parse_smaps_rollup);
}

TEST(SyscallFile, KnowsItsThreeForms) {
  const auto call = must(parse_syscall_file("7 0x7f95 0x1 0x1388 0x0 0x0 0x0 0x7ffe 0x7f96\n"));
  EXPECT_EQ(call.number, 7);
  EXPECT_THAT(call.args, ElementsAre(0x7f95, 1, 0x1388, 0, 0, 0));
  const auto running = must(parse_syscall_file("running\n"));
  EXPECT_TRUE(running.running);
  const auto blocked = must(parse_syscall_file("-1 0x7ffe 0x7f96\n"));
  EXPECT_EQ(blocked.number, -1);
  EXPECT_FALSE(blocked.running);
}

TEST(SyscallFile, RefusesEveryTruncation) {
  expect_every_truncation_refused("7 0x7f95 0x1 0x1388 0x0 0x0 0x0 0x7ffe 0x7f96\n",
                                  parse_syscall_file);
  expect_every_truncation_refused("running\n", parse_syscall_file);
}

TEST(FdInfo, GivesDescriptorsInFlightAndEpollTargets) {
  const auto socket =
      must(parse_fdinfo("pos:\t0\nflags:\t02000002\nmnt_id:\t9\nino:\t8\nscm_fds: 3\n"));
  EXPECT_EQ(socket.scm_fds, 3U);
  EXPECT_EQ(socket.flags, 02000002U);
  const auto epoll =
      must(parse_fdinfo("pos:\t7\nflags:\t02\nmnt_id:\t15\n"
                        "tfd:        5 events:       19 data:   ffff pos:0 ino:61af sdev:7\n"
                        "tfd:       12 events:       19 data:   ffff pos:0 ino:61af sdev:7\n"));
  EXPECT_EQ(epoll.position, 7U);
  EXPECT_THAT(epoll.epoll_targets, ElementsAre(5, 12));
  EXPECT_EQ(epoll.eventfd_id, 0U);
  EXPECT_EQ(parse_fdinfo("pos:\t0\nflags:\t02\neventfd-count:    3\neventfd-id: 6\n")->eventfd_id,
            6U);
  const std::string file = "pos:\t0\nflags:\t02\nlock:\t1: ";
  for (const char* lock :
       {"FLOCK  ADVISORY  WRITE 42 fe:00:7 0 EOF\n", "POSIX  ADVISORY  WRITE 42 fe:00:7 0 EOF\n",
        "OFDLCK ADVISORY  WRITE -1 fe:00:7 0 EOF\n"})
    EXPECT_TRUE(parse_fdinfo(file + lock)->holds_lock) << lock;
  const std::string flock = "FLOCK  ADVISORY  WRITE 42 fe:00:7 0 EOF\n";
  EXPECT_THAT(parse_fdinfo(file + flock)->lock_takers, ElementsAre(42));
  EXPECT_FALSE(parse_fdinfo(file + "LEASE  ACTIVE    READ 42 fe:00:7 0 EOF\n")->holds_lock);
  EXPECT_FALSE(parse_fdinfo("pos:\t0\nflags:\t0200"));
  EXPECT_FALSE(parse_fdinfo("pos:\t0\nflags:\t9\n"));
}

TEST(PidIo, CountsReadsAndWrites) {
  constexpr std::string_view kText =
      "rchar: 323934931\nwchar: 323929600\nsyscr: 632687\nsyscw: 632675\nread_bytes: 0\n"
      "write_bytes: 323932160\ncancelled_write_bytes: 0\n";
  EXPECT_EQ(parse_pid_io_calls(kText), 632687U + 632675U);
  EXPECT_FALSE(parse_pid_io_calls("rchar: 1\nwchar: 2\nsyscr: 3\n"));
  EXPECT_FALSE(parse_pid_io_calls("syscr: x\nsyscw: 1\n"));
}

}  // namespace
}  // namespace dlprobe
