#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// Where one field of a tracepoint's record is.
struct TracepointField {
  std::string name;
  size_t offset = 0;
  size_t size = 0;
  bool operator==(const TracepointField&) const = default;
};

/// events/SYSTEM/NAME/format of tracefs.
struct TracepointFormat {
  uint64_t id = 0;  ///< what perf_event_open(2) wants to have
  std::vector<TracepointField> fields;

  /// The field of that name; null if the kernel's tracepoint has none.
  const TracepointField* find(std::string_view name) const;
  bool operator==(const TracepointFormat&) const = default;
};

/// kMalformed unless it has an id and each field its place.
Expected<TracepointFormat> parse_tracepoint_format(std::string_view text);

}  // namespace dlprobe
