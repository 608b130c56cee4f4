#include "lib/collect/shm/holdings.h"

#include <fmt/format.h>
#include <linux/magic.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>
#include <utility>

#include "lib/proc/maps.h"

namespace dlprobe {
namespace {

using FileId = std::pair<uint64_t, uint64_t>;

void take_stat(HeldFile& file, const FileStat& stat) {
  file.linked = stat.links > 0;
  file.size_bytes = stat.size_bytes;
  file.allocated_bytes = stat.allocated_bytes;
  file.allocated_known = true;
  file.uid = stat.uid;
  file.modified_ns = stat.modified_ns;
}

Status add_descriptors(const Directory& process, const std::set<uint64_t>& devices,
                       std::map<FileId, HeldFile>& files) {
  DLP_TRY(const auto folder, process.open_directory("fd"));  // each further name costs a check
  DLP_TRY(const auto names, folder->list(""));
  for (const std::string& name : names) {
    const auto stat = folder->stat(name);  // a descriptor may be closed by now
    if (!stat || !devices.contains(stat->device)) continue;
    const auto [entry, is_new] = files.try_emplace(FileId(stat->device, stat->inode));
    HeldFile& file = entry->second;
    if (is_new) {
      take_stat(file, *stat);
      file.path = folder->read_link(name).value_or("");
    }
    ++file.fds;
  }
  return {};
}

Status add_mappings(const ProcessAccess& processes, const Directory& process,
                    const std::set<uint64_t>& devices, std::map<FileId, HeldFile>& files) {
  DLP_TRY(const auto mappings, read_shared_mappings(processes, process));
  for (const SharedMapping& mapping : mappings) {
    if (!devices.contains(mapping.device)) continue;
    const auto [entry, is_new] = files.try_emplace(FileId(mapping.device, mapping.inode));
    HeldFile& file = entry->second;
    if (is_new) {
      file.path = mapping.name;
      const auto stat =
          process.stat(fmt::format("map_files/{:x}-{:x}", mapping.begin, mapping.end));
      if (stat) {
        take_stat(file, *stat);
      } else {
        file.linked = !mapping.name.ends_with(" (deleted)");
        file.allocated_known = false;
      }
    }
    if (!file.allocated_known) {
      // Parts of one file may be mapped more than once: the longest is the best lower bound.
      file.size_bytes = std::max(file.size_bytes, mapping.end - mapping.begin);
      file.allocated_bytes = file.size_bytes;
    }
    ++file.maps;
  }
  return {};
}

Expected<std::vector<HeldFile>> read_now(const ProcessAccess& processes, const Directory& process,
                                         const std::set<uint64_t>& devices) {
  std::map<FileId, HeldFile> files;
  DLP_CHECK(add_descriptors(process, devices, files));
  DLP_CHECK(add_mappings(processes, process, devices, files));
  std::vector<HeldFile> held;
  held.reserve(files.size());
  for (auto& [id, file] : files) {
    file.device = id.first;
    file.inode = id.second;
    held.push_back(std::move(file));
  }
  return held;
}

bool is_gone(const Error& error) {
  return error.code == ErrorCode::kVanished || error.code == ErrorCode::kNotFound;
}

Expected<std::vector<HeldFile>> read_shm_of(DeadlineReader& reader, const Machine& machine,
                                            int32_t pid) {
  DLP_TRY(const auto process, machine.root->open_directory(fmt::format("proc/{}", pid)));
  DLP_TRY(const FileStat shm, process->stat("root/dev/shm"));
  DLP_TRY(const MountUse use, process->mount_use("root/dev/shm"));
  // Elsewhere it is a folder of a disk, on which most files are no segments.
  if (use.type_magic != TMPFS_MAGIC) return std::vector<HeldFile>();
  return read_holdings(reader, machine, process, {shm.device}, kPatienceWithHolder);
}

}  // namespace

Expected<std::vector<SharedMapping>> read_shared_mappings(const ProcessAccess& processes,
                                                          const Directory& process) {
  auto mappings = processes.shared_mappings(process);
  if (!mappings && mappings.error().code == ErrorCode::kUnsupported)
    return chain(process.read("maps", kMapsLimit), parse_shared_maps);
  return mappings;
}

Expected<std::vector<HeldFile>> read_holdings(DeadlineReader& reader, const Machine& machine,
                                              const std::shared_ptr<const Directory>& process,
                                              const std::set<uint64_t>& devices,
                                              std::chrono::nanoseconds extra) {
  return reader.run<std::vector<HeldFile>>(
      "look at what " + process->path() + " holds",
      [processes = machine.processes, process, devices] {
        return read_now(*processes, *process, devices);
      },
      extra);
}

Expected<uint64_t> shm_held_by(DeadlineReader& reader, const Machine& machine,
                               std::span<const int32_t> pids) {
  std::map<FileId, uint64_t> bytes;
  for (const int32_t pid : pids) {
    const auto held = read_shm_of(reader, machine, pid);
    if (!held && !is_gone(held.error())) return std::unexpected(held.error());
    if (!held) continue;
    for (const HeldFile& file : *held)
      bytes.insert_or_assign(FileId(file.device, file.inode), file.allocated_bytes);
  }
  const auto sizes = std::views::values(bytes);
  return std::accumulate(sizes.begin(), sizes.end(), uint64_t{0});
}

}  // namespace dlprobe
