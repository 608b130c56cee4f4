// What a thread needs that waits in a semaphore of multiprocessing.

#include <algorithm>
#include <utility>

#include "probes/deadlock/need_parts.h"
#include "probes/deadlock/within.h"

namespace dlprobe::probes::deadlock {
namespace {

class SharedNeed : public Waiter {
 public:
  using Waiter::Waiter;

  Need read() const {
    if (!thread_.futex) return {};
    const FutexWait& futex = *thread_.futex;
    if (is_of_a_library(futex.inode)) return of_library(futex);
    SharedState shared = shared_state(futex.inode);
    Need need{.kind = NeedKind::kSharedCount,
              .object = "semaphore " + own(futex.inode),
              .label = "multiprocessing semaphore " + own(futex.inode),
              .words = what_for(),
              .relation = "released by one of",
              .others_may = futex.timed || is_shared_outside(futex.inode, false)};
    if (!shared.known) {
      need.others_may = true;
      need.words = "a multiprocessing semaphore whose state could not be read";
      return need;
    }
    if (!shared.is_lock) {
      need.providers = std::move(shared.sharers);
      return need;
    }
    need.label = "multiprocessing lock " + own(futex.inode);
    need.relation = "held by";
    need.providers = std::move(shared.holders);
    if (!shared.recursive) need.savers = std::move(shared.others);
    if (need.providers.empty() && is_shared_outside(futex.inode, true)) {
      need.words = "a multiprocessing lock that another orphan may hold";
      return need;
    }
    need.kind = NeedKind::kSharedLock;
    need.words = need.providers.empty()
                     ? "a multiprocessing lock that no living process holds"
                     : "a multiprocessing lock held by " + join_names(facts_, need.providers);
    return need;
  }

 private:
  // No SemLock of Python's: made by sem_open or sem_init, in code that the program calls.
  bool is_of_a_library(uint64_t inode) const {
    return !blamed_library(thread_).empty() && !is_lock_of_python(waiter_) &&
           std::ranges::none_of(facts_.last->processes, [&](const ProcessSnapshot& process) {
             return std::ranges::count(process.sem_locks, inode, &SemLockState::inode) > 0;
           });
  }

  // Whoever has mapped it may post it.
  Need of_library(const FutexWait& futex) const {
    Need need{.kind = NeedKind::kSharedCount,
              .object = "semaphore " + own(futex.inode),
              .label = "semaphore " + as_path(futex.file),
              .words = "the semaphore " + as_path(futex.file) + in_library(),
              .relation = "released by one of",
              .others_may = futex.timed || is_shared_outside(futex.inode, false) ||
                            is_shared_outside(futex.inode, true)};
    bool is_mapping_seen = false;
    for (const ChannelEnd& end : facts_.last->channel_ends) {
      if (end.kind != EndKind::kSemaphore || end.inode != futex.inode) continue;
      is_mapping_seen = true;
      for (const size_t each : threads_of(end.pid))
        if (facts_.threads[each].thread != &thread_) need.providers.push_back(each);
    }
    need.others_may = need.others_may || !is_mapping_seen;
    return need;
  }

  /// What all processes that share a semaphore tell of it.
  struct SharedState {
    std::vector<size_t> sharers;
    std::vector<size_t> holders;  ///< who has acquired it
    std::vector<size_t> others;   ///< main threads of those who share it and have not
    bool known = false;           ///< the waiter's own count, and each holder's thread
    bool is_lock = true;
    bool recursive = false;  ///< an RLock: its owner alone may release it
  };

  // By the class of Python's in which it waits. A barrier is threading's, with shared parts.
  OwnWords what_for() const {
    if (waits_for_room(waiter_)) return "room in a full multiprocessing.Queue";
    if (waits_for_items_done(waiter_)) return "the items of a JoinableQueue to be done";
    const ptrdiff_t deep = waits_in_synchronize(waiter_);
    if (waits_at_barrier(thread_)) return "the other parties of a multiprocessing.Barrier";
    if (deep > 1) return "a multiprocessing.Event to be set";
    return deep == 1 ? "a notification of a multiprocessing.Condition"
                     : "a multiprocessing semaphore";
  }

  void add_other(const ProcessSnapshot& process, SharedState& shared) const {
    const size_t main_thread = facts_.find(process.key, process.key.pid);
    if (&process == waiter_.process || main_thread == Facts::kNone) return;
    shared.others.push_back(main_thread);
  }

  SharedState shared_state(uint64_t inode) const {
    SharedState shared{.is_lock = !waits_for_room(waiter_)};
    bool holders_known = true;
    for (const ProcessSnapshot& process : facts_.last->processes) {
      const auto state = std::ranges::find(process.sem_locks, inode, &SemLockState::inode);
      if (state == process.sem_locks.end()) continue;
      shared.known = shared.known || &process == waiter_.process;
      shared.is_lock = shared.is_lock && state->max_value == 1 && state->count >= 0;
      for (const size_t each : threads_of(process.key.pid))
        if (facts_.threads[each].thread != &thread_) shared.sharers.push_back(each);
      shared.recursive = shared.recursive || state->recursive;
      if (state->count <= 0) {
        add_other(process, shared);
        continue;
      }
      const size_t holder = facts_.find(process.key, state->last_tid.value_or(process.key.pid));
      holders_known = holders_known && holder != Facts::kNone;
      if (holder != Facts::kNone) shared.holders.push_back(holder);
    }
    shared.known = shared.known && holders_known;
    return shared;
  }

  // Whether a process outside of the tree shares the semaphore; of orphaned siblings it is asked
  // apart.
  bool is_shared_outside(uint64_t inode, bool by_siblings) const {
    return std::ranges::any_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
      return end.kind == EndKind::kSemaphore && end.inode == inode &&
             end.orphaned_sibling == by_siblings && threads_of(end.pid).empty();
    });
  }
};

}  // namespace

Need need_of_shared_semaphore(const Facts& facts, const ThreadFacts& waiter) {
  return SharedNeed(facts, waiter).read();
}

}  // namespace dlprobe::probes::deadlock
