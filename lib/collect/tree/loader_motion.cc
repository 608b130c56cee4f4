#include "lib/collect/tree/loader_motion.h"

#include <algorithm>
#include <utility>

namespace dlprobe {
namespace {

/// In a second, of USER_HZ (100): a process that waits with a timeout needs less.
constexpr uint64_t kIdleTicks = 2;
/// One that asks a store 100 times a second needs 3.
constexpr uint64_t kPollTicks = 10;

/// Of a tree without workers all but its launcher, which asks how its children are.
bool makes_batches(Role role, bool has_loader) {
  return has_loader ? role == Role::kWorker : role != Role::kLauncher;
}

}  // namespace

/// Whatever it computes: one that waits in NCCL asks its GPU all the time.
void LoaderMotion::note_idle(const TrackedProcess& process, const Seen& then, Seen& now) {
  const bool is_idle = now.shows_calls && now.io_calls == then.io_calls;
  if (is_idle) now.idle_since = then.idle_since;
  if (process.info.rank && process.info.role == Role::kTrainer)
    rank_idle_since_ = std::min(rank_idle_since_, now.idle_since);
}

/// While a rank waits it may compute all the time (MPI polls), or make calls all the time (torch
/// asks its store whether the others have come): one that goes on does both. Calls of other threads
/// than the main one may be a heartbeat's, or those of a manager that answers who asks again.
bool LoaderMotion::has_moved(const TrackedProcess& process, const Seen& then, const Seen& now) {
  if (!now.shows_calls) return true;
  const bool called = now.io_calls != then.io_calls;
  const uint64_t ticks = now.cpu_ticks - std::min(then.cpu_ticks, now.cpu_ticks);
  const bool by_main = called && (!now.main_calls || now.main_calls != then.main_calls);
  if (process.info.role == Role::kWorker) return by_main || (called && ticks > kPollTicks);
  return process.info.rank ? called && ticks > kPollTicks : by_main || ticks > kIdleTicks;
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
  rank_idle_since_ = now;
  std::map<ProcessKey, Seen> before = std::exchange(seen_, {});
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const ProcessSample& sample = process.sample;
    const bool shows_calls = sample.io_calls && *sample.io_calls;
    Seen& seen = seen_[key];
    seen = {.shows_calls = shows_calls,
            .io_calls = shows_calls ? **sample.io_calls : 0,
            .main_calls = process.main_calls,
            .cpu_ticks = sample.utime_ticks + sample.stime_ticks,
            .idle_since = now};
    const auto then = before.find(key);
    if (then == before.end()) {
      all = true;  // it is new
      continue;
    }
    const bool moved = has_moved(process, then->second, seen);
    note_idle(process, then->second, seen);
    before.erase(then);
    maker = maker || (moved && makes_batches(process.info.role, has_loader));
    taker = taker || (moved && process.info.role == Role::kTrainer);
  }
  all = all || !before.empty();
  if (all || maker) makers_moved_ = now;
  if (all || taker || !has_both) takers_moved_ = now;
  looked_at_ = now;
}

}  // namespace dlprobe
