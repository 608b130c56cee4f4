#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// What is used of /proc/PID/status. Memory is absent for kernel threads and zombies.
struct PidStatus {
  int32_t tgid = 0;  ///< the process that a thread belongs to; of a process its pid
  int32_t tracer_pid = 0;
  uint32_t uid = 0;                     ///< real
  std::vector<int32_t> namespace_pids;  ///< NSpid, from the reader's namespace inward
  int32_t threads = 0;
  uint64_t signals_caught = 0;         ///< SigCgt: bit N-1 is signal N
  std::optional<uint64_t> swap_bytes;  ///< VmSwap: without swapped shared memory
  std::optional<uint64_t> page_table_bytes;

  bool operator==(const PidStatus&) const = default;
};

/// Refuses a text without its last line (nonvoluntary_ctxt_switches).
Expected<PidStatus> parse_pid_status(std::string_view text);

/// Whether `text`, a whole status file, has that bit (CAP_SYS_PTRACE) in CapEff: what the process
/// may do in its own user namespace.
bool has_capability(std::string_view text, int capability);

}  // namespace dlprobe
