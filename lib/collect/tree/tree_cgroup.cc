#include "lib/collect/tree/tree_cgroup.h"

namespace dlprobe {

void TreeCgroup::find(const ProcessTree& tree) {
  const TrackedProcess* best = nullptr;
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const bool better = best == nullptr ||
                        (process.info.role == Role::kTrainer && best->info.role != Role::kTrainer);
    if (better) best = &process;
  }
  if (best == nullptr || !best->info.cgroup || *best->info.cgroup == path_) return;
  path_ = *best->info.cgroup;
  reader_.reset();
  auto reader = CgroupReader::open(machine_, *best->directory);
  if (reader) {
    reader_.emplace(std::move(*reader));
    return;
  }
  gaps_.add({.what = "memory of cgroup " + as_path(path_),
             .why = as_text(to_string(reader.error())),
             .effect = "dlprobe cannot tell whether the group's memory limit was reached",
             .remedy = "run dlprobe where /sys/fs/cgroup is mounted"});
}

std::optional<Observed<CgroupMemory>> TreeCgroup::read(BootNs now) {
  if (!reader_) return std::nullopt;
  return reader_->read(now);
}

}  // namespace dlprobe
