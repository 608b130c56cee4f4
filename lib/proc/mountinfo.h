#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)), octal escapes undone.
struct MountEntry {
  uint64_t device = 0;  ///< as st_dev
  std::string root;     ///< the part of the file system that is mounted here
  std::string mount_point;
  std::string fs_type;
  std::string source;
  std::string super_options;  ///< of the file system: "rw,size=65536k"

  bool operator==(const MountEntry&) const = default;
};

Expected<std::vector<MountEntry>> parse_mountinfo(std::string_view text);

/// The entry on which `path` lies: the longest mount point above it, the last one mounted of
/// equals.
const MountEntry* find_mount(const std::vector<MountEntry>& mounts, std::string_view path);

}  // namespace dlprobe
