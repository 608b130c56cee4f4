#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock_facts.h"
#include "probes/facts.h"
#include "probes/waits.h"

namespace dlprobe {
namespace {

std::string hex(uint64_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (; value != 0; value >>= 4U)
    text.insert(text.begin(), kDigits[value & 0xFU]);
  return "0x" + (text.empty() ? "0" : text);
}

// The server of Lib/multiprocessing/resource_sharer.py, which a process starts with the first
// tensor that it sends: it duplicates descriptors for its clients, and wakes nobody here.
bool only_hands_out_descriptors(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && frame.file.ends_with("/multiprocessing/resource_sharer.py");
  });
}

class NeedReader {
 public:
  NeedReader(const DeadlockFacts& facts, const ThreadFacts& waiter)
      : facts_(facts), waiter_(waiter), thread_(*waiter.thread) {}

  Need read() const {
    if (thread_.state == 'T' || thread_.state == 't') {
      return {.kind = NeedKind::kContinue,
              .words = "SIGCONT: it is stopped (state " + std::string(1, thread_.state) + ")",
              .others_may = false};
    }
    if (thread_.state == 'D' && kind_of(thread_.wait, facts_.machine) == WaitKind::kVfork) {
      return {.kind = NeedKind::kOutside,
              .words = "its new child to call execve or to end (vfork)"};
    }
    if (thread_.state == 'D') return of_storage();
    if (thread_.state == 'Z') {
      return {.kind = NeedKind::kOutside, .words = "nothing: it has ended, without its process"};
    }
    if (thread_.wait.running) return {.kind = NeedKind::kNothing, .words = {}};
    if (thread_.futex) return of_futex(*thread_.futex);
    switch (kind_of(thread_.wait, facts_.machine)) {
      case WaitKind::kPoll:
      case WaitKind::kSelect:
      case WaitKind::kEpoll:
      case WaitKind::kRead:
        return of_files(true);
      case WaitKind::kWrite:
        return of_files(false);
      case WaitKind::kSleep:
        return {.kind = NeedKind::kNothing, .words = "the end of a sleep"};
      case WaitKind::kWaitForChild:
        return of_child();
      case WaitKind::kLockFile:
        return of_file_lock();
      case WaitKind::kOpen:
        return of_open();
      case WaitKind::kSignal:
        return {.kind = NeedKind::kOutside, .words = "a signal"};
      case WaitKind::kAccept:
        return of_accept();
      default:
        return of_files(true);
    }
  }

 private:
  std::string call_number() const { return std::to_string(thread_.wait.syscall); }

  std::vector<size_t> others_of_the_process() const {
    std::vector<size_t> threads;
    for (size_t i = 0; i < facts_.threads.size(); ++i) {
      const ThreadFacts& other = facts_.threads[i];
      const bool is_other = other.process == waiter_.process && other.thread != &thread_;
      if (is_other && !only_hands_out_descriptors(*other.thread)) threads.push_back(i);
    }
    return threads;
  }

  std::vector<size_t> threads_of(int32_t pid) const {
    std::vector<size_t> threads;
    for (size_t i = 0; i < facts_.threads.size(); ++i)
      if (facts_.threads[i].process->key.pid == pid) threads.push_back(i);
    return threads;
  }

  std::string object_id(std::string_view what, uint64_t address) const {
    return std::string(what) + " " + std::to_string(waiter_.process->key.pid) + ":" + hex(address);
  }

  std::string in_library() const {
    if (thread_.futex && thread_.futex->kind == LockKind::kLowLevelLock) {
      // Of the C library itself: the function that the program called.
      for (const StackFrame& frame : thread_.stack)
        if (!frame.python && is_libc(frame.file) && !frame.function.empty())
          return " of the C library in " + frame.function;
    }
    const std::string library = blamed_library(thread_);
    return library.empty() ? "" : " in " + library;
  }

  Need of_futex(const FutexWait& futex) const {
    switch (futex.kind) {
      case LockKind::kGil:
        return of_gil();
      case LockKind::kJoin:
        return of_join(futex);
      case LockKind::kOpenMpBarrier:
        return of_team(futex);
      case LockKind::kSharedSemaphore:
        return of_shared_semaphore(futex);
      default:
        break;
    }
    if (futex.owner_gone || futex.owner_tid.value_or(0) > 0) return of_owned_lock(futex);
    return of_private_word(futex);
  }

  // "mutex", "threading.RLock".
  static std::string what_of(const FutexWait& futex) {
    if (futex.python_type == "_thread.lock") return "threading.Lock";
    if (futex.python_type == "_thread.RLock") return "threading.RLock";
    if (futex.kind == LockKind::kUnknown) return "futex";
    return std::string(to_string(futex.kind));
  }

  bool is_bare_semaphore_of_python(const FutexWait& futex) const {
    if (futex.kind != LockKind::kSemaphore || !futex.python_type.empty()) return false;
    return std::ranges::any_of(thread_.stack, [](const StackFrame& frame) {
      return frame.function.starts_with("PyThread_acquire_lock");
    });
  }

  // A lock that its owner has signed. The owner of a lock in shared memory may be anywhere.
  Need of_owned_lock(const FutexWait& futex) const {
    const std::string what = what_of(futex);
    Need need{.kind = NeedKind::kOwnedLock,
              .object = object_id(what, futex.address),
              .label = what + in_library(),
              .relation = "held by",
              .others_may = futex.timed};
    const bool is_shared = futex.shared && !futex.file.empty();
    if (is_shared) need.object = what + " " + std::to_string(futex.inode) + "+" + hex(futex.offset);
    for (size_t i = 0; i < facts_.threads.size(); ++i) {
      const ThreadFacts& other = facts_.threads[i];
      const bool may_be = is_shared || other.process == waiter_.process;
      if (may_be && other.thread->tid == futex.owner_tid) need.providers.push_back(i);
    }
    if (need.providers.empty()) {
      need.missing_tid = futex.owner_tid.value_or(0);
      need.words = "a " + what + " whose owner" +
                   (futex.owner_tid ? ", thread " + std::to_string(*futex.owner_tid) + "," : "") +
                   (is_shared ? " has ended" : " is not in this process");
      // A namespace of pids of its own, or a process outside of the tree, may hide the owner.
      if (is_shared && !futex.owner_gone) need.others_may = true;
    } else {
      need.words = "a " + what + " held by " + join_names(facts_, need.providers);
    }
    return need;
  }

  // The waits of CPython's own classes for a notification, not for a lock: the innermost function
  // of Python's that waits is threading's (Lib/threading.py, 3.8 to 3.14).
  bool is_notification() const {
    const StackFrame* frame = python_frame(thread_);
    if (frame == nullptr || base_name(frame->file) != "threading.py") return false;
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

  // Nobody but the threads of this process can change a private word.
  Need of_private_word(const FutexWait& futex) const {
    Need need{.kind = NeedKind::kLock,
              .object = object_id("lock", futex.address),
              .label = what_of(futex) + in_library(),
              .relation = "released by one of",
              .providers = others_of_the_process(),
              .others_may = futex.timed};
    const std::string what = what_of(futex);
    switch (futex.kind) {
      case LockKind::kCondition:
      case LockKind::kBarrier:
      case LockKind::kUnknown:
        need.kind = NeedKind::kNotification;
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
              .object = "GIL " + std::to_string(waiter_.process->key.pid),
              .label = "GIL",
              .words = "the GIL",
              .relation = "held by"};
    if (!waiter_.process->gil_holder) return need;
    const size_t holder = facts_.find(waiter_.process->key, *waiter_.process->gil_holder);
    if (holder == DeadlockFacts::kNone) return need;
    need.providers = {holder};
    need.words += ", held by " + name_of(facts_, facts_.threads[holder]);
    // It looks again every 5 ms, and gets nowhere while the holder stands.
    need.others_may = false;
    return need;
  }

  Need of_join(const FutexWait& futex) const {
    const std::string joined = std::to_string(futex.owner_tid.value_or(0));
    Need need{.kind = NeedKind::kJoin,
              .words = "thread " + joined + " to end",
              .relation = "joins",
              .others_may = futex.timed};
    const size_t thread = facts_.find(waiter_.process->key, futex.owner_tid.value_or(0));
    if (thread != DeadlockFacts::kNone) {
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
              .words = "work for its thread pool (" + library + ")",
              .relation = "woken by one of",
              .providers = others_of_the_process(),
              .others_may = futex.timed};
    }
    Need need{.kind = NeedKind::kTeam,
              .object = object_id("team", futex.address),
              .label = "OpenMP team of " + std::to_string(futex.team_size) + " (" + library + ")",
              .relation = "needs",
              .others_may = futex.timed};
    for (const size_t other : others_of_the_process())
      if (is_pool_thread(*facts_.threads[other].thread, library)) need.providers.push_back(other);
    need.words = "an OpenMP team of " + counted(futex.team_size, "thread") + " in " + library;
    if (need.providers.size() + 1 < futex.team_size) {
      need.words += ", of which this process has " + std::to_string(need.providers.size() + 1);
      need.providers.clear();
    }
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

  void add_other(const ProcessSnapshot& process, SharedState& shared) const {
    const size_t main_thread = facts_.find(process.key, process.key.pid);
    if (&process == waiter_.process || main_thread == DeadlockFacts::kNone) return;
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
      holders_known = holders_known && holder != DeadlockFacts::kNone;
      if (holder != DeadlockFacts::kNone) shared.holders.push_back(holder);
    }
    shared.known = shared.known && holders_known;
    return shared;
  }

  // Whether a process outside of the tree shares the semaphore; of orphaned siblings it is asked
  // apart.
  bool is_shared_outside(uint64_t inode, bool by_siblings) const {
    return std::ranges::any_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
      return end.kind == "semaphore" && end.inode == inode && end.orphaned_sibling == by_siblings &&
             threads_of(end.pid).empty();
    });
  }

  Need of_shared_semaphore(const FutexWait& futex) const {
    SharedState shared = shared_state(futex.inode);
    Need need{.kind = NeedKind::kSharedCount,
              .object = "semaphore " + std::to_string(futex.inode),
              .label = "multiprocessing semaphore " + std::to_string(futex.inode),
              .words = waits_for_room(waiter_)
                           ? "room in a full multiprocessing.Queue"
                           : "a multiprocessing semaphore (queue, condition, event)",
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
    need.label = "multiprocessing lock " + std::to_string(futex.inode);
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

  Need of_child() const {
    const auto pid = static_cast<int32_t>(thread_.wait.args[0]);
    const auto wanted = static_cast<int32_t>(thread_.wait.args[1]);
    // wait4 has the pid first, waitid a kind (1: P_PID) and the pid.
    const bool is_waitid = pid == 1 && facts_.machine == "x86_64" && thread_.wait.syscall == 247;
    const int32_t child = is_waitid ? wanted : pid;
    Need need{.kind = NeedKind::kChild, .words = "a child process to end", .relation = "waits for"};
    if (child <= 1) return need;
    need.providers = threads_of(child);
    if (need.providers.empty()) return need;
    need.words =
        describe(*facts_.run, facts_.threads[need.providers.front()].process->key) + " to end";
    need.others_may = false;
    return need;
  }

  Need of_file_lock() const {
    Need need{.kind = NeedKind::kFileLock, .words = "a lock of a file", .relation = "held by"};
    if (thread_.wait.files.empty()) return need;
    const uint64_t inode = thread_.wait.files.front().inode;
    need.object = "file " + std::to_string(inode);
    need.label = "lock of file " + std::to_string(inode);
    bool held_outside = false;
    bool held = false;
    for (const ChannelEnd& end : facts_.last->channel_ends) {
      if (end.inode != inode || end.kind != "file lock" || !end.writes) continue;
      held = true;
      const auto threads = threads_of(end.pid);
      if (threads.empty()) held_outside = true;
      for (const size_t each : threads)
        if (facts_.threads[each].thread != &thread_) need.providers.push_back(each);
    }
    need.others_may = !held || held_outside || !facts_.last->all_ends_seen;
    if (!need.providers.empty()) {
      need.words +=
          " held by " + describe(*facts_.run, facts_.threads[need.providers.front()].process->key);
    }
    return need;
  }

  // A disk, or a server of files.
  Need of_storage() const {
    Need need{.kind = NeedKind::kKernel, .words = "a disk or a file system (state D)"};
    const auto& files = thread_.wait.files;
    if (files.empty() || files.front().path.empty()) return need;
    const WaitedFile& file = files.front();
    need.words = "the storage of " + file.path;
    if (!file.storage.empty()) need.words += " (" + file.storage + ")";
    return need;
  }

  // Of a FIFO it waits for whoever opens the other side: anybody who knows its name.
  Need of_open() const {
    Need need{.kind = NeedKind::kOutside, .words = "the opening of a file"};
    if (thread_.wait.files.empty()) return need;
    const WaitedFile& file = thread_.wait.files.front();
    if (file.path.empty()) return need;
    if (file.kind != "fifo") return of_storage();
    need.words = "someone to open the other end of the FIFO " + file.path;
    return need;
  }

  Need of_accept() const {
    Need need{.kind = NeedKind::kNewClient, .words = "a connection to its socket"};
    if (!thread_.wait.files.empty()) {
      need.words += " (descriptor " + std::to_string(thread_.wait.files.front().fd) + ")";
    }
    return need;
  }

  // A wait on files. A timeout ends it, but not what it waits for: of poll in a loop the same wait
  // comes again.
  Need of_files(bool for_data) const {
    Need need{.kind = NeedKind::kChannel, .relation = for_data ? "written by" : "read by"};
    const auto& files = thread_.wait.files;
    if (files.empty()) {
      return {.kind = NeedKind::kOutside, .words = "the end of system call " + call_number()};
    }
    const auto listens = [](const WaitedFile& file) { return file.kind == "listening socket"; };
    if (std::ranges::all_of(files, listens)) return of_accept();
    need.others_may = false;
    bool is_channel = false;
    for (const WaitedFile& file : files) {
      if (const auto end = other_end(file)) {
        is_channel = add_ends(*end, for_data, need) || is_channel;
      } else {
        need.others_may = true;
      }
    }
    const WaitedFile& first = files.front();
    need.words =
        files.size() > 1 ? "one of " + counted(files.size(), "file") : words_of(first, for_data);
    if (other_end(first)) {
      need.object = first.kind + " " + std::to_string(first.inode);
      need.label = need.object;
    }
    if (first.kind == "file") return of_storage();
    if (is_event_loop()) return of_event_loop();
    constexpr int32_t kLongPoll =
        60'000;  // ms; shorter ones are loops that wait for the same again
    if (poll_timeout_ms(thread_.wait, facts_.machine).value_or(0) > kLongPoll) {
      need.others_may = true;
    }
    // A socket whose other end nobody of the tree has leads out of it.
    if (!is_channel && first.kind != "pipe") need.kind = NeedKind::kOutside;
    std::vector<size_t> mains;
    for (const size_t each : need.providers)
      if (facts_.threads[each].is_main()) mains.push_back(each);
    if (!mains.empty()) need.words += ", " + need.relation + " " + join_names(facts_, mains);
    return need;
  }

  // A wait in epoll or select on, among others, a pipe or socket pair of which its process has the
  // other end: by that other threads, and handlers of signals, wake the loop (asyncio's self-pipe).
  bool is_event_loop() const {
    const WaitKind kind = kind_of(thread_.wait, facts_.machine);
    if (kind != WaitKind::kEpoll && kind != WaitKind::kSelect) return false;
    return std::ranges::any_of(thread_.wait.files, [&](const WaitedFile& file) {
      const auto other = other_end(file);
      return other && std::ranges::any_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
               return end.inode == *other && end.pid == waiter_.process->key.pid && end.writes;
             });
    });
  }

  // It does what is due at its time, and what others of its process ask for. What it waits for
  // beside that, from other processes, is not told apart.
  Need of_event_loop() const {
    Need need{.kind = NeedKind::kNotification,
              .words = "work for its event loop",
              .relation = "woken by one of",
              .providers = others_of_the_process(),
              .others_may = true};
    const bool only_own = std::ranges::all_of(thread_.wait.files, [&](const WaitedFile& file) {
      const auto other = other_end(file);
      return other && std::ranges::none_of(facts_.last->channel_ends, [&](const ChannelEnd& end) {
               return end.inode == *other && end.pid != waiter_.process->key.pid;
             });
    });
    const bool by_itself =
        has_timeout(thread_.wait, facts_.machine) || may_be_woken_by_signal(waiter_);
    if (only_own && !by_itself && !need.providers.empty()) need.others_may = false;
    return need;
  }

  static std::string words_of(const WaitedFile& file, bool for_data) {
    const std::string what = for_data ? "data " : "room ";
    if (file.kind == "pipe") {
      return what + "in pipe " + std::to_string(file.inode);
    }
    return what + (for_data ? "from a " : "in a ") + file.kind + " (descriptor " +
           std::to_string(file.fd) + ")";
  }

  // All threads of all processes that have the other end; of its own process the other threads.
  // Whether anybody of the tree has it.
  bool add_ends(uint64_t inode, bool for_data, Need& need) const {
    std::vector<int32_t> pids;
    bool is_of_tree = false;
    for (const ChannelEnd& end : facts_.last->channel_ends) {
      if (end.inode != inode || (for_data ? !end.writes : !end.reads)) continue;
      if (std::ranges::find(pids, end.pid) != pids.end()) continue;
      pids.push_back(end.pid);
      const auto threads = threads_of(end.pid);
      is_of_tree = is_of_tree || !threads.empty();
      // An orphan that was forked from the same process only keeps what it was born with.
      if (threads.empty() && !end.orphaned_sibling) need.others_may = true;
      for (const size_t each : threads)
        if (facts_.threads[each].thread != &thread_ && !is_known(each, need)) {
          need.providers.push_back(each);
        }
    }
    need.others_may = need.others_may || may_be_others(pids.empty(), is_of_tree);
    return is_of_tree;
  }

  // Whether somebody may have the other end whom dlprobe does not see.
  bool may_be_others(bool nobody_has_it, bool is_of_tree) const {
    // The kernel lets nobody wait at a pipe without another side (end of file, SIGPIPE): since the
    // threads were looked at its last peer has ended, or is not seen.
    if (nobody_has_it) return true;
    // It went on before the descriptors were looked at.
    if (!thread_.consistent) return true;
    // A pipe that came from outside may have its end in a process that dlprobe may not look into.
    return !is_of_tree && !facts_.last->all_ends_seen;
  }

  static bool is_known(size_t provider, const Need& need) {
    return std::ranges::find(need.providers, provider) != need.providers.end();
  }

  const DeadlockFacts& facts_;
  const ThreadFacts& waiter_;
  const ThreadSnapshot& thread_;
};

}  // namespace

Need need_of(const DeadlockFacts& facts, const ThreadFacts& waiter) {
  return NeedReader(facts, waiter).read();
}

}  // namespace dlprobe
