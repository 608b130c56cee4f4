#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fields.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"

namespace dlprobe {

/// One function on a stack.
struct StackFrame {
  bool python = false;
  std::string function;
  std::string file;
  uint64_t offset = 0;
  int32_t line = 0;

  bool operator==(const StackFrame&) const = default;
};
constexpr void list_fields(auto&& field, Of<StackFrame> /*of*/) {
  field("py", &StackFrame::python, "of Python");
  field("fn", &StackFrame::function,
        "as its file has it (C++ mangled); of Python the qualified name");
  field("file", &StackFrame::file, "the ELF file, or the Python source; hostile text");
  field("off", &StackFrame::offset, "of a native frame: the address in its ELF file");
  field("line", &StackFrame::line, "of a Python frame; 0: not known");
}

/// What kind of object a thread waits on in futex(2), as far as its words prove it.
enum class LockKind {
  kUnknown,
  kMutex,            ///< pthread_mutex_t, std::mutex
  kLowLevelLock,     ///< a lock inside glibc: no owner
  kReadWriteLock,    ///< pthread_rwlock_t
  kCondition,        ///< pthread_cond_t, std::condition_variable; CPython's PyEvent
  kSemaphore,        ///< sem_t of one process; threading.Lock up to Python 3.13.0
  kSharedSemaphore,  ///< sem_t in shared memory: multiprocessing's locks and queues
  kBarrier,          ///< pthread_barrier_t
  kJoin,             ///< pthread_join
  kOnce,             ///< pthread_once
  kOpenMpBarrier,    ///< a team of libgomp waits for its members
  kOpenMpLock,
  kPythonMutex,  ///< CPython's PyMutex: threading.Lock from 3.13.1 on
  kGil,          ///< CPython's global interpreter lock
};
template <>
struct Names<LockKind> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"unknown", "mutex", "low-level lock", "read-write lock", "condition variable", "semaphore",
       "shared semaphore", "barrier", "thread join", "once", "OpenMP barrier", "OpenMP lock",
       "Python mutex", "GIL"});
};

/// What the process that forked a process has where that one has a lock.
enum class LockOfParent {
  kUnknown,
  kNone,  ///< no such lock
  kFree,
  kTaken,
};
template <>
struct Names<LockOfParent> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"unknown", "none", "free", "taken"});
};

/// A thread in futex(2).
struct FutexWait {
  uint64_t address = 0;
  bool shared = false;
  bool timed = false;
  uint32_t expected = 0;
  uint32_t value = 0;
  LockKind kind = LockKind::kUnknown;
  std::optional<int32_t> owner_tid;
  bool owner_gone = false;
  uint32_t team_size = 0;
  std::string python_type;
  LockOfParent in_parent = LockOfParent::kUnknown;
  std::string file;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t offset = 0;

  bool operator==(const FutexWait&) const = default;
};
constexpr void list_fields(auto&& field, Of<FutexWait> /*of*/) {
  field("addr", &FutexWait::address, "of the word");
  field("shared", &FutexWait::shared, "without FUTEX_PRIVATE_FLAG: others may wake it");
  field("timed", &FutexWait::timed, "with a timeout");
  field("expected", &FutexWait::expected, "the value that it waits to change");
  field("value", &FutexWait::value, "the value when it was looked at");
  field("kind", &FutexWait::kind, "of what object it is");
  field("owner", &FutexWait::owner_tid,
        "Of its owner, as the word has it; of a threading.Lock, who is in a `with` on it; of a "
        "join, who is joined. Where the waiter is in a pid namespace of its own: as "
        "dlprobe sees it if it is a thread of the tree.");
  field("gone", &FutexWait::owner_gone,
        "its owner is a thread that this process does not have any more");
  field("team", &FutexWait::team_size, "of an OpenMP barrier");
  field("python", &FutexWait::python_type,
        R"(of the Python object it belongs to: "_thread.lock", "_thread.RLock")");
  field("in_parent", &FutexWait::in_parent,
        "of a threading.Lock: what the parent of the process has at its address by now");
  field("file", &FutexWait::file,
        "Of shared memory: the file that the word lies in, its identity over processes");
  field("dev", &FutexWait::device, "as st_dev");
  field("ino", &FutexWait::inode, "of that file");
  field("off", &FutexWait::offset, "in that file");
}

/// A multiprocessing.Lock, RLock or Semaphore as one process has it: CPython's SemLock object
/// (Modules/_multiprocessing/semaphore.c), the same layout from 3.8 to 3.15.
struct SemLockState {
  uint64_t inode = 0;
  std::string file;
  int32_t value = 0;
  bool recursive = false;
  int32_t max_value = 1;
  int32_t count = 0;
  std::optional<int32_t> last_tid;

  bool operator==(const SemLockState&) const = default;
};
constexpr void list_fields(auto&& field, Of<SemLockState> /*of*/) {
  field("ino", &SemLockState::inode, "of its file in /dev/shm: the same lock in every process");
  field("file", &SemLockState::file, "hostile text");
  field("value", &SemLockState::value, "of the semaphore: 0, nobody may pass");
  field("recursive", &SemLockState::recursive, "an RLock");
  field("max", &SemLockState::max_value, "of the semaphore");
  field("count", &SemLockState::count,
        "how often this process has acquired and not yet released it");
  field("last", &SemLockState::last_tid, "the thread that acquired it last, if it still exists");
}

/// What is held or locked at a ChannelEnd.
enum class EndKind { kPipe, kSocket, kFileLock, kSemaphore };
template <>
struct Names<EndKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"pipe", "socket", "file lock", "semaphore"});
};

/// A descriptor of some process for a pipe or locked file that a thread of the tree waits on, or
/// for the peer of such a socket; or a mapping of a semaphore.
struct ChannelEnd {
  uint64_t inode = 0;
  EndKind kind = EndKind::kPipe;
  int32_t pid = 0;
  std::string comm;
  int32_t fd = -1;
  bool reads = false;
  bool writes = false;
  bool orphaned_sibling = false;
  char state = '?';
  std::string frozen_by;
  uint64_t cpu_ticks = 0;

  bool operator==(const ChannelEnd&) const = default;
};
constexpr void list_fields(auto&& field, Of<ChannelEnd> /*of*/) {
  field("ino", &ChannelEnd::inode, "of the pipe, socket or file");
  field("kind", &ChannelEnd::kind, "what it is an end of");
  field("pid", &ChannelEnd::pid, "which may be outside of the tree");
  field("comm", &ChannelEnd::comm, "hostile text");
  field("fd", &ChannelEnd::fd, "the descriptor; -1: a mapping");
  field("r", &ChannelEnd::reads,
        "It can read. Of a lock: it took it, and is no copy that fork made of the open file");
  field("w", &ChannelEnd::writes, "of a lock: it holds it");
  field("sibling", &ChannelEnd::orphaned_sibling,
        "A process outside of the tree that was forked from the same process as one of the tree, "
        "and has lost its parent as that one has");
  field("st", &ChannelEnd::state,
        "Of a process outside of the tree: R S D; T t only where all its threads are stopped");
  field("frozen_by", &ChannelEnd::frozen_by,
        "of such a process: the file of its cgroup that says that it is frozen; empty: none does");
  field("cpu", &ChannelEnd::cpu_ticks, "of such a process: that it has run", Unit::kTicks);
}

/// A pool of libgomp as the memory of a thread has it: a copy made by fork has the words, not the
/// threads.
struct OpenMpPool {
  uint32_t threads = 0;
  uint32_t next_team = 0;

  bool operator==(const OpenMpPool&) const = default;
};
constexpr void list_fields(auto&& field, Of<OpenMpPool> /*of*/) {
  field("threads", &OpenMpPool::threads,
        "of its last team, the thread itself among them; 0: no pool yet");
  field("next", &OpenMpPool::next_team, "how many threads its next parallel region asks for");
}

/// A mapped file of a library that keeps threads of its own (thread_keeper()).
struct MappedLibrary {
  std::string file;
  uint64_t device = 0;
  uint64_t inode = 0;
  std::optional<OpenMpPool> pool;

  bool operator==(const MappedLibrary&) const = default;
};
constexpr void list_fields(auto&& field, Of<MappedLibrary> /*of*/) {
  field("file", &MappedLibrary::file, "hostile text");
  field("dev", &MappedLibrary::device, "st_dev of the file");
  field("ino", &MappedLibrary::inode, "of the file");
  field("pool", &MappedLibrary::pool,
        "Of a libgomp: what the main thread has of it; nothing where that could not be read");
}

/// A descriptor for a regular file, or for a TCP connection, that another process of the tree has
/// open, too.
struct SharedFile {
  int32_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;
  bool writes = false;
  uint64_t position = 0;
  int32_t description = 0;
  uint32_t moves_alone = 0;
  uint32_t moves_maybe = 0;
  uint32_t moves_of_others = 0;
  uint32_t moves_of_nobody = 0;
  uint16_t port = 0;
  uint32_t reads = 0;
  bool reads_at_once = false;

  bool operator==(const SharedFile&) const = default;
};
constexpr void list_fields(auto&& field, Of<SharedFile> /*of*/) {
  field("fd", &SharedFile::fd, "its descriptor");
  field("dev", &SharedFile::device, "st_dev of the file");
  field("ino", &SharedFile::inode, "of the file");
  field("path", &SharedFile::path, "hostile text");
  field("w", &SharedFile::writes, "open for writing");
  field("pos", &SharedFile::position, "of the descriptor");
  field("same", &SharedFile::description,
        "The open file description, numbered in each snapshot, where another process of the tree "
        "has the same one by kcmp(2): one position for all of them. 0: nobody else has it, or the "
        "kernel does not tell.");
  field("alone", &SharedFile::moves_alone,
        "How often the position was seen to move, by who of those that share it had read something "
        "meanwhile: only this process; this one and others; others only. Looked for where the "
        "position has moved since the snapshot before.");
  field("maybe", &SharedFile::moves_maybe, "the same, where others had read something as well");
  field("others", &SharedFile::moves_of_others, "the same, where only others had");
  field("nobody", &SharedFile::moves_of_nobody,
        "the same, where none of them had: by a seek alone, or by a process beyond the tree");
  field("port", &SharedFile::port, "of the connection, at its other end; 0: a regular file");
  field("reads", &SharedFile::reads,
        "in how many calls the process was seen to wait for data of the connection");
  field("at_once", &SharedFile::reads_at_once, "it did so while another process did, too");
}

/// The files that one process shares with others of its tree.
struct ProcessFiles {
  ProcessKey key;
  std::vector<SharedFile> files;
  bool operator==(const ProcessFiles&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessFiles> /*of*/) {
  field("key", &ProcessFiles::key, "the process");
  field("files", &ProcessFiles::files, "by descriptor");
}

/// The files that processes of a tree share at one moment.
struct SharedFileLook {
  BootNs at = 0;
  std::vector<ProcessFiles> processes;
  bool operator==(const SharedFileLook&) const = default;
};
constexpr void list_fields(auto&& field, Of<SharedFileLook> /*of*/) {
  field("at", &SharedFileLook::at, "when it was looked at", Unit::kMoment);
  field("p", &SharedFileLook::processes, "in key order");
}

/// Tasks of an asyncio event loop that wait at the same lines.
struct WaitingTasks {
  std::vector<StackFrame> stack;
  int32_t count = 1;
  bool is_main = false;
  bool is_answered = false;

  bool operator==(const WaitingTasks&) const = default;
};
constexpr void list_fields(auto&& field, Of<WaitingTasks> /*of*/) {
  field("stack", &WaitingTasks::stack,
        "of a task's coroutine and those that it awaits, innermost first");
  field("count", &WaitingTasks::count, "how many tasks");
  field("main", &WaitingTasks::is_main,
        "one of them is what the loop runs until it is done (asyncio.run)");
  field("answered", &WaitingTasks::is_answered, "the future that one of them awaits is done");
}

/// Tasks of asyncio, or futures of concurrent.futures, that ended by an exception which nobody has
/// asked for, and that are still kept.
struct FailedTasks {
  std::string exception;
  std::vector<StackFrame> stack;
  int32_t count = 1;

  bool operator==(const FailedTasks&) const = default;
};
constexpr void list_fields(auto&& field, Of<FailedTasks> /*of*/) {
  field("exception", &FailedTasks::exception, "its type; hostile text");
  field("stack", &FailedTasks::stack, "where it was raised, and from where, innermost first");
  field("count", &FailedTasks::count, "how many tasks");
}

/// One thread at one moment.
struct ThreadSnapshot {
  int32_t tid = 0;
  int32_t own_tid = 0;
  uint64_t start_ticks = 0;
  std::string comm;
  char state = '?';
  uint64_t cpu_ns = 0;
  uint64_t queued_ns = 0;
  uint64_t timeslices = 0;
  BootNs blocked_since = 0;
  ThreadWait wait;
  std::optional<FutexWait> futex;
  std::vector<StackFrame> stack;
  std::string stack_note;
  std::vector<WaitingTasks> tasks;
  bool stopped = false;
  bool consistent = true;

  bool operator==(const ThreadSnapshot&) const = default;
};
constexpr void list_fields(auto&& field, Of<ThreadSnapshot> /*of*/) {
  field("tid", &ThreadSnapshot::tid, "the thread");
  field("own_tid", &ThreadSnapshot::own_tid, "in its own pid namespace; 0: the same");
  field("start", &ThreadSnapshot::start_ticks, "when it began, in clock ticks since boot",
        Unit::kTicks);
  field("comm", &ThreadSnapshot::comm, "hostile text");
  field("st", &ThreadSnapshot::state, "R S D T t Z");
  field("cpu_ns", &ThreadSnapshot::cpu_ns, "that it has run (schedstat), else its ticks",
        Unit::kNanoseconds);
  field("queued_ns", &ThreadSnapshot::queued_ns,
        "that it was ready to run and had no CPU (schedstat)", Unit::kNanoseconds);
  field("slices", &ThreadSnapshot::timeslices,
        "how often it was put on a CPU: still the same, still the same wait");
  field("since", &ThreadSnapshot::blocked_since,
        "It has not run since this moment, or an earlier one; 0: not known, or it runs",
        Unit::kMoment);
  field("wait", &ThreadSnapshot::wait, "where it is in the kernel");
  field("futex", &ThreadSnapshot::futex, "what it waits for in futex(2)");
  field("stack", &ThreadSnapshot::stack,
        "innermost first; Python and native merged where they match");
  field("note", &ThreadSnapshot::stack_note, "what is missing of the stack, and why");
  field("tasks", &ThreadSnapshot::tasks,
        "of the event loop that it waits in: the main task first, then where the most wait");
  field("stopped", &ThreadSnapshot::stopped,
        "it was stopped for this look (or will be in a moment), and woken by it");
  field("consistent", &ThreadSnapshot::consistent,
        "the thread did not move while it was looked at");
}

/// How far a rank is in a process group, as its memory or PyTorch's Flight Recorder has it; texts
/// are hostile.
struct FlightGroup {
  std::string name;
  int64_t enqueued = 0;
  int64_t completed = 0;
  std::string operation;
  std::string tensors;
  std::optional<StackFrame> at;
  std::optional<int64_t> gives_up_in_ns;

  /// It has enqueued one that is not complete.
  bool is_pending() const { return enqueued > completed; }
  bool operator==(const FlightGroup&) const = default;
};
constexpr void list_fields(auto&& field, Of<FlightGroup> /*of*/) {
  field("name", &FlightGroup::name, "\"0\" is torch's default group");
  field("enqueued", &FlightGroup::enqueued, "number of the last collective that was asked for");
  field("completed", &FlightGroup::completed, "number of the last one that is complete");
  field("op", &FlightGroup::operation,
        "what the last one enqueued is, \"all_reduce\"; empty: not told");
  field("tensors", &FlightGroup::tensors,
        R"(that went into it: "Float [64, 32]", "4096 elements")");
  field("frame", &FlightGroup::at, "which asked for it: the innermost that is of no library");
  field("gives_up_in", &FlightGroup::gives_up_in_ns,
        "until its timeout, where it is not complete; counted from when it was asked for",
        Unit::kNanoseconds);
}

/// How far a rank is in its process groups: by its memory at the look, with what a dump that
/// PyTorch's Flight Recorder wrote adds; or by such a dump alone.
struct FlightRecord {
  int64_t age_ns = 0;
  std::vector<FlightGroup> groups;
  bool is_live = false;

  bool operator==(const FlightRecord&) const = default;
};
constexpr void list_fields(auto&& field, Of<FlightRecord> /*of*/) {
  field("age", &FlightRecord::age_ns, "of the dump at the look; 0: by memory", Unit::kNanoseconds);
  field("groups", &FlightRecord::groups, "by name");
  field("live", &FlightRecord::is_live, "by memory");
}

/// One process at one moment.
struct ProcessSnapshot {
  ProcessKey key;
  BootNs at = 0;
  std::vector<ThreadSnapshot> threads;
  std::string python;
  std::string python_note;
  std::optional<int32_t> gil_holder;
  int64_t pause_ns = 0;
  std::vector<SemLockState> sem_locks;
  std::vector<MappedLibrary> libraries;
  std::vector<SharedFile> shared_files;
  std::string frozen_by;
  std::optional<FlightRecord> flight;
  std::vector<FailedTasks> failed_tasks;
  int64_t processes_made = 0;
  std::optional<int64_t> batches_taken;

  bool operator==(const ProcessSnapshot&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessSnapshot> /*of*/) {
  field("key", &ProcessSnapshot::key, "the process");
  field("at", &ProcessSnapshot::at, "when it was looked at", Unit::kMoment);
  field("threads", &ProcessSnapshot::threads, "the main thread first");
  field("python", &ProcessSnapshot::python, R"("3.11.2"; empty: no Python in it)");
  field("python_note", &ProcessSnapshot::python_note, "why its Python stacks could not be read");
  field("gil", &ProcessSnapshot::gil_holder, "tid");
  field("pause_ns", &ProcessSnapshot::pause_ns, "for how long it was stopped; 0: not at all",
        Unit::kNanoseconds);
  field("semlocks", &ProcessSnapshot::sem_locks, "by inode");
  field("libs", &ProcessSnapshot::libraries, "that keep threads, by address");
  field("files", &ProcessSnapshot::shared_files, "by descriptor");
  field("frozen_by", &ProcessSnapshot::frozen_by,
        "the file of its cgroup that says that it is frozen; empty: none does");
  field("flight", &ProcessSnapshot::flight, "of a rank: how far it is in its process groups");
  field("failed", &ProcessSnapshot::failed_tasks, "where the most have failed first");
  field("made", &ProcessSnapshot::processes_made,
        "Of a rank that stands: processes that its multiprocessing has made; 0: none, or not read");
  field("batches", &ProcessSnapshot::batches_taken,
        "likewise: taken in the loop over a DataLoader that its main thread is in");
}

/// A process tree at one moment.
struct TreeSnapshot {
  BootNs at = 0;
  std::vector<ProcessSnapshot> processes;
  std::vector<ChannelEnd> channel_ends;
  bool all_ends_seen = true;

  bool operator==(const TreeSnapshot&) const = default;
};
constexpr void list_fields(auto&& field, Of<TreeSnapshot> /*of*/) {
  field("at", &TreeSnapshot::at, "when it was begun", Unit::kMoment);
  field("p", &TreeSnapshot::processes, "in key order");
  field("ends", &TreeSnapshot::channel_ends, "by inode, pid, descriptor");
  field("all_ends", &TreeSnapshot::all_ends_seen,
        "no process's descriptors were hidden from dlprobe");
}

}  // namespace dlprobe
