#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/model/ids.h"

namespace dlprobe {

/// A fatal signal as it was sent to a process of the tree: the kernel's tracepoint signal_generate.
struct SignalSent {
  BootNs at = 0;
  int32_t signal = 0;
  /// si_code: 0 a process called kill, -6 it called tgkill, 128 (SI_KERNEL) the kernel without
  /// saying more, any other above 0 a fault of the receiver (1 to 4 of SIGBUS: BUS_ADRALN ...).
  int32_t code = 0;
  ProcessKey target;
  /// Who was running: the sender, or of the kernel's own signals who had it sent; in dlprobe's pid
  /// namespace, 0: not in it.
  int32_t sender_pid = 0;
  std::string sender_comm;               ///< hostile text; empty: it had ended before it was read
  std::string sender_command;            ///< its first arguments, secrets masked; hostile text
  std::optional<ProcessKey> sender;      ///< where it is a process of the tree
  bool by_dlprobe = false;               ///< which passed it on, or ended what it had started
  std::optional<uint64_t> code_address;  ///< where the receiver was, if it caused the fault itself
  std::string code_file;                 ///< the mapped file with that address; may be empty

  bool operator==(const SignalSent&) const = default;
};

/// The signals whose senders are recorded: those that end a process unless it has a handler.
/// SIGALRM and SIGPIPE are everyday business.
inline constexpr std::array kTracedSignals = {SIGHUP,  SIGINT,  SIGQUIT, SIGILL,  SIGTRAP, SIGABRT,
                                              SIGBUS,  SIGFPE,  SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2,
                                              SIGTERM, SIGXCPU, SIGXFSZ, SIGSYS};
constexpr bool is_traced_signal(int signal) {
  return std::ranges::find(kTracedSignals, signal) != kTracedSignals.end();
}

/// What a line of the kernel's log is about.
enum class KernelLogKind {
  kOomKill,      ///< "oom-kill:constraint=..." or "... Killed process N (comm) ..."
  kFault,        ///< "python3[N]: segfault at ...", "traps: python3[N] trap divide error ..."
  kMemoryError,  ///< "... Sending SIGBUS to python3:N due to hardware memory corruption"
};
std::string_view to_string(KernelLogKind kind);  ///< "oom-kill", "fault", "memory-error"
KernelLogKind kernel_log_kind_from_string(std::string_view name);

/// A line of the kernel's log (/dev/kmsg) that names a process of the tree.
struct KernelLogLine {
  BootNs at = 0;
  KernelLogKind kind = KernelLogKind::kFault;
  ProcessKey process;
  std::string text;  ///< the line; hostile text
  /// Of an OOM kill: whether the host ran out, and not a group; nothing where the line does not
  /// say.
  std::optional<bool> whole_host;
  std::string limited_cgroup;  ///< of an OOM kill: the group whose limit was reached; may be empty
  std::optional<uint64_t> limit_bytes;      ///< of an OOM kill: that group's limit
  std::optional<uint64_t> anonymous_bytes;  ///< of an OOM kill: what the killed process had
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> shmem_bytes;

  bool operator==(const KernelLogLine&) const = default;
};

/// Counters of OOM kills, of one memory cgroup or of the whole host. Recorded when first read and
/// whenever one has moved. Cumulative: only differences mean anything.
struct OomCounters {
  BootNs at = 0;
  std::string cgroup;  ///< as /proc/PID/cgroup has it; empty: the host (/proc/vmstat)
  /// Processes killed in the group, by whichever limit; v2: and in groups below it.
  uint64_t kills = 0;
  /// How often the group's own limit left no way out: "oom" of memory.events.local (v2).
  std::optional<uint64_t> limit_hits;
  /// How often the group's own limit was met (v1: memory.failcnt); page cache does that, too.
  std::optional<uint64_t> limit_meets;
  std::optional<uint64_t> group_kills;  ///< memory.oom.group took the whole group (v2)
  std::optional<uint64_t> limit_bytes;  ///< of the group itself; none: no limit of its own

  bool operator==(const OomCounters&) const = default;
};

}  // namespace dlprobe
