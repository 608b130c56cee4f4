#include "lib/collect/tree/loader_motion.h"

#include <algorithm>
#include <utility>

namespace dlprobe {
namespace {

/// In a second, of USER_HZ (100): a process that waits with a timeout needs less.
constexpr uint64_t kIdleTicks = 2;

}  // namespace

/// A rank may compute for ever while it waits: MPI polls.
bool LoaderMotion::has_moved(const TrackedProcess& process, const Seen& then, const Seen& now) {
  const bool computed = now.cpu_ticks > then.cpu_ticks + kIdleTicks;
  const bool may_poll = process.info.role == Role::kWorker || process.info.rank;
  return !now.shows_calls || now.io_calls != then.io_calls || (computed && !may_poll);
}

void LoaderMotion::update(const ProcessTree& tree, BootNs now) {
  const auto has = [&](Role role) {
    return std::ranges::any_of(tree.members(), [role](const auto& entry) {
      return is_alive(entry.second) && entry.second.info.role == role;
    });
  };
  const bool has_loader = has(Role::kWorker);
  const bool has_both = has_loader && has(Role::kTrainer);
  bool all = last_moved() == 0;  // whatever there is
  bool maker = false;
  bool taker = false;
  std::map<ProcessKey, Seen> before = std::exchange(seen_, {});
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const ProcessSample& sample = process.sample;
    const bool shows_calls = sample.io_calls && *sample.io_calls;
    const Seen seen = {.shows_calls = shows_calls,
                       .io_calls = shows_calls ? **sample.io_calls : 0,
                       .cpu_ticks = sample.utime_ticks + sample.stime_ticks};
    seen_[key] = seen;
    const auto then = before.find(key);
    if (then == before.end()) {
      all = true;  // it is new
      continue;
    }
    const bool moved = has_moved(process, then->second, seen);
    before.erase(then);
    maker = maker || (moved && (!has_loader || process.info.role == Role::kWorker));
    taker = taker || (moved && process.info.role == Role::kTrainer);
  }
  all = all || !before.empty();
  if (all || maker) makers_moved_ = now;
  if (all || taker || !has_both) takers_moved_ = now;
  looked_at_ = now;
}

}  // namespace dlprobe
