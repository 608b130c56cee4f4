#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A line of /proc/PID/maps that maps a file shared.
struct MapsEntry {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t device = 0;  ///< as st_dev
  uint64_t inode = 0;
  std::string path;  ///< as the kernel writes it: newlines as \012, " (deleted)" at the end

  bool operator==(const MapsEntry&) const = default;
};

/// The shared mappings of files; every other line is checked, too, but left out.
Expected<std::vector<MapsEntry>> parse_shared_maps(std::string_view text);

}  // namespace dlprobe
