#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/start_event.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What the text of a Python command's program says: one event of kind kRead, then those of kind
/// kForeseen. Nothing of the program is run: the interpreter of the command runs read_script.py
/// alone, isolated (-I -S), and is ended after 20 s (kTimeout).
///
/// kUnsupported, kInvalid: no Python command, or a program that cannot be read, in a sentence for
/// people. kNotFound, kForbidden: the interpreter cannot be started.
Expected<std::vector<StartEvent>> read_script(const std::vector<std::string>& argv,
                                              const Machine& machine);

}  // namespace dlprobe
