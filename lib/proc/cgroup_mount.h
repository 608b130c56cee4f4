#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_cgroup.h"

namespace dlprobe {

/// Where a cgroup may be seen as a folder.
struct CgroupFolder {
  std::string path;  ///< from the root of the machine, without a trailing '/'
  int levels = 0;    ///< of groups between the mount and this one; 0: it is the mount itself
};

/// The folders of the group `entry` (of controller_cgroup()) in what is mounted: one for each mount
/// of the hierarchy with that controller that has the group in it. In another container's mount
/// namespace there may be none.
std::vector<CgroupFolder> cgroup_folders(const CgroupEntry& entry,
                                         const std::vector<MountEntry>& mounts,
                                         std::string_view controller);

}  // namespace dlprobe
