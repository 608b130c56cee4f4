#pragma once

#include <vector>

#include "lib/model/recording.h"

namespace dlprobe::testing {

/// A header with every field filled.
RecordingHeader filled_header();

/// Of every kind of record three: every field filled, as it is by default, and its observations
/// failed; hostile names among them. The first three begin a run, the last three end it.
std::vector<Record> filled_records();

}  // namespace dlprobe::testing
