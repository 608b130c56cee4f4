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

}  // namespace dlprobe::probes::deadlock
