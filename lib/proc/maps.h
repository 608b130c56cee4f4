#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/os/process_access.h"

namespace dlprobe {

/// At most so much of a maps file is read: the text of the 65 530 mappings that the kernel allows
/// by default (vm.max_map_count) takes about 8 MiB.
inline constexpr size_t kMapsLimit = size_t{64} << 20;

/// A line of /proc/PID/maps.
struct Mapping {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t offset = 0;  ///< into the file
  bool readable = false;
  bool writable = false;
  bool executable = false;
  bool shared = false;
  uint64_t device = 0;  ///< as st_dev; 0 for anonymous memory, as inode
  uint64_t inode = 0;
  std::string path;  ///< of a file, as the kernel writes it; else "", "[heap]", "[vdso]" ...

  bool operator==(const Mapping&) const = default;
};

/// Every mapping, in address order.
Expected<std::vector<Mapping>> parse_maps(std::string_view text);

/// The shared mappings of files; every other line is checked, too, but left out.
Expected<std::vector<SharedMapping>> parse_shared_maps(std::string_view text);

}  // namespace dlprobe
