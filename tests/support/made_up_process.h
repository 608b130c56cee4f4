#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "lib/model/ids.h"
#include "tests/support/fake_files.h"

namespace dlprobe {

/// What the files in /proc say of a process that a test makes up.
struct MadeUpProcess {
  int32_t pid = 0;
  int32_t ppid = 0;
  std::string comm = "python3";
  std::string exe = "/usr/bin/python3.11";
  char state = 'S';
  int wait_status = 0;       ///< of a zombie
  uint64_t start_ticks = 0;  ///< 0: ten times its pid
  int threads = 1;
  int cpu_ticks = 1;
  int minor_faults = 5;

  ProcessKey key() const {
    return {.pid = pid, .start_ticks = start_ticks != 0 ? start_ticks : uint64_t{10} * pid};
  }
};

inline std::string stat_text(const MadeUpProcess& process) {
  return fmt::format(
      "{} ({}) {} {} 1 1 0 -1 0 {} 0 6 0 {} 2 0 0 20 0 {} 0 {} 1 1 1 {} 9 7 0 0 0 0 0 0 0 0 0 "
      "17 0 0 0 0 0 0 0 0 0 7 8 0 0 {}\n",
      process.pid, process.comm, process.state, process.ppid, process.minor_faults,
      process.cpu_ticks, process.threads, process.key().start_ticks,
      process.state == 'Z' ? 0 : 1000 + process.pid, process.wait_status);
}

/// The files of a process that can be looked at; its /dev/shm is that of device 29.
inline void add_process(FakeFiles& files, const MadeUpProcess& process) {
  const std::string folder = fmt::format("/proc/{}", process.pid);
  files.add(folder + "/stat", stat_text(process));
  files.add(folder + "/statm", "100 10 4 0 0 0 0\n");
  files.add(
      folder + "/status",
      fmt::format("Name:\t{}\nPid:\t{}\nPPid:\t{}\nTracerPid:\t0\nUid:\t7\t7\t7\t7\nNSpid:\t{}\n"
                  "VmSwap:\t 4 kB\nThreads:\t1\nSigCgt:\t0\nnonvoluntary_ctxt_switches:\t0\n",
                  process.comm, process.pid, process.ppid, process.pid));
  files.add(folder + "/cmdline",
            process.comm + std::string(1, '\0') + "--token=abc" + std::string(1, '\0'));
  files.add(folder + "/limits",
            "Max open files  1024  4096  files\nMax realtime timeout  1  1  us\n");
  files.add(folder + "/cgroup", "0::/job\n");
  files.add(folder + "/mountinfo", "30 25 0:29 / /dev/shm rw - tmpfs shm rw,size=1024k\n");
  files.add(folder + "/smaps_rollup", "Rss: 40 kB\nPss: 20 kB\nSwap: 0 kB\nLocked: 0 kB\n");
  files.add(folder + "/io", "syscr: 1\nsyscw: 0\n");
  files.add(folder + "/fd/0", "");
  files.add(folder + "/fd/1", "");
  files.add(folder + "/maps", "");
  files.add_link(folder + "/exe", process.exe);
  files.add_link(folder + "/ns/mnt", "mnt:[4026531841]");
  files.alias(folder + "/root", "");
}

}  // namespace dlprobe
