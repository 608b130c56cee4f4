#pragma once

#include <string>
#include <string_view>

namespace dlprobe {

/// `text` made safe for a terminal and a log: valid UTF-8 stays, everything that could act on a
/// terminal or turn the text around is shown as an escape: control characters (C0, DEL, C1) as
/// \x1b, bidirectional and other invisible format characters as \u{202e}, invalid bytes as \xff.
std::string escape_for_terminal(std::string_view text);

}  // namespace dlprobe
