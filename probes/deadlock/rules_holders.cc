#include <algorithm>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

OwnWords owner_field(const ThreadFacts& thread) {
  const LockKind kind = futex_of(thread).kind;
  if (kind == LockKind::kMutex) return "__owner of the pthread_mutex_t";
  if (kind == LockKind::kReadWriteLock) return "__cur_writer of the pthread_rwlock_t";
  return "owner of the lock";
}

// A lock whose owner is a thread that this process does not have.
RootCause missing_owner(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  const OwnWords who = name_of(facts, waiter);
  const int32_t tid = waiter.need.missing_tid.value_or(0);
  // Python's locks name their owner by the address of his pthread, which tells no tid.
  const OwnWords owner = tid > 0 ? own(tid) : "of a pthread that is not here";
  const bool is_copy = is_forked_copy(*facts.run, waiter.process->key);
  const bool is_python = !futex_of(waiter).python_type.empty();
  const FindingCode of_copy =
      is_python ? FindingCode::kPythonLockInherited : FindingCode::kForkInheritedLock;
  Finding finding = finding_about(facts, is_copy ? of_copy : FindingCode::kWaitsForMissingThread,
                                  Confidence::kCertain, waiter);
  const auto home = process_of_thread(facts, tid);
  finding.message = who + " waits for a " + waiter.need.label +
                    (tid > 0 ? " whose owner field says thread " + owner : " that has an owner") +
                    "; ";
  if (is_copy && home) {
    finding.message += "that thread lives in " + describe(*facts.run, *home) +
                       ", not here: fork copied the lock locked";
  } else if (is_copy) {
    finding.message += "that thread does not exist in this process: fork copied the lock locked";
  } else {
    finding.message += "that thread ended without releasing it";
  }
  finding.prove(text_fact("owner_tid", owner, owner_field(waiter), facts.last->at));
  finding.prove(
      count_fact("threads_here", waiter.process->threads.size(), "/proc/PID/task", facts.last->at));
  finding.rule_out("contention",
                   "the owner is no thread of this process, so no thread here can release it");
  if (is_copy) {
    add_remedies_for_fork(finding, facts, waiter);
  } else {
    finding.advise(
        "Always release the lock before the thread ends: RAII, "
        "pthread_cleanup_push, or a robust mutex",
        {}, "dlprobe deadlock --pid PID");
  }
  return {std::move(finding), index};
}

RootCause missing_thread(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  Finding finding =
      finding_about(facts, FindingCode::kWaitsForMissingThread, Confidence::kCertain, waiter);
  finding.message = name_of(facts, waiter) + " joins thread " +
                    own(waiter.need.missing_tid.value_or(0)) +
                    ", which does not exist in this process";
  if (is_forked_copy(*facts.run, waiter.process->key)) {
    finding.message += ": fork did not copy it";
    add_remedies_for_fork(finding, facts, waiter);
  } else {
    finding.advise("Join each thread once, in the process that started it", {},
                   "dlprobe deadlock --pid PID");
  }
  finding.prove(text_fact("joined_tid", own(waiter.need.missing_tid.value_or(0)),
                          "expected value of the futex", facts.last->at));
  return {std::move(finding), index};
}

RootCause dead_holder(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  // A process that dlprobe may not look into is hardly one of those who share it.
  const Confidence confidence =
      facts.last->all_ends_seen ? Confidence::kCertain : Confidence::kLikely;
  Finding finding = finding_about(facts, FindingCode::kLockHolderDead, confidence, waiter);
  const uint64_t inode = futex_of(waiter).inode;
  size_t sharers = 0;
  for (const ProcessSnapshot& process : facts.last->processes) {
    sharers +=
        static_cast<size_t>(std::ranges::count(process.sem_locks, inode, &SemLockState::inode));
  }
  finding.message =
      name_of(facts, waiter) + " waits for a multiprocessing lock that is taken, and " +
      (sharers == 1
           ? "the only living process that shares it did not take it"
           : "none of the " + counted(sharers, "living process") + " that share it took it") +
      ": its holder is dead";
  if (!waiter.doomed) {
    finding.severity = Severity::kWarning;
    finding.confidence = Confidence::kLikely;
    finding.message += "; it waits with a timeout";
  } else if (may_be_saved(facts, waiter)) {
    finding.severity = Severity::kWarning;
    finding.confidence = Confidence::kLikely;
    finding.message += ", unless one of them releases it for the dead one";
  }
  finding.prove(
      count_fact("value", 0, "sem_t in " + as_path(futex_of(waiter).file), facts.last->at));
  finding.prove(count_fact("processes_that_share_it", sharers, "SemLock objects in their memory",
                           facts.last->at));
  finding.prove(
      count_fact("processes_that_hold_it", 0, "count of their SemLock objects", facts.last->at));
  finding.rule_out("contention", "no living process holds the lock");
  finding.advise(
      "Restart the job. Do not kill a process that holds a lock: end workers by a message", {},
      "dlprobe deadlock --pid PID");
  if (waiter.doomed)
    finding.advise("Take it with a timeout: the next death is then an error, not a hang",
                   {"if not lock.acquire(timeout=60): raise RuntimeError('lock holder is gone')"});
  return {std::move(finding), index};
}

// Asked for with timeouts, be it again and again: it was taken at every look, by nobody who lives.
bool is_taken_all_along(const Facts& facts, const ThreadFacts& waiter) {
  constexpr size_t kSeveralLooks = 4;
  const Need& need = waiter.need;
  const bool waits_for_nobody = need.kind == NeedKind::kSharedLock && need.providers.empty() &&
                                (waiter.still || waiter.waits_again);
  const BootNs from = waiter.looks.back().at;
  if (!waits_for_nobody || waiter.looks.size() < kSeveralLooks ||
      waiter.looks.front().at - from < 3 * kSecond)
    return false;
  const uint64_t inode = futex_of(waiter).inode;
  const bool is_shared_outside =
      std::ranges::any_of(facts.last->channel_ends, [&](const ChannelEnd& end) {
        return end.kind == EndKind::kSemaphore && end.inode == inode &&
               !facts.wakers.contains(end.pid);
      });
  const auto is_free_or_held = [&](const SemLockState& state) {
    return state.inode == inode && (state.value != 0 || state.count != 0);
  };
  return !is_shared_outside &&
         std::ranges::none_of(facts.run->snapshots, [&](const TreeSnapshot& tree) {
           return tree.at >= from &&
                  std::ranges::any_of(tree.processes, [&](const ProcessSnapshot& process) {
                    return std::ranges::any_of(process.sem_locks, is_free_or_held);
                  });
         });
}

// A process-shared lock whose owner field names a thread that has ended.
RootCause dead_owner(const Facts& facts, size_t index) {
  const ThreadFacts& waiter = facts.threads[index];
  Finding finding =
      finding_about(facts, FindingCode::kLockHolderDead, Confidence::kCertain, waiter);
  finding.message =
      name_of(facts, waiter) + " waits for " + waiter.need.words + " without releasing it";
  finding.prove(text_fact("owner_tid", own(waiter.need.missing_tid.value_or(0)),
                          owner_field(waiter), facts.last->at));
  finding.prove(
      text_fact("owner", "there is no such thread on this machine", "/proc/TID", facts.last->at));
  finding.advise("Use a robust mutex: it reports that its owner died",
                 {"pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST)"},
                 "dlprobe deadlock --pid PID");
  return {std::move(finding), index};
}

// The same thread has had the GIL at every look.
bool kept_the_gil(const Facts& facts, const ThreadFacts& holder) {
  return std::ranges::all_of(facts.run->snapshots, [&](const TreeSnapshot& tree) {
    if (tree.at < holder.since) return true;
    const auto process =
        std::ranges::find(tree.processes, holder.process->key, &ProcessSnapshot::key);
    return process != tree.processes.end() && process->gil_holder == holder.thread->tid;
  });
}

std::optional<RootCause> gil_holder(const Facts& facts, const ProcessSnapshot& process) {
  if (!process.gil_holder) return std::nullopt;
  const size_t index = facts.find(process.key, *process.gil_holder);
  if (index == Facts::kNone) return std::nullopt;
  const ThreadFacts& holder = facts.threads[index];
  const auto waiters = std::ranges::count_if(facts.threads, [&](const ThreadFacts& each) {
    return each.process == &process && each.need.kind == NeedKind::kGil;
  });
  // Or none wants the GIL, because the main thread waits for its holder already.
  const size_t main = facts.find(process.key, process.key.pid);
  const bool is_waited_for =
      main != Facts::kNone && main != index && way_within(facts, main).back() == index;
  if ((waiters == 0 && !is_waited_for) || !holder.still || !kept_the_gil(facts, holder))
    return std::nullopt;
  Finding finding =
      finding_about(facts, FindingCode::kGilHeldWhileBlocked,
                    holder.doomed ? Confidence::kCertain : Confidence::kLikely, holder);
  // A sleep ends by itself.
  if (holder.need.kind == NeedKind::kNothing) finding.severity = Severity::kWarning;
  finding.message = name_of(facts, holder) + " holds the GIL while it waits for " +
                    holder.need.words + "; " +
                    (waiters == 0 ? name_of(facts, facts.threads[main]) + " waits for it"
                                  : counted(static_cast<uint64_t>(waiters), "other thread") +
                                        " of its process cannot run Python code meanwhile");
  finding.prove(text_fact("gil_holder", own(holder.thread->tid), "last_holder of CPython's GIL",
                          facts.last->at));
  finding.prove(count_fact("threads_that_want_the_gil", static_cast<uint64_t>(waiters),
                           "futex in CPython's GIL", facts.last->at));
  finding.advise("Release the GIL around the waiting native call",
                 {"ctypes.CDLL instead of ctypes.PyDLL", "Py_BEGIN_ALLOW_THREADS (C API)",
                  "py::gil_scoped_release (pybind11)", "with nogil: (Cython)"},
                 "dlprobe deadlock --pid PID");
  return RootCause{std::move(finding), index};
}

}  // namespace

std::vector<RootCause> find_lost_holders(const Facts& facts) {
  std::vector<RootCause> causes;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (!thread.doomed && is_taken_all_along(facts, thread))
      causes.push_back(dead_holder(facts, i));
    if (!thread.doomed || !thread.need.providers.empty()) continue;
    const bool is_shared = futex_of(thread).inode != 0;
    if (thread.need.kind == NeedKind::kOwnedLock && is_shared) {
      causes.push_back(dead_owner(facts, i));
    } else if (thread.need.kind == NeedKind::kOwnedLock && thread.need.missing_tid) {
      causes.push_back(missing_owner(facts, i));
    } else if (thread.need.kind == NeedKind::kJoin && thread.need.missing_tid) {
      causes.push_back(missing_thread(facts, i));
    } else if (thread.need.kind == NeedKind::kSharedLock) {
      causes.push_back(dead_holder(facts, i));
    }
  }
  for (const ProcessSnapshot& process : facts.last->processes)
    if (auto cause = gil_holder(facts, process)) causes.push_back(std::move(*cause));
  return causes;
}

}  // namespace dlprobe::probes::deadlock
