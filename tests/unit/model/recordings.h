#pragma once

#include <vector>

#include "lib/model/recording.h"

namespace dlprobe::testing {

/// A header with every field filled.
RecordingHeader filled_header();

/// One record of every kind with every field filled, and one of each with its optionals absent and
/// its observations failed; hostile names among them. Begins with a RunBegin and ends with a
/// RunEnd.
std::vector<Record> filled_records();

}  // namespace dlprobe::testing
