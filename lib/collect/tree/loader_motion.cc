#include "lib/collect/tree/loader_motion.h"

#include <algorithm>
#include <utility>

namespace dlprobe {
namespace {

/// In a second, of USER_HZ (100): a process that waits with a timeout needs less.
constexpr uint64_t kIdleTicks = 2;

}  // namespace

void LoaderMotion::update(const ProcessTree& tree, BootNs now) {
  const bool has_workers = std::ranges::any_of(tree.members(), [](const auto& entry) {
    return is_alive(entry.second) && entry.second.info.role == Role::kWorker;
  });
  bool any = last_moved_ == 0;
  std::map<ProcessKey, Seen> before = std::exchange(seen_, {});
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const ProcessSample& sample = process.sample;
    const bool shows_calls = sample.io_calls && *sample.io_calls;
    const Seen now_seen = {.io_calls = shows_calls ? **sample.io_calls : 0,
                           .cpu_ticks = sample.utime_ticks + sample.stime_ticks};
    seen_[key] = now_seen;
    const auto found = before.find(key);
    if (found == before.end()) {
      any = true;  // it is new
      continue;
    }
    const Seen then = found->second;
    before.erase(found);
    if (has_workers && process.info.role != Role::kWorker) continue;
    const bool computed = now_seen.cpu_ticks > then.cpu_ticks + kIdleTicks;
    any = any || !shows_calls || now_seen.io_calls != then.io_calls || (!has_workers && computed);
  }
  if (any || !before.empty()) last_moved_ = now;
  looked_at_ = now;
}

}  // namespace dlprobe
