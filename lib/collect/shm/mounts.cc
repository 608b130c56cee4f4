#include "lib/collect/shm/mounts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "lib/proc/mountinfo.h"

namespace dlprobe {
namespace {

constexpr std::string_view kShm = "/dev/shm";

/// What mountinfo says of the /dev/shm with that device.
void describe(ShmMount& mount, const Directory& process) {
  const auto mounts = chain(process.read("mountinfo"), parse_mountinfo);
  if (!mounts) return;
  const MountEntry* entry = find_mount(*mounts, kShm);
  if (entry == nullptr) return;
  mount.mount_point = entry->mount_point;
  mount.fs_type = entry->fs_type;
  mount.options = entry->super_options;
}

}  // namespace

std::vector<ShmMount> ShmMounts::update(const ProcessTree& tree, bool again) {
  std::vector<ShmMount> found;
  std::set<uint64_t> looked_at;
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    if (!process.info.mount_namespace) {
      if (mounts_.empty()) look_at_own(process, found);
      continue;
    }
    const uint64_t mount_namespace = *process.info.mount_namespace;
    if (!again && device_of_namespace(mount_namespace) != 0) continue;
    if (!looked_at.insert(mount_namespace).second) continue;
    look_through(process, mount_namespace, found);
  }
  return found;
}

void ShmMounts::look_through(const TrackedProcess& process, uint64_t mount_namespace,
                             std::vector<ShmMount>& found) {
  const std::string path = "root/dev/shm";
  const auto stat = process.directory->stat(path);
  if (!stat) {
    // A process that is on its way out has no root any more, though its stat can still be read.
    const auto root = process.directory->stat("root/.");
    const bool is_going = !root && root.error().code != ErrorCode::kForbidden;
    if (!is_going) errors_.push_back(stat.error());
    return;
  }
  std::erase_if(seen_, [&](const Seen& seen) { return seen.mount_namespace == mount_namespace; });
  seen_.push_back({.mount_namespace = mount_namespace, .device = stat->device});
  const bool known = std::ranges::any_of(mounts_, [&stat](const WatchedMount& watched) {
    return watched.mount.device == stat->device;
  });
  if (known) return;
  auto directory = process.directory->open_directory(path);
  if (!directory) {
    errors_.push_back(directory.error());
    return;
  }
  ShmMount mount{.device = stat->device,
                 .mount_namespace = mount_namespace,
                 .seen_through = process.key,
                 .mount_point = std::string(kShm)};
  describe(mount, *process.directory);
  found.push_back(mount);
  mounts_.push_back({.mount = std::move(mount), .directory = std::move(*directory)});
}

/// Its namespace may not be looked at (another user's process), but its mountinfo may: if that
/// names the same file system as dlprobe's own /dev/shm, that one will do.
void ShmMounts::look_at_own(const TrackedProcess& process, std::vector<ShmMount>& found) {
  const auto mounts = chain(process.directory->read("mountinfo"), parse_mountinfo);
  if (!mounts) {
    errors_.push_back(mounts.error());
    return;
  }
  const MountEntry* entry = find_mount(*mounts, kShm);
  const auto own = machine_.root->stat(kShm);
  if (entry == nullptr || !own || own->device != entry->device) {
    errors_.push_back(process.info.mount_namespace.error());
    return;
  }
  auto directory = machine_.root->open_directory(kShm);
  if (!directory) {
    errors_.push_back(directory.error());
    return;
  }
  ShmMount mount{.device = own->device,
                 .mount_namespace = 0,
                 .mount_point = entry->mount_point,
                 .fs_type = entry->fs_type,
                 .options = entry->super_options};
  found.push_back(mount);
  mounts_.push_back({.mount = std::move(mount), .directory = std::move(*directory)});
}

Observed<ShmUse> ShmMounts::use(const WatchedMount& watched) const {
  DLP_TRY(const MountUse use, watched.directory->mount_use(""));
  return ShmUse{.at = machine_.clock->now(),
                .device = watched.mount.device,
                .size_bytes = use.size_bytes,
                .used_bytes = use.used_bytes,
                .inodes = use.inodes,
                .inodes_used = use.inodes_used};
}

uint64_t ShmMounts::device_of_namespace(uint64_t mount_namespace) const {
  const auto found = std::ranges::find(seen_, mount_namespace, &Seen::mount_namespace);
  return found == seen_.end() ? 0 : found->device;
}

}  // namespace dlprobe
