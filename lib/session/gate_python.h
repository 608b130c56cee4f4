#pragma once

#include <optional>
#include <string>

#include "lib/model/gate_facts.h"
#include "lib/os/host_facts.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Which interpreter a gate looks at.
struct PythonWish {
  std::string command;    ///< a path, or a name that PATH leads to
  bool is_named = false;  ///< by the user; else it may not be there
  bool imports = false;   ///< try real imports, too
};

/// Asks the interpreter where its packages are, and reads these; nothing where nobody named one and
/// PATH has none. What is not done by `end` says so.
std::optional<PythonFacts> look_at_python(const Machine& machine,
                                          const EnvironmentLookup& environment,
                                          const PythonWish& wish, BootNs end);

}  // namespace dlprobe
