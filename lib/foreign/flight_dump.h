#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A collective or message of a process group, as PyTorch's Flight Recorder has noted it.
struct NotedCollective {
  std::string group;      ///< its name: "0" is torch's default group
  std::string operation;  ///< "nccl:all_reduce", "gloo:all_reduce"
  std::string state;      ///< "scheduled", "started", "completed"
  int64_t sequence = 0;   ///< collective_seq_id: from 1 on in each group; of a message p2p_seq_id
  bool is_message = false;

  bool operator==(const NotedCollective&) const = default;
};

/// What one rank has written: the last collectives of its groups, the oldest first.
struct FlightDump {
  std::string version;  ///< of the format: "2.10"
  std::vector<NotedCollective> collectives;

  bool operator==(const FlightDump&) const = default;
};

/// At most so many bytes of a dump are taken: 2,000 collectives with their stacks are about 1 MiB.
inline constexpr size_t kMostFlightDumpBytes = size_t{64} << 20;

/// A dump in the form of `pickle` (TORCH_FR_DUMP_TEMP_FILE, /tmp/nccl_trace_rank_0). Nothing of it
/// runs: only the opcodes of plain data are known (dict, list, tuple, str, int, float, bool, None),
/// and any other one is kMalformed, as is what has not the layout of a dump.
Expected<FlightDump> parse_flight_dump(std::string_view bytes);

}  // namespace dlprobe
