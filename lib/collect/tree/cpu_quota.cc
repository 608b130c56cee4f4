#include "lib/collect/tree/cpu_quota.h"

#include "lib/proc/cgroup_cpu.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_cgroup.h"

namespace dlprobe {
namespace {

Expected<std::optional<double>> read_level(const Directory& group, const std::string& up,
                                           bool unified) {
  if (unified) {
    DLP_TRY(const std::string text, group.read(up + "cpu.max"));
    return parse_cpu_max(text);
  }
  DLP_TRY(const std::string quota, group.read(up + "cpu.cfs_quota_us"));
  DLP_TRY(const std::string period, group.read(up + "cpu.cfs_period_us"));
  return parse_cpu_quota_v1(quota, period);
}

}  // namespace

Expected<std::optional<CpuQuota>> read_cpu_quota(const Machine& machine) {
  DLP_TRY(const std::string groups, machine.root->read("proc/self/cgroup"));
  DLP_TRY(const auto entries, parse_pid_cgroup(groups));
  const CgroupEntry* entry = controller_cgroup(entries, "cpu");
  if (entry == nullptr) return std::optional<CpuQuota>();
  DLP_TRY(const std::string mounts_text, machine.root->read("proc/self/mountinfo"));
  DLP_TRY(const auto mounts, parse_mountinfo(mounts_text));
  const bool unified = entry->hierarchy == 0;
  std::optional<CpuQuota> least;
  for (const CgroupFolder& folder : cgroup_folders(*entry, mounts, "cpu")) {
    const auto directory = machine.root->open_directory(folder.path);
    if (!directory) continue;
    std::string up;
    for (int level = 0; level <= folder.levels; ++level, up += "../") {
      // The root group has no such file.
      const auto read = read_level(**directory, up, unified);
      const std::optional<double> quota = read.value_or(std::nullopt);
      if (!quota || (least && *quota >= least->cpus)) continue;
      least = CpuQuota{
          .cpus = *quota,
          .source = join_path(**directory, up + (unified ? "cpu.max" : "cpu.cfs_quota_us"))};
    }
    break;
  }
  return least;
}

}  // namespace dlprobe
