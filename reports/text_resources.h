#pragma once

#include "reports/text_layout.h"

namespace dlprobe {

/// A row for each process of the last run with the memory it had when last seen, the largest first;
/// then what is left before the nearest limit, and how many workers more that is.
void write_memory(TextPage& page, const Json& report);

/// A row for each process of the last run: its open descriptors by what they lead to, and its
/// limit.
void write_descriptors(TextPage& page, const Json& report);

}  // namespace dlprobe
