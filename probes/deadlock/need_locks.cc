// What a thread needs that waits in a futex.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/need_parts.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/within.h"

namespace dlprobe::probes::deadlock {
namespace {

class FutexNeed : public Waiter {
 public:
  using Waiter::Waiter;

  Need read() const {
    if (!thread_.futex) return {};
    const FutexWait& futex = *thread_.futex;
    switch (futex.kind) {
      case LockKind::kGil:
        return of_gil();
      case LockKind::kJoin:
        return of_join(futex);
      case LockKind::kOpenMpBarrier:
        return of_team(futex);
      case LockKind::kSharedSemaphore:
        return need_of_shared_semaphore(facts_, waiter_);
      default:
        break;
    }
    if (futex.owner_gone || futex.owner_tid.value_or(0) > 0) return of_owned_lock(futex);
    if (auto import = of_import(futex)) return std::move(*import);
    return of_private_word(futex);
  }

 private:
  // "mutex", "threading.RLock".
  OwnWords what_of(const FutexWait& futex) const {
    if (futex.python_type == "_thread.lock") return "threading.Lock";
    if (futex.python_type == "_thread.RLock") return "threading.RLock";
    if (is_buffer_of_file(thread_)) return "lock of a buffered file";
    if (futex.kind == LockKind::kUnknown) return "futex";
    return own(to_string(futex.kind));
  }

  // What runs once, for all that want it: a static object of a C++ function, std::call_once.
  bool is_once() const {
    return std::ranges::any_of(thread_.stack, [](const StackFrame& frame) {
      return frame.function == "__cxa_guard_acquire" || frame.function == "__pthread_once_slow";
    });
  }

  bool is_bare_semaphore_of_python(const FutexWait& futex) const {
    if (futex.kind != LockKind::kSemaphore || is_lock_of_python(waiter_)) return false;
    return std::ranges::any_of(thread_.stack, [](const StackFrame& frame) {
      return frame.function.starts_with("PyThread_acquire_lock");
    });
  }

  // A lock that its owner has signed. The owner of a lock in shared memory may be anywhere.
  Need of_owned_lock(const FutexWait& futex) const {
    const OwnWords what = what_of(futex);
    Need need{.kind = NeedKind::kOwnedLock,
              .object = object_id(what, futex.address),
              .label = what + in_library(),
              .relation = "held by",
              .others_may = futex.timed};
    const bool is_shared = futex.shared && !futex.file.empty();
    if (is_shared)
      need.object = what + " " + own(futex.inode) + "+" + fmt::format("{:#x}", futex.offset);
    for (size_t i = 0; i < facts_.threads.size(); ++i) {
      const ThreadFacts& other = facts_.threads[i];
      const bool may_be = is_shared || other.process == waiter_.process;
      if (may_be && other.thread->tid == futex.owner_tid) need.providers.push_back(i);
    }
    if (need.providers.empty()) {
      need.missing_tid = futex.owner_tid.value_or(0);
      need.words = "a " + what + " whose owner" +
                   (futex.owner_tid ? ", thread " + own(*futex.owner_tid) + "," : "") +
                   (is_shared ? " has ended" : " is not in this process");
      // A namespace of pids of its own, or a process outside of the tree, may hide the owner.
      if (is_shared && !futex.owner_gone) need.others_may = true;
    } else {
      need.words = "a " + what + " held by " + join_names(facts_, need.providers);
    }
    return need;
  }

  // The waits of CPython's own classes for a notification, not for a lock: the innermost function
  // of Python's that waits is threading's (Lib/threading.py, 3.8 to 3.15).
  bool is_notification() const {
    const StackFrame* frame = python_frame(thread_);
    if (frame == nullptr || !is_of_standard_library(frame->file, "threading.py")) return false;
    constexpr std::array<std::string_view, 8> kWaits = {"wait",
                                                        "Condition.wait",
                                                        "join",
                                                        "Thread.join",
                                                        "_wait_for_tstate_lock",
                                                        "Event.wait",
                                                        "_shutdown",
                                                        "Thread._wait_for_tstate_lock"};
    return std::ranges::find(kWaits, frame->function) != kWaits.end();
  }

  std::vector<size_t> others_for(const FutexWait& futex) const {
    std::vector<size_t> others = others_of_the_process();
    if (is_lock_of_python(waiter_) || is_bare_semaphore_of_python(futex))
      std::erase_if(others, [&](size_t each) { return is_beside_the_point(each); });
    // What a client of a manager waits for another client has to do.
    if (answers_for_a_manager(thread_))
      std::erase_if(others, [&](size_t each) {
        return !answers_for_a_manager(*facts_.threads[each].thread);
      });
    // Whatever else of the program is at work, it wakes nobody who waits for a pool.
    if (waits_for_pool(thread_))
      std::erase_if(others,
                    [&](size_t each) { return !hands_on_results(*facts_.threads[each].thread); });
    return others;
  }

  // The lock of a module that the only other thread which imports one is importing.
  std::optional<Need> of_import(const FutexWait& futex) const {
    if (!waits_for_import(thread_)) return std::nullopt;
    std::vector<size_t> others = others_of_the_process();
    std::erase_if(others, [&](size_t each) { return !is_importing(*facts_.threads[each].thread); });
    if (others.size() != 1) return std::nullopt;
    return Need{.kind = NeedKind::kOwnedLock,
                .object = object_id("import lock", futex.address),
                .label = "import lock of a module",
                .words = "a module that " + join_names(facts_, others) + " is importing",
                .relation = "held by",
                .providers = std::move(others),
                .others_may = futex.timed};
  }

  // What it is to be woken for, where Python's own classes tell.
  Message what_it_wants() const {
    if (waits_for_future(thread_)) return "the result of a task (concurrent.futures)";
    if (waits_for_permit(thread_)) return "a threading.Semaphore to be released";
    switch (queue_wait(thread_)) {
      case QueueWait::kItem:
        return "an item of an empty queue.Queue";
      case QueueWait::kRoom:
        return "room in a full queue.Queue";
      case QueueWait::kDone:
        return "the last items of a queue.Queue to be done (join)";
      case QueueWait::kNone:
        break;
    }
    return {};
  }

  // Nobody but the threads of this process can change a private word.
  Need of_private_word(const FutexWait& futex) const {
    Need need{.kind = NeedKind::kLock,
              .object = object_id("lock", futex.address),
              .label = what_of(futex) + in_library(),
              .relation = "released by one of",
              .providers = others_for(futex),
              .others_may = futex.timed};
    const OwnWords what = what_of(futex);
    switch (futex.kind) {
      case LockKind::kCondition:
      case LockKind::kBarrier:
      case LockKind::kUnknown:
        if (!is_once()) need.kind = NeedKind::kNotification;
        break;
      case LockKind::kSemaphore:
      case LockKind::kPythonMutex:
        // Python's own classes without a lock of Python around the semaphore: _queue.SimpleQueue.
        if (is_notification() || is_bare_semaphore_of_python(futex)) {
          need.kind = NeedKind::kNotification;
        }
        break;
      default:
        break;
    }
    const bool in_shared_memory = futex.shared && !futex.file.empty();
    if (in_shared_memory) {
      need.kind = NeedKind::kOutside;
      need.others_may = true;
    }
    if (need.kind == NeedKind::kNotification) {
      need.words = what_it_wants();
      if (!need.words.empty())
        need.label = need.words;
      else
        need.words = "another thread of its process to wake it (" + what + ")";
      need.relation = "woken by one of";
    } else {
      need.words = "a lock (" + what + in_library() + ") that does not say who holds it";
    }
    if (futex.timed) need.words += ", with a timeout";
    return need;
  }

  Need of_gil() const {
    Need need{.kind = NeedKind::kGil,
              .object = "GIL " + own(waiter_.process->key.pid),
              .label = "GIL",
              .words = "the GIL",
              .relation = "held by"};
    if (!waiter_.process->gil_holder) return need;
    const size_t holder = facts_.find(waiter_.process->key, *waiter_.process->gil_holder);
    if (holder == Facts::kNone) return need;
    need.providers = {holder};
    need.words += ", held by " + name_of(facts_, facts_.threads[holder]);
    // It looks again every 5 ms, and gets nowhere while the holder stands.
    need.others_may = false;
    return need;
  }

  Need of_join(const FutexWait& futex) const {
    const OwnWords joined = own(futex.owner_tid.value_or(0));
    Need need{.kind = NeedKind::kJoin,
              .words = "thread " + joined + " to end",
              .relation = "joins",
              .others_may = futex.timed};
    const size_t thread = facts_.find(waiter_.process->key, futex.owner_tid.value_or(0));
    if (thread != Facts::kNone) {
      need.providers = {thread};
    } else {
      need.missing_tid = futex.owner_tid;
    }
    return need;
  }

  Need of_team(const FutexWait& futex) const {
    const std::string library = blamed_library(thread_);
    if (is_pool_thread(thread_, library)) {
      return {.kind = NeedKind::kNotification,
              .words = "work for its thread pool (" + as_path(library) + ")",
              .relation = "woken by one of",
              .providers = others_of_the_process(),
              .others_may = futex.timed};
    }
    Need need{.kind = NeedKind::kTeam,
              .object = object_id("team", futex.address),
              .label = "OpenMP team of " + own(futex.team_size) + " (" + as_path(library) + ")",
              .relation = "needs",
              .others_may = futex.timed};
    for (const size_t other : others_of_the_process())
      if (is_pool_thread(*facts_.threads[other].thread, library)) need.providers.push_back(other);
    need.words =
        "an OpenMP team of " + counted(futex.team_size, "thread") + " in " + as_path(library);
    if (need.providers.size() + 1 < futex.team_size) {
      need.words += ", of which this process has " + own(need.providers.size() + 1);
      need.providers.clear();
    }
    return need;
  }
};

}  // namespace

Need need_of_futex(const Facts& facts, const ThreadFacts& waiter) {
  return FutexNeed(facts, waiter).read();
}

}  // namespace dlprobe::probes::deadlock
