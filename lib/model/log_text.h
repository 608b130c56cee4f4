#pragma once

#include <span>
#include <string_view>

#include "lib/model/finding.h"

namespace dlprobe {

/// The kind of the Event that holds a line which the job printed.
inline constexpr std::string_view kLogLine = "log-line";

/// A text that PyTorch or CPython prints when a loader fails, and which findings it bears out. It
/// is never the reason for a finding: anybody may print anything.
struct KnownText {
  std::string_view text;  ///< a part of the line
  std::span<const FindingCode> codes;
};

/// The first known text that is in `line`; null if there is none.
const KnownText* find_known_text(std::string_view line);

}  // namespace dlprobe
