#pragma once

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/fields.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// A fatal signal as it was sent to a process of the tree: the kernel's tracepoint signal_generate.
struct SignalSent {
  BootNs at = 0;
  int32_t signal = 0;
  int32_t code = 0;
  ProcessKey target;
  int32_t sender_pid = 0;
  std::string sender_comm;
  std::string sender_command;
  std::optional<ProcessKey> sender;
  bool by_ended = false;
  bool by_dlprobe = false;
  std::optional<uint64_t> code_address;
  std::string code_file;
  std::optional<int32_t> thread;
  std::optional<uint64_t> stack_used;

  bool operator==(const SignalSent&) const = default;
};
constexpr void list_fields(auto&& field, Of<SignalSent> /*of*/) {
  field("at", &SignalSent::at, "when it was sent", Unit::kMoment);
  field("sig", &SignalSent::signal, "its number");
  field(
      "code", &SignalSent::code,
      "si_code: 0 a process called kill, -6 it called tgkill, 128 (SI_KERNEL) the kernel without "
      "saying more, any other above 0 a fault of the receiver (1 to 4 of SIGBUS: BUS_ADRALN ...)");
  field("key", &SignalSent::target, "whom it was sent to");
  field("spid", &SignalSent::sender_pid,
        "Who was running: the sender, or of the kernel's own signals who had it sent; in dlprobe's "
        "pid namespace, 0: not in it");
  field("scomm", &SignalSent::sender_comm, "hostile text; empty: it had ended before it was read");
  field("scmd", &SignalSent::sender_command, "its first arguments, secrets masked; hostile text");
  field("sender", &SignalSent::sender, "where it is a process of the tree");
  field(
      "ended", &SignalSent::by_ended,
      "Whether the thread that sent it had ended a moment later, and its process had not: a child "
      "that asked for it (PR_SET_PDEATHSIG) is sent it by the end of its parent's thread");
  field("ours", &SignalSent::by_dlprobe, "which passed it on, or ended what it had started");
  field("ip", &SignalSent::code_address, "where the receiver was, if it caused the fault itself");
  field("ipfile", &SignalSent::code_file, "the mapped file with that address; may be empty");
  field("tid", &SignalSent::thread, "the thread that caused the fault itself");
  field("stack", &SignalSent::stack_used,
        "of a main thread that caused SIGSEGV: what it had taken of its stack, whatever of that "
        "there "
        "was",
        Unit::kBytes);
}

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
template <>
struct Names<KernelLogKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"oom-kill", "fault", "memory-error"});
};

/// A line of the kernel's log (/dev/kmsg) that names a process of the tree.
struct KernelLogLine {
  BootNs at = 0;
  KernelLogKind kind = KernelLogKind::kFault;
  ProcessKey process;
  std::string text;
  std::optional<bool> whole_host;
  std::string limited_cgroup;
  std::optional<uint64_t> limit_bytes;
  std::optional<uint64_t> anonymous_bytes;
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> shmem_bytes;

  bool operator==(const KernelLogLine&) const = default;
};
constexpr void list_fields(auto&& field, Of<KernelLogLine> /*of*/) {
  field("at", &KernelLogLine::at, "when the kernel wrote it", Unit::kMoment);
  field("kind", &KernelLogLine::kind, "what it is about");
  field("key", &KernelLogLine::process, "the process that it names");
  field("text", &KernelLogLine::text, "the line; hostile text");
  field("whole_host", &KernelLogLine::whole_host,
        "Of an OOM kill: whether the host ran out, and not a group; nothing where the line does "
        "not say");
  field("limited", &KernelLogLine::limited_cgroup,
        "of an OOM kill: the group whose limit was reached; may be empty");
  field("limit", &KernelLogLine::limit_bytes, "of an OOM kill: that group's limit", Unit::kBytes);
  field("anon", &KernelLogLine::anonymous_bytes, "of an OOM kill: what the killed process had",
        Unit::kBytes);
  field("file", &KernelLogLine::file_bytes, "of an OOM kill: its file pages", Unit::kBytes);
  field("shmem", &KernelLogLine::shmem_bytes, "of an OOM kill: its shared memory", Unit::kBytes);
}

/// Counters of OOM kills, of one memory cgroup or of the whole host. Recorded when first read and
/// whenever one has moved. Cumulative: only differences mean anything.
struct OomCounters {
  BootNs at = 0;
  std::string cgroup;
  uint64_t kills = 0;
  std::optional<uint64_t> limit_hits;
  std::optional<uint64_t> limit_meets;
  std::optional<uint64_t> group_kills;
  std::optional<uint64_t> limit_bytes;

  bool operator==(const OomCounters&) const = default;
};
constexpr void list_fields(auto&& field, Of<OomCounters> /*of*/) {
  field("at", &OomCounters::at, "when they were read", Unit::kMoment);
  field("cgroup", &OomCounters::cgroup,
        "as /proc/PID/cgroup has it; empty: the host (/proc/vmstat)");
  field("kills", &OomCounters::kills,
        "Processes killed in the group, by whichever limit; v2: and in groups below it");
  field("hits", &OomCounters::limit_hits,
        R"(How often the group's own limit left no way out: "oom" of memory.events.local (v2))");
  field("meets", &OomCounters::limit_meets,
        "How often the group's own limit was met (v1: memory.failcnt); page cache does that, too");
  field("group_kills", &OomCounters::group_kills, "memory.oom.group took the whole group (v2)");
  field("limit", &OomCounters::limit_bytes, "of the group itself; none: no limit of its own",
        Unit::kBytes);
}

}  // namespace dlprobe
