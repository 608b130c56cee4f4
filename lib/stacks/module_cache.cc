#include "lib/stacks/module_cache.h"

#include <fmt/format.h>

namespace dlprobe {
namespace {

Expected<UniqueFd> open_mapped(const Directory& process, const Mapping& mapping) {
  const std::string by_path = "root" + mapping.path;
  const auto stat = process.stat(by_path);
  // The device in maps and that of stat differ on btrfs and overlayfs; the inode does not.
  if (stat && stat->inode == mapping.inode) return process.open_file(by_path);
  return process.open_file(fmt::format("map_files/{:x}-{:x}", mapping.begin, mapping.end));
}

}  // namespace

const Expected<std::shared_ptr<const ElfFile>>& ModuleCache::file_of(const Directory& process,
                                                                     const Mapping& mapping) {
  const auto [entry, is_new] = files_.try_emplace(Id(mapping.device, mapping.inode));
  if (is_new && mapping.inode == 0) {
    entry->second = failure(ErrorCode::kNotFound, "open the file of memory without a file");
  } else if (is_new) {
    auto file = open_mapped(process, mapping);
    if (file) {
      entry->second = ElfFile::open(std::move(*file), mapping.path);
    } else {
      entry->second = std::unexpected(std::move(file.error()));
    }
  }
  return entry->second;
}

}  // namespace dlprobe
