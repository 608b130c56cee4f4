#pragma once

#include "reports/text_layout.h"

namespace dlprobe {

/// Of `dlprobe tune`: the line of the script as it should be and what it needs, what the limit is,
/// and a row for each setting. Nothing for another report.
void write_tune(TextPage& page, const Json& report);

}  // namespace dlprobe
