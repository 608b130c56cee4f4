#include "lib/proc/kernel_log.h"

#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/pid_limits.h"
#include "lib/proc/tracepoint_format.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

TEST(Kmsg, TheMessageIsWhatStandsBetweenSemicolonAndNewline) {
  EXPECT_EQ(parse_kmsg_record("6,339,5140900,-;NET: a;b\n SUBSYSTEM=net\n").value(), "NET: a;b");
  EXPECT_EQ(parse_kmsg_record("6,339,5140900,c,more=1;cut").value(), "cut");
  EXPECT_FALSE(parse_kmsg_record("no record"));
  EXPECT_FALSE(parse_kmsg_record("x;y"));
}

TEST(KernelMessage, ConstraintOfAGroupNamesTheLimitedOne) {
  const auto entry = must(parse_kernel_message(
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
      "task_memcg=/job/w,task=python3,pid=1234,uid=0"));
  EXPECT_EQ(entry.kind, KernelLogKind::kOomKill);
  EXPECT_EQ(entry.pid, 1234);
  EXPECT_EQ(entry.whole_host, false);
  EXPECT_EQ(entry.limited_cgroup, "/job");
}

TEST(KernelMessage, ConstraintOfTheHost) {
  const auto entry = must(parse_kernel_message(
      "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
      "task_memcg=/,task=python3,pid=77,uid=1000"));
  EXPECT_EQ(entry.whole_host, true);
  EXPECT_EQ(entry.limited_cgroup, "");
}

TEST(KernelMessage, TheLimitThatWasMet) {
  EXPECT_EQ(parse_oom_limit("memory: usage 122880kB, limit 122880kB, failcnt 30"), 120 * kMiB);
  EXPECT_EQ(parse_oom_limit("swap: usage 0kB, limit 9007199254740988kB, failcnt 0"), std::nullopt);
  EXPECT_EQ(parse_oom_limit("memory: usage 1kB, limit "), std::nullopt);
}

TEST(KernelMessage, VictimOfAGroupAndOfTheHost) {
  const auto group = must(parse_kernel_message(
      "Memory cgroup out of memory: Killed process 12 (pt_data_worker) total-vm:200kB, "
      "anon-rss:60kB, "
      "file-rss:4kB, shmem-rss:16kB, UID:0 pgtables:420kB oom_score_adj:0"));
  EXPECT_EQ(group.pid, 12);
  EXPECT_EQ(group.whole_host, false);
  EXPECT_EQ(group.anonymous_bytes, 60 * kKiB);
  EXPECT_EQ(group.file_bytes, 4 * kKiB);
  EXPECT_EQ(group.shmem_bytes, 16 * kKiB);
  EXPECT_EQ(parse_kernel_message("Out of memory: Killed process 9 (a) total-vm:1kB")->whole_host,
            true);
  EXPECT_EQ(parse_kernel_message("Killed process 9 (a) total-vm:1kB")->whole_host, std::nullopt);
}

TEST(KernelMessage, NameOfAProcessCannotMakeAMessage) {
  EXPECT_FALSE(parse_kernel_message("usb 1-1: Killed process 9 (a)"));
  // The name stands in the brackets, before the sizes.
  const auto entry = parse_kernel_message(
      "Out of memory: Killed process 9 ( anon-rss:7kB) total-vm:1kB, anon-rss:5kB, file-rss:0kB");
  EXPECT_EQ(entry->anonymous_bytes, 5 * kKiB);
}

TEST(KernelMessage, Faults) {
  for (const char* text :
       {"python3[1234]: segfault at 10 ip 00007f sp 00007f error 4 in libc.so.6[7f+15] likely on "
        "CPU 1",
        "traps: python3[1234] trap divide error ip:7f sp:7f error:0 in libx.so[7f+1]",
        "traps: a[1] b[1234] general protection fault ip:7f", "a[b[1234]: segfault at 0"}) {
    const auto entry = parse_kernel_message(text);
    ASSERT_TRUE(entry) << text;
    EXPECT_EQ(entry->kind, KernelLogKind::kFault);
    EXPECT_EQ(entry->pid, 1234) << text;
  }
}

TEST(KernelMessage, MemoryErrors) {
  for (const char* text :
       {"Memory failure: 0x1234: Sending SIGBUS to python3:55 due to hardware memory corruption",
        "MCE: Killing python3:55 due to hardware memory corruption fault at 7f00"}) {
    const auto entry = parse_kernel_message(text);
    ASSERT_TRUE(entry) << text;
    EXPECT_EQ(entry->kind, KernelLogKind::kMemoryError);
    EXPECT_EQ(entry->pid, 55);
  }
}

TEST(KernelMessage, OtherLinesAreNone) {
  EXPECT_FALSE(parse_kernel_message("oom_reaper: reaped process 12 (python3), now anon-rss:0kB"));
  EXPECT_FALSE(parse_kernel_message("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)"));
  EXPECT_FALSE(parse_kernel_message(""));
}

TEST(TracepointFormat, IdAndFields) {
  const auto format = must(parse_tracepoint_format(
      "name: x\nID: 261\nformat:\n\tfield:int sig;\toffset:8;\tsize:4;\tsigned:1;\n"
      "\tfield:char comm[16];\toffset:20;\tsize:16;\tsigned:0;\n"));
  EXPECT_EQ(format.id, 261U);
  ASSERT_NE(format.find("comm"), nullptr);
  EXPECT_EQ(format.find("comm")->offset, 20U);
  EXPECT_EQ(format.find("comm")->size, 16U);
  EXPECT_EQ(format.find("pid"), nullptr);
  EXPECT_FALSE(parse_tracepoint_format("name: x\n\tfield:int sig;\toffset:8;\tsize:4;\n"));
  EXPECT_FALSE(parse_tracepoint_format("ID: 1\n\tfield:int sig;\toffset:a;\tsize:4;\n"));
  EXPECT_FALSE(parse_tracepoint_format("ID: 1\n"));
}

TEST(CgroupEvents, OfV2) {
  const auto events = must(parse_cgroup_events_v2("low 0\noom 1\noom_kill 2\noom_group_kill 3\n"));
  EXPECT_EQ(events, (CgroupEventsV2{.oom = 1, .oom_kill = 2, .oom_group_kill = 3}));
  EXPECT_EQ(parse_cgroup_events_v2("oom 1\noom_kill 2\n")->oom_group_kill, std::nullopt);
  EXPECT_FALSE(parse_cgroup_events_v2("oom 1\n"));
}

TEST(CpuTimeLimit, SoftAndHard) {
  constexpr std::string_view kText =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max cpu time              60                   unlimited            seconds   \n"
      "Max realtime timeout      unlimited            unlimited            us        \n";
  EXPECT_EQ(parse_cpu_time_limit(kText).value(), (Limit{.soft = 60, .hard = std::nullopt}));
  EXPECT_FALSE(parse_cpu_time_limit(kText.substr(0, 150)));
}

}  // namespace
}  // namespace dlprobe
