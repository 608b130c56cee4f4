#pragma once

#include <string_view>

#include "lib/base/error.h"
#include "lib/model/start_event.h"

namespace dlprobe {

/// One line of what the shim in an interpreter tells (lib/subject/python_shim/dlprobe_hooks.py): a
/// JSON object. Secrets in its texts are masked. kMalformed for anything else.
Expected<StartEvent> parse_start_event(std::string_view text);

}  // namespace dlprobe
