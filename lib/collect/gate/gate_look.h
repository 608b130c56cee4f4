#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/model/gate_facts.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What the machine is asked for.
struct GateWish {
  std::string temporary_folder;  ///< TMPDIR, or /tmp
  std::string data_folder;       ///< empty: none was named
  std::vector<ThreadSetting> thread_settings;
  /// How long a folder may keep silent: a network file system whose server is gone never answers.
  std::chrono::nanoseconds patience = std::chrono::seconds(1);
};

/// Reads all of it. What cannot be read says why; nothing is left behind.
GateFacts look_at_gate(const Machine& machine, const GateWish& wish);

}  // namespace dlprobe
