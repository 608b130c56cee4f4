#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "probes/facts/trend.h"

namespace dlprobe {

/// "44.0 per second", "3.0 per minute".
OwnWords count_rate_text(double per_second);
/// A time ahead in words, however long.
OwnWords time_ahead_text(double seconds);
/// " (seen for 14 s; a filling cache looks the same until it is full)" of what may come to an
/// end yet, where `healthy` is "a filling cache"; else nothing.
OwnWords what_brief_growth_leaves_open(const Growth& growth, const OwnWords& healthy);

/// Of a program that has ended: leaves out its last seconds, where what it ends itself is no fall.
void leave_out_end(const Run& run, std::vector<SeriesPoint>& series);

/// How many more there may be.
struct CountLimit {
  Message name;  ///< "vm.max_map_count (65530)"
  uint64_t left = 0;
  bool has_ended = false;  ///< what grew, by now
};
/// Makes `finding` the warning of a count that grows: adds to its message how fast, and when the
/// limit is reached; proves it by `source`. `healthy` as above.
void tell_count_growth(Finding& finding, const Growth& growth, const Message& source,
                       const std::optional<CountLimit>& limit, const OwnWords& healthy);

}  // namespace dlprobe
