#include "lib/collect/tree/cgroup_reader.h"

#include <algorithm>
#include <utility>

#include "lib/proc/cgroup_memory.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/host_memory.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_cgroup.h"

namespace dlprobe {
namespace {

constexpr BootNs kLimitPeriodNs = 1'000'000'000;

}  // namespace

Expected<MemoryCgroup> find_memory_cgroup(const Machine& machine, const Directory& process) {
  DLP_TRY(const std::string groups, process.read("cgroup"));
  DLP_TRY(const auto entries, parse_pid_cgroup(groups));
  const CgroupEntry* entry = controller_cgroup(entries, "memory");
  if (entry == nullptr) return failure(ErrorCode::kNotFound, "no memory cgroup");
  DLP_TRY(const std::string mounts_text, machine.root->read("proc/self/mountinfo"));
  DLP_TRY(const auto mounts, parse_mountinfo(mounts_text));
  const bool unified = entry->hierarchy == 0;
  MemoryCgroup group{
      .version = unified ? 2 : 1, .path = entry->path, .directory = nullptr, .levels = 0};
  for (const CgroupFolder& folder : cgroup_folders(*entry, mounts, "memory")) {
    auto directory = machine.root->open_directory(folder.path);
    if (!directory) continue;
    group.directory = std::move(*directory);
    group.levels = folder.levels;
    break;
  }
  if (group.directory == nullptr) {
    return failure(ErrorCode::kNotFound, "cgroup " + entry->path + " is not mounted here");
  }
  return group;
}

Expected<CgroupReader> CgroupReader::open(const Machine& machine, const Directory& process) {
  DLP_TRY(MemoryCgroup group, find_memory_cgroup(machine, process));
  const bool unified = group.version == 2;
  CgroupReader reader;
  reader.group_ = std::move(group);
  const Directory& directory = *reader.group_.directory;
  DLP_TRY(reader.usage_, directory.keep_file(unified ? "memory.current" : "memory.usage_in_bytes"));
  DLP_TRY(reader.stat_, directory.keep_file("memory.stat"));
  DLP_TRY(reader.events_, directory.keep_file(unified ? "memory.events" : "memory.oom_control"));
  return reader;
}

Observed<CgroupMemory> CgroupReader::read(BootNs now) {
  CgroupMemory memory;
  memory.version = group_.version;
  memory.path = group_.path;
  DLP_TRY(memory.used_bytes, parse_kept(*usage_, parse_cgroup_number));
  DLP_TRY(memory.oom_kills, parse_kept(*events_, parse_cgroup_oom_kills));
  if (group_.version == 1) {
    DLP_CHECK(read_v1(memory));
    return memory;
  }
  if (limit_read_at_ == 0 || now - limit_read_at_ >= kLimitPeriodNs) {
    read_limit_v2();
    read_swap_and_pressure_v2(memory);
    limit_read_at_ = now;
  }
  DLP_CHECK(read_v2(memory));
  return memory;
}

Status CgroupReader::read_v1(CgroupMemory& memory) const {
  DLP_TRY(const CgroupStatV1 stat, parse_kept(*stat_, parse_cgroup_stat_v1));
  memory.shmem_bytes = stat.shmem_bytes;
  memory.limit_bytes = stat.hierarchical_limit;
  memory.anon_bytes = stat.anon_bytes;
  memory.file_bytes = stat.file_bytes;
  memory.swap_bytes = stat.swap_bytes;
  return {};
}

Status CgroupReader::read_v2(CgroupMemory& memory) const {
  DLP_TRY(const CgroupStatV2 stat, parse_kept(*stat_, parse_cgroup_stat_v2));
  memory.shmem_bytes = stat.shmem_bytes;
  memory.anon_bytes = stat.anon_bytes;
  memory.file_bytes = stat.file_bytes;
  memory.limit_bytes = limit_bytes_;
  return {};
}

/// The smallest memory.max from the group up to the mount. The root group has no such file.
void CgroupReader::read_limit_v2() {
  limit_bytes_.reset();
  std::string up;
  for (int level = 0; level <= group_.levels; ++level, up += "../") {
    const auto limit = chain(group_.directory->read(up + "memory.max"), parse_cgroup_limit);
    const uint64_t bytes = limit ? limit->value_or(UINT64_MAX) : UINT64_MAX;
    if (bytes != UINT64_MAX) limit_bytes_ = std::min(limit_bytes_.value_or(bytes), bytes);
  }
}

/// Neither is there in every kernel.
void CgroupReader::read_swap_and_pressure_v2(CgroupMemory& memory) const {
  if (const auto swap = chain(group_.directory->read("memory.swap.current"), parse_cgroup_number))
    memory.swap_bytes = *swap;
  if (const auto pressure = chain(group_.directory->read("memory.pressure"), parse_memory_pressure))
    memory.pressure = *pressure;
}

Observed<HostMemory> read_host_memory(const Directory& root) {
  DLP_TRY(const std::string meminfo, root.read("proc/meminfo"));
  DLP_TRY(HostMemory memory, parse_meminfo(meminfo));
  DLP_TRY(const std::string vmstat, root.read("proc/vmstat"));
  DLP_TRY(memory.oom_kills, parse_vmstat_oom_kills(vmstat));
  if (const auto traffic = parse_vmstat_swap_traffic(vmstat)) {
    memory.swapped_in_pages = traffic->in_pages;
    memory.swapped_out_pages = traffic->out_pages;
  }
  if (const auto pressure = chain(root.read("proc/pressure/memory"), parse_memory_pressure))
    memory.pressure = *pressure;
  return memory;
}

}  // namespace dlprobe
