#include "lib/collect/deaths/mapped_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "lib/proc/mountinfo.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHardlyAnything = 16 * kPage;
constexpr size_t kMostFiles = 4;

bool is_of_data(const Mapping& mapping) {
  return mapping.readable && mapping.path.starts_with('/') && !mapping.path.starts_with("/dev/") &&
         !mapping.path.ends_with(" (deleted)") && !mapping.executable;
}

// What is full and how far; nothing where there is room.
std::optional<Message> fullness_of(const Directory& process, const std::string& path) {
  const auto use = process.mount_use("root" + path);
  if (!use || use->size_bytes == 0) return std::nullopt;
  const uint64_t free = use->size_bytes - std::min(use->size_bytes, use->used_bytes);
  if (free >= kHardlyAnything) return std::nullopt;
  return say("{} is full: {} of {} free", as_path(path), format_bytes(free),
             format_bytes(use->size_bytes));
}

bool may_have_data(const MountEntry& mount) {
  constexpr auto kOthers = std::to_array<std::string_view>({"/dev", "/proc", "/sys"});
  const bool is_other = std::ranges::any_of(
      kOthers, [&](std::string_view folder) { return mount.mount_point.starts_with(folder); });
  return !is_other && mount.super_options.starts_with("rw") && mount.fs_type != "autofs";
}

// A page that is not there yet is made when it is written.
std::optional<Event> without_room(const Directory& process, const Mapping& mapping,
                                  const FileStat& file) {
  if (!mapping.shared || !mapping.writable || file.allocated_bytes >= file.size_bytes)
    return std::nullopt;
  const auto full = fullness_of(process, mapping.path);
  if (!full) return std::nullopt;
  return Event{.kind = "mapped-file-without-room", .text = "the file system of " + *full};
}

std::optional<Event> cut_short(const Mapping& mapping, const FileStat& file) {
  const uint64_t mapped = mapping.offset + (mapping.end - mapping.begin);
  if (mapped < file.size_bytes + kPage) return std::nullopt;
  return Event{.kind = "mapped-file-cut-short",
               .text = say("{} has {}, and {} of it are mapped", as_path(mapping.path),
                           format_bytes(file.size_bytes), format_bytes(mapped))};
}

}  // namespace

std::vector<Event> faulty_mapped_files(const Directory& process, const AddressSpace& space) {
  std::vector<Event> events;
  std::set<std::string_view> told;  // a library is mapped in parts
  for (const Mapping& mapping : space.mappings()) {
    if (!is_of_data(mapping) || events.size() == kMostFiles || told.contains(mapping.path))
      continue;
    const auto file = process.stat("root" + mapping.path);
    if (!file || !S_ISREG(file->mode) || file->inode != mapping.inode) continue;
    auto event = cut_short(mapping, *file);
    if (!event) event = without_room(process, mapping, *file);
    if (!event) continue;
    told.insert(mapping.path);
    events.push_back(std::move(*event));
  }
  return events;
}

std::vector<Event> full_file_systems(const Directory& process) {
  std::vector<Event> events;
  const auto mounts = chain(process.read("mountinfo"), parse_mountinfo);
  if (!mounts) return events;
  std::set<uint64_t> seen;
  for (const MountEntry& mount : *mounts) {
    if (events.size() == kMostFiles || !may_have_data(mount) || !seen.insert(mount.device).second)
      continue;
    if (const auto full = fullness_of(process, mount.mount_point))
      events.push_back({.kind = "file-system-without-room", .text = "the file system at " + *full});
  }
  return events;
}

}  // namespace dlprobe
