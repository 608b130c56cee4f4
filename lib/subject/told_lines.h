#pragma once

#include <string_view>

#include "lib/base/error.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// One line of what the shim in an interpreter tells (lib/subject/python_shim/dlprobe_hooks.py): a
/// JSON object. Secrets in its texts are masked. kMalformed for anything else.
Expected<StartEvent> parse_start_event(std::string_view text);

/// One line of the reference loader's progress descriptor as a record: LoaderHello, LoaderBatch,
/// LoaderDone, a StartEvent, or an Event for everything else. kMalformed for what is not such a
/// line.
Expected<Record> parse_progress_line(std::string_view text);

}  // namespace dlprobe
