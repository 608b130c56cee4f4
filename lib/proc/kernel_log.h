#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/model/death.h"

namespace dlprobe {

/// What one line of the kernel's log says of one process. The pid is of the initial pid namespace.
struct KernelLogEntry {
  KernelLogKind kind = KernelLogKind::kFault;
  int32_t pid = 0;
  std::optional<bool> whole_host;  ///< of an OOM kill
  std::string limited_cgroup;      ///< of an OOM kill: oom_memcg
  std::optional<uint64_t> anonymous_bytes;
  std::optional<uint64_t> file_bytes;
  std::optional<uint64_t> shmem_bytes;
  bool operator==(const KernelLogEntry&) const = default;
};

/// The message of a record of /dev/kmsg ("6,339,5140900,-;MESSAGE\n SUBSYSTEM=..."), without what
/// follows it. kMalformed for anything else.
Expected<std::string> parse_kmsg_record(std::string_view text);

/// The limit, in bytes, that a memory cgroup's OOM kill met: of the message
/// "memory: usage 122880kB, limit 122880kB, failcnt 30" (mem_cgroup_print_oom_meminfo of
/// mm/memcontrol.c), which comes before those that name the group and the victim. Nothing: another
/// message.
std::optional<uint64_t> parse_oom_limit(std::string_view message);

/// Nothing: the message is about no death, or names no process. Messages of mm/oom_kill.c (5.0+ and
/// the older "Kill process"), arch/*/mm/fault.c, arch/x86/kernel/traps.c and mm/memory-failure.c.
std::optional<KernelLogEntry> parse_kernel_message(std::string_view message);

}  // namespace dlprobe
