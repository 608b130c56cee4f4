#pragma once

#include <optional>
#include <string_view>

#include "lib/model/start_event.h"

namespace dlprobe {

/// What a process has written that crashed: "PID START_TICKS", and then what CPython's faulthandler
/// says. StartEventKind::kCrashed without a moment; nothing where it says nothing (yet).
std::optional<StartEvent> parse_crash(std::string_view text);

}  // namespace dlprobe
