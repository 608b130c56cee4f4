#pragma once

#include <span>
#include <string_view>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// One pure function from a recording to findings and gaps. Probes touch nothing of the machine.
struct Probe {
  std::string_view name;     ///< the subcommand: "shm"
  std::string_view summary;  ///< one line for `dlprobe list` and --help
  Verdict (*examine)(const Recording& recording);
  bool needs_snapshots = false;     ///< of stacks and locks
  bool needs_shared_files = false;  ///< snapshots of shared files alone, which stop nobody
  int watch_of_pid_s = 15;  ///< how long a live process is watched where nobody says; by default
                            ///< two of the 5 s waits of an idle worker: a lost batch
  /// A command is run once under each start method, contained, with dlprobe's shim.
  bool tries_start_methods = false;
};

/// Every probe, in the order of probes.def.
std::span<const Probe* const> all_probes();

/// The probe of that name; null if there is none.
const Probe* find_probe(std::string_view name);

}  // namespace dlprobe
