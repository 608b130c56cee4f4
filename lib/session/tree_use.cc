#include "lib/session/tree_use.h"

#include <algorithm>

namespace dlprobe {

void TreeUse::take(const ProcessInfo& info) {
  roles_[info.key] = info.role;
}

void TreeUse::take(const Sample& sample) {
  living_.clear();
  uint64_t sum = 0;
  bool is_whole = true;
  for (const ProcessSample& process : sample.processes) {
    if (process.state == 'Z') continue;
    living_.push_back(process.key);
    if (process.pss_bytes && *process.pss_bytes) pss_[process.key] = **process.pss_bytes;
    if (process.fd_count && *process.fd_count)
      fds_ = std::max(fds_.value_or(0), **process.fd_count);
    const auto pss = pss_.find(process.key);
    is_whole = is_whole && pss != pss_.end();
    sum += pss == pss_.end() ? 0 : pss->second;
  }
  if (is_whole && !living_.empty()) memory_bytes_ = std::max(memory_bytes_.value_or(0), sum);
  uint64_t used = 0;
  for (const Observed<ShmUse>& use : sample.shm)
    used += use ? use->used_bytes : 0;
  if (sample.shm.empty()) return;
  if (!shm_before_) shm_before_ = used;
  shm_most_ = std::max(shm_most_.value_or(0), used);
}

void TreeUse::put(SpeedMeasurement& speed) const {
  speed.memory_bytes = memory_bytes_;
  speed.fds = fds_;
  for (const auto& [key, bytes] : pss_) {
    const auto role = roles_.find(key);
    if (role != roles_.end() && role->second == Role::kWorker)
      speed.worker_memory_bytes = std::max(speed.worker_memory_bytes.value_or(0), bytes);
  }
  if (shm_before_ && shm_most_) speed.shm_bytes = *shm_most_ - std::min(*shm_before_, *shm_most_);
  for (ProcessCpu& process : speed.processes) {
    const auto role = roles_.find(process.key);
    if (role != roles_.end()) process.role = role->second;
  }
}

}  // namespace dlprobe
