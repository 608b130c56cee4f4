#pragma once

#include "reports/text_layout.h"

namespace dlprobe {

/// What could not be seen, and for want of it not be said. Those that differ in numbers alone (one
/// for each of many processes) are said once with their count; what the verdict rests on comes
/// first; without -v the rest is bounded.
void write_limitations(TextPage& page, const Json& document);

}  // namespace dlprobe
