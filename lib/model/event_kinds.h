#pragma once

#include <string_view>

namespace dlprobe {

/// Event::kind of the moment from which dlprobe ends what it started: a reference loader whose time
/// is up, a command that hangs. Deaths after it are of dlprobe's doing.
inline constexpr std::string_view kEndingBegan = "ending-began";

}  // namespace dlprobe
