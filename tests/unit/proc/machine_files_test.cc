#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "lib/proc/cgroup_cpu.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/cpu_stat.h"
#include "lib/proc/host_memory.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/net_tcp.h"
#include "lib/proc/text.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr std::string_view kMounts =
    "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
    "24 27 0:6 / /dev rw,relatime - devtmpfs devtmpfs rw,size=12334460k,mode=755\n"
    "25 24 0:23 / /dev/shm rw,relatime shared:3 master:1 - tmpfs tmpfs rw,size=24684084k\n"
    "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard\n"
    "30 25 0:27 / /dev/shm rw,nosuid - tmpfs shm rw,size=65536k\n"
    "31 27 0:28 /a\\040b /mnt/with\\040blank rw - tmpfs  rw\n";

TEST(Mountinfo, FindsTheMountOnTop) {
  const auto mounts = must(parse_mountinfo(kMounts));
  const MountEntry* shm = find_mount(mounts, "/dev/shm");
  ASSERT_NE(shm, nullptr);
  EXPECT_EQ(shm->device, makedev(0, 27));
  EXPECT_EQ(shm->fs_type, "tmpfs");
  EXPECT_EQ(shm->source, "shm");
  EXPECT_EQ(shm->super_options, "rw,size=65536k");
  EXPECT_EQ(find_mount(mounts, "/dev/shmx")->mount_point, "/dev");
  EXPECT_EQ(find_mount(mounts, "/home")->mount_point, "/");
}

TEST(Mountinfo, UndoesEscapesAndTakesAnEmptySource) {
  const auto mounts = must(parse_mountinfo(kMounts));
  EXPECT_EQ(mounts.back().mount_point, "/mnt/with blank");
  EXPECT_EQ(mounts.back().root, "/a b");
  EXPECT_EQ(mounts.back().source, "");
  EXPECT_EQ(mounts.back().super_options, "rw");
}

TEST(Mountinfo, RefusesWhatIsCutOff) {
  EXPECT_FALSE(parse_mountinfo("22 27 0:21 / /proc rw,relatime - proc proc rw"));
  EXPECT_FALSE(parse_mountinfo("22 27 0:21 / /proc rw,relatime - proc\n"));
  EXPECT_FALSE(parse_mountinfo("22 27 x / /proc rw,relatime - proc proc rw\n"));
}

constexpr std::string_view kCpus =
    "cpu  22 4 6 200 20 2 4 6 1 0\ncpu0 10 2 3 100 10 1 2 3 1 0\ncpu7 12 2 3 100 10 1 2 3 0 0\n"
    "intr 5 0 0\n";

TEST(CpuStat, WhatOthersTookOfAVirtualMachineIsBusyAndWaitsForDisksAreNot) {
  EXPECT_THAT(must(parse_cpu_stat(kCpus)),
              testing::ElementsAre(CpuTime{.number = 0, .busy_ticks = 21, .total_ticks = 131},
                                   CpuTime{.number = 7, .busy_ticks = 23, .total_ticks = 133}));
}

TEST(CpuStat, RefusesWhatIsCutOff) {
  const size_t end_of_cpus = kCpus.find("intr");
  for (size_t length = 0; length <= end_of_cpus; ++length)
    EXPECT_FALSE(parse_cpu_stat(kCpus.substr(0, length))) << length;
  EXPECT_FALSE(parse_cpu_stat("cpu0 1 2 x 4 5 6 7 8 0 0\nintr 1\n"));
  EXPECT_FALSE(parse_cpu_stat("cpu0 1 2 3\nintr 1\n"));
}

constexpr std::string_view kMeminfo =
    "MemTotal:       24684084 kB\nMemFree:        23496636 kB\nMemAvailable:   24165644 kB\n"
    "SwapCached:            0 kB\nSwapTotal:          100 kB\nSwapFree:            40 kB\n"
    "Shmem:              8872 kB\nShmemHugePages:        1 kB\n"
    "CommitLimit:          70 kB\nCommitted_AS:         60 kB\n";

TEST(Meminfo, GivesBytes) {
  const auto memory = must(parse_meminfo(kMeminfo));
  EXPECT_EQ(memory.total_bytes, uint64_t{24684084} * 1024);
  EXPECT_EQ(memory.available_bytes, uint64_t{24165644} * 1024);
  EXPECT_EQ(memory.shmem_bytes, 8872U * 1024);
  EXPECT_EQ(memory.swap_free_bytes, 40U * 1024);
  EXPECT_EQ(memory.committed_bytes, 60U * 1024);
  EXPECT_EQ(memory.commit_limit_bytes, 70U * 1024);
  EXPECT_FALSE(parse_meminfo(kMeminfo.substr(0, 160)));
}

TEST(Vmstat, GivesOomKills) {
  EXPECT_EQ(parse_vmstat_oom_kills("pgmajfault 9\noom_kill 3\noom_kill_x 4\n").value_or(0), 3U);
  EXPECT_FALSE(parse_vmstat_oom_kills("pgmajfault 9\noom_kill 3"));
  EXPECT_FALSE(parse_vmstat_oom_kills("oom_kill_x 4\n"));
}

TEST(Vmstat, GivesPagesSwapped) {
  EXPECT_EQ(*parse_vmstat_swap_traffic("pswpin 5\npswpout 6\n"),
            (SwapTraffic{.in_pages = 5, .out_pages = 6}));
  EXPECT_FALSE(parse_vmstat_swap_traffic("pswpin 5\n"));
}

TEST(MemoryPressure, GivesTotals) {
  const std::string some = "some avg10=0.12 avg60=0.00 avg300=0.00 total=1234\n";
  const std::string full = "full avg10=0.00 avg60=0.00 avg300=0.00 total=56\n";
  EXPECT_EQ(*parse_memory_pressure(some + full), (MemoryPressure{.full_us = 56}));
  EXPECT_FALSE(parse_memory_pressure(some));
  EXPECT_FALSE(parse_memory_pressure(some + "full avg10=0.00 total=\n"));
}

TEST(CgroupMemory, ReadsV1) {
  const auto stat = must(parse_cgroup_stat_v1(
      "cache 9302016\nshmem 1\nhierarchical_memory_limit 67108864\ntotal_cache 9302016\n"
      "total_rss 4096\ntotal_shmem 9084928\ntotal_swap 8192\n"));
  EXPECT_EQ(stat.anon_bytes, 4096U);
  EXPECT_EQ(stat.file_bytes, 9302016U - 9084928U);
  EXPECT_EQ(stat.swap_bytes, 8192U);
  EXPECT_EQ(stat.shmem_bytes, 9084928U);
  EXPECT_EQ(stat.hierarchical_limit, 67108864U);
  EXPECT_EQ(parse_cgroup_oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n").value_or(0),
            2U);
}

TEST(CgroupMemory, AVeryLargeLimitOfV1IsNone) {
  for (const std::string_view page_4k : {"9223372036854771712\n", "9223372036854710272\n"}) {
    const auto limit = parse_cgroup_limit(page_4k);
    ASSERT_TRUE(limit);
    EXPECT_FALSE(*limit);
  }
}

TEST(CgroupMemory, ReadsV2) {
  EXPECT_FALSE(*parse_cgroup_limit("max\n"));
  EXPECT_EQ(**parse_cgroup_limit("67108864\n"), 67108864U);
  EXPECT_FALSE(parse_cgroup_limit("67108864"));
  EXPECT_EQ(*parse_cgroup_stat_v2("anon 5\nfile 16\nshmem 7\n"),
            (CgroupStatV2{.shmem_bytes = 7, .anon_bytes = 5, .file_bytes = 9}));
  EXPECT_EQ(*parse_cgroup_stat_v2("shmem 7\n"), (CgroupStatV2{.shmem_bytes = 7}));
  EXPECT_EQ(parse_cgroup_number("12\n").value_or(0), 12U);
  EXPECT_FALSE(parse_cgroup_number("12"));
}

TEST(CgroupCpu, ReadsTheQuotaOfV2) {
  EXPECT_EQ(*parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(*parse_cpu_max("max 100000\n"), std::nullopt);
  for (const std::string_view odd :
       {"", "max\n", "150000 100000", "1 0\n", "-1 100000\n", "1 2 3\n"})
    EXPECT_FALSE(parse_cpu_max(odd)) << odd;
}

TEST(CgroupCpu, ReadsTheQuotaOfV1) {
  EXPECT_EQ(*parse_cpu_quota_v1("50000\n", "100000\n"), 0.5);
  EXPECT_EQ(*parse_cpu_quota_v1("-1\n", "100000\n"), std::nullopt);
  EXPECT_FALSE(parse_cpu_quota_v1("50000", "100000\n"));
  EXPECT_FALSE(parse_cpu_quota_v1("50000\n", "0\n"));
  EXPECT_FALSE(parse_cpu_quota_v1("x\n", "100000\n"));
}

TEST(CgroupMount, TheGroupIsBelowWhatIsMounted) {
  const auto mounts = must(
      parse_mountinfo("30 1 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                      "31 1 0:27 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
                      "32 1 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                      "33 1 0:27 / /mnt rw - cgroup cgroup rw,memory\n"));
  const CgroupEntry v1{.hierarchy = 4, .controllers = {"memory"}, .path = "/docker/abc/x/y"};
  const auto folders = cgroup_folders(v1, mounts, "memory");
  ASSERT_EQ(folders.size(), 2U);
  EXPECT_EQ(folders[0].path, "/sys/fs/cgroup/memory/x/y");
  EXPECT_EQ(folders[0].levels, 2);
  EXPECT_EQ(folders[1].path, "/mnt/docker/abc/x/y");
  EXPECT_EQ(folders[1].levels, 4);

  const CgroupEntry sibling{.hierarchy = 4, .controllers = {"memory"}, .path = "/docker/abcd"};
  EXPECT_EQ(cgroup_folders(sibling, mounts, "memory").size(), 1U) << "abcd is not below abc";
  const CgroupEntry v2{.hierarchy = 0, .controllers = {}, .path = "/"};
  ASSERT_EQ(cgroup_folders(v2, mounts, "memory").size(), 1U);
  EXPECT_EQ(cgroup_folders(v2, mounts, "memory")[0].path, "/sys/fs/cgroup/unified");
}

TEST(NetTcp, ReadsAddressesStateAndInode) {
  const auto sockets = must(parse_net_tcp(
      "  sl  local_address rem_address   st tx_queue ...\n"
      "   0: 0100007F:1F90 0100007F:C001 01 0:0 00:0 0     0        0 902 1 0 20 4 0 10 -1\n"));
  EXPECT_EQ(sockets,
            (std::vector<TcpSocket>{
                {.local = "0100007F:1F90", .remote = "0100007F:C001", .state = 1, .inode = 902}}));
  EXPECT_FALSE(parse_net_tcp("  sl\n 0: 0100007F:1F90 0100007F:C001 01 0:0\n"));
  EXPECT_FALSE(parse_net_tcp("  sl\n 0: a b"));
}

TEST(NetTcp, SaysAddressesAsPeopleDo) {
  EXPECT_EQ(text_of_address("0100007F:1F90"), "127.0.0.1:8080");
  EXPECT_EQ(text_of_address("00000000000000000000000001000000:01BB"), "[::1]:443");
  EXPECT_EQ(text_of_address("0000000000000000FFFF00000100007F:01BB"), "127.0.0.1:443");
  for (const char* wrong :
       {"", "0100007F", "0100007:1F90", "0100007F:", "0100007F:1F901", "0100007G:1F90"})
    EXPECT_EQ(text_of_address(wrong), "") << wrong;
}

TEST(Text, KibibytesMayNotOverflow) {
  EXPECT_EQ(find_kib("Rss:  4 kB\n", "Rss"), 4096U);
  EXPECT_FALSE(find_kib("Rss: 18446744073709551615 kB\n", "Rss"));
  EXPECT_FALSE(find_kib("Rss: 4\n", "Rss"));
  EXPECT_FALSE(find_kib("Rss: 4 MB\n", "Rss"));
}

}  // namespace
}  // namespace dlprobe
