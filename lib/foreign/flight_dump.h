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
  int64_t group_id = 0;   ///< under which GroupStatus has it
  std::string operation;  ///< "nccl:all_reduce", "gloo:all_reduce"
  int64_t sequence = 0;   ///< collective_seq_id: from 1 on in each group; of a message p2p_seq_id
  bool is_message = false;
  bool is_done = false;  ///< by `retired` or `state`: Gloo's stay "scheduled"
  std::string tensors;   ///< that went in: "Float [64, 32]"; of many the first ones
  std::string function;  ///< the innermost frame that is of no library; empty: none
  std::string file;
  int32_t line = 0;
  uint64_t thread = 0;     ///< pthread_self() of who asked for it; 0: not told
  int64_t created_ns = 0;  ///< CLOCK_REALTIME; 0: not told
  int64_t timeout_ms = 0;  ///< after which the group gives up; 0: not told

  bool operator==(const NotedCollective&) const = default;
};

/// How far a rank is in a group; -1: not told.
struct GroupStatus {
  int64_t group_id = 0;
  int64_t enqueued = -1;
  int64_t completed = -1;

  bool operator==(const GroupStatus&) const = default;
};

/// What one rank has written: its last collectives, up to 256, the oldest first.
struct FlightDump {
  std::string version;  ///< of the format: "2.10"
  std::vector<NotedCollective> collectives;
  std::vector<GroupStatus> groups;

  bool operator==(const FlightDump&) const = default;
};

/// At most so many bytes of a dump are taken: 2,000 collectives (TORCH_FR_BUFFER_SIZE) are 260 KiB.
inline constexpr size_t kMostFlightDumpBytes = size_t{4} << 20;

/// A dump in the form of `pickle` (TORCH_FR_DUMP_TEMP_FILE). Nothing of it runs: only the opcodes
/// of plain data are known (dict, list, tuple, str, int, float, bool, None), and any other one is
/// kMalformed, as is what has not the layout of a dump. Its texts are hostile.
Expected<FlightDump> parse_flight_dump(std::string_view bytes);

}  // namespace dlprobe
