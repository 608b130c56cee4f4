#pragma once

#include <optional>
#include <string_view>

#include "lib/model/recording.h"

namespace dlprobe::probes::deadlock {

/// A wait of a trainer's that had a timeout of the program's own, which was over just before the
/// trainer failed: DataLoader(timeout=25). Where no witness tells what it raised, that is why.
struct Patience {
  ProcessKey trainer;
  BootNs timeout = 0;
  BootNs over_at = 0;
  int exit_code = 0;
};

std::optional<Patience> ended_patience(const Run& run, std::string_view machine);

/// A wait of a rank for longer than its default process group lets it, by its memory: NCCL's
/// watchdog has given the group up, and ends the process up to a minute later.
struct GroupEnd {
  BootNs since = 0;  ///< the first look at that wait
  BootNs at = 0;     ///< what ranks did from then on is of that
};

/// The first of them; nothing where that is not told.
std::optional<GroupEnd> ended_group(const Run& run);

/// How far a rank was in its process groups by its memory at that look; null: that is not told.
const FlightRecord* live_record(const TreeSnapshot& snapshot, const ProcessKey& key);

}  // namespace dlprobe::probes::deadlock
