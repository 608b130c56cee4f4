#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace dlprobe {

/// As long as these fields of stat stand still, the process has mapped, touched and given back no
/// memory.
struct MemoryMarks {
  uint64_t minor_faults = 0;  ///< 10
  uint64_t major_faults = 0;  ///< 12
  uint64_t vm_bytes = 0;      ///< 23
  uint64_t rss_pages = 0;     ///< 24; many kernels count it less exactly than statm
  bool operator==(const MemoryMarks&) const = default;
};

/// /proc/PID/stat (proc_pid_stat(5)); the number of each field is that of the manual page.
struct PidStat {
  int32_t pid = 0;
  std::string comm;  ///< raw: may hold blanks, parentheses and newlines
  char state = '?';
  int32_t ppid = 0;
  int32_t session = 0;       ///< 6: pid of its leader
  int32_t terminal = 0;      ///< 7: tty_nr; 0: no controlling terminal
  uint64_t flags = 0;        ///< 9: PF_*
  uint64_t utime_ticks = 0;  ///< 14, all threads
  uint64_t stime_ticks = 0;  ///< 15, all threads
  int32_t threads = 0;       ///< 20
  uint64_t start_ticks = 0;  ///< 22
  MemoryMarks memory;
  uint64_t start_code = 0;   ///< 26; 1: no right to see it; 0: no memory (a zombie)
  uint64_t start_stack = 0;  ///< 28; 0 without the right
  int32_t processor = 0;     ///< 39: the CPU that it ran on last
  uint64_t arg_start = 0;    ///< 48; 0 without the right
  int32_t exit_code = 0;     ///< 52: wait status of a zombie; 0 without the right

  bool operator==(const PidStat&) const = default;
};

/// Whether it is a kernel thread (PF_KTHREAD).
bool is_kernel_thread(const PidStat& stat);

/// Whether it is dead: of a process, with all of its threads. One whose main thread alone has ended
/// (pthread_exit in main) is in state Z, too, and runs.
bool has_ended(const PidStat& stat);

/// Whether it was forked and has not called execve since (PF_FORKNOEXEC).
bool is_forked_without_exec(const PidStat& stat);

/// kMalformed unless it is the whole line of a kernel since 3.5 (52 fields).
Expected<PidStat> parse_pid_stat(std::string_view text);

}  // namespace dlprobe
