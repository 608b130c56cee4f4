#include "lib/proc/cgroup_mount.h"

#include <algorithm>
#include <optional>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

bool has_controller(const MountEntry& mount, bool unified, std::string_view controller) {
  if (unified) return mount.fs_type == "cgroup2";
  if (mount.fs_type != "cgroup") return false;
  const auto options = split(mount.super_options, ',');
  return std::ranges::find(options, controller) != options.end();
}

/// `path` below what is mounted: with `root` "/docker/abc" mounted, "/docker/abc/x" is "/x".
std::optional<std::string> below_mount(std::string_view path, std::string_view root) {
  if (root == "/") return std::string(path);
  if (!path.starts_with(root)) return std::nullopt;
  path.remove_prefix(root.size());
  if (!path.empty() && path.front() != '/') return std::nullopt;
  return std::string(path);
}

}  // namespace

std::vector<CgroupFolder> cgroup_folders(const CgroupEntry& entry,
                                         const std::vector<MountEntry>& mounts,
                                         std::string_view controller) {
  std::vector<CgroupFolder> folders;
  for (const MountEntry& mount : mounts) {
    if (!has_controller(mount, entry.hierarchy == 0, controller)) continue;
    const auto below = below_mount(entry.path, mount.root);
    if (!below) continue;
    CgroupFolder folder{.path = mount.mount_point, .levels = 0};
    for (const std::string_view part : split(*below, '/')) {
      if (part.empty()) continue;
      folder.path += "/" + std::string(part);
      ++folder.levels;
    }
    folders.push_back(std::move(folder));
  }
  return folders;
}

}  // namespace dlprobe
