#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"

namespace dlprobe {

/// One function on a stack.
struct StackFrame {
  bool python = false;
  std::string function;  ///< as its file has it (C++ mangled); of Python the qualified name
  std::string file;      ///< the ELF file, or the Python source; hostile text
  uint64_t offset = 0;   ///< of a native frame: the address in its ELF file
  int32_t line = 0;      ///< of a Python frame; 0: not known

  bool operator==(const StackFrame&) const = default;
};

/// What kind of object a thread waits on in futex(2), as far as its words prove it.
enum class LockKind {
  kUnknown,
  kMutex,            ///< pthread_mutex_t, std::mutex
  kLowLevelLock,     ///< a lock inside glibc: no owner
  kReadWriteLock,    ///< pthread_rwlock_t
  kCondition,        ///< pthread_cond_t, std::condition_variable
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
std::string_view to_string(LockKind kind);  ///< "mutex", "read-write lock" ...
LockKind lock_kind_from_string(std::string_view name);

/// A thread in futex(2).
struct FutexWait {
  uint64_t address = 0;
  bool shared = false;    ///< without FUTEX_PRIVATE_FLAG: others may wake it
  bool timed = false;     ///< with a timeout
  uint32_t expected = 0;  ///< the value that it waits to change
  uint32_t value = 0;     ///< the value when it was looked at
  LockKind kind = LockKind::kUnknown;
  /// Of its owner, as the word has it. Where the waiter is in a pid namespace of its own: as
  /// dlprobe sees it if it is a thread of the tree.
  std::optional<int32_t> owner_tid;
  bool owner_gone = false;  ///< its owner is a thread that this process does not have any more
  uint32_t team_size = 0;   ///< of kOpenMpBarrier
  std::string python_type;  ///< of the Python object it belongs to: "_thread.lock", "_thread.RLock"
  /// Of shared memory: the file that the word lies in, its identity over processes.
  std::string file;
  uint64_t device = 0;  ///< as st_dev
  uint64_t inode = 0;
  uint64_t offset = 0;

  bool operator==(const FutexWait&) const = default;
};

/// A multiprocessing.Lock, RLock or Semaphore as one process has it: CPython's SemLock object
/// (Modules/_multiprocessing/semaphore.c), the same layout from 3.8 to 3.13.
struct SemLockState {
  uint64_t inode = 0;  ///< of its file in /dev/shm: the same lock in every process
  std::string file;    ///< hostile text
  int32_t value = 0;   ///< of the semaphore: 0, nobody may pass
  bool recursive = false;
  int32_t max_value = 1;
  int32_t count = 0;                ///< how often this process has acquired and not yet released it
  std::optional<int32_t> last_tid;  ///< the thread that acquired it last, if it still exists

  bool operator==(const SemLockState&) const = default;
};

/// A descriptor of some process for a pipe or locked file that a thread of the tree waits on, or
/// for the peer of such a socket; or a mapping of a semaphore.
struct ChannelEnd {
  uint64_t inode = 0;  ///< of the pipe, socket or file
  std::string kind;    ///< "pipe", "socket", "file lock", "semaphore"
  int32_t pid = 0;     ///< which may be outside of the tree
  std::string comm;    ///< hostile text
  int32_t fd = -1;
  bool reads = false;
  bool writes = false;  ///< of a lock: it holds it
  /// A process outside of the tree that was forked from the same process as one of the tree, and
  /// has lost its parent as that one has.
  bool orphaned_sibling = false;

  bool operator==(const ChannelEnd&) const = default;
};

/// A pool of libgomp as the memory of a thread has it: a copy made by fork has the words, not the
/// threads.
struct OpenMpPool {
  uint32_t threads = 0;    ///< of its last team, the thread itself among them; 0: no pool yet
  uint32_t next_team = 0;  ///< how many threads its next parallel region asks for

  bool operator==(const OpenMpPool&) const = default;
};

/// A mapped file of a library that keeps threads of its own (thread_keeper()).
struct MappedLibrary {
  std::string file;  ///< hostile text
  uint64_t device = 0;
  uint64_t inode = 0;
  /// Of a libgomp: what the main thread has of it; nothing where that could not be read.
  std::optional<OpenMpPool> pool;

  bool operator==(const MappedLibrary&) const = default;
};

/// A descriptor for a regular file that another process of the tree has open, too.
struct SharedFile {
  int32_t fd = -1;
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;  ///< hostile text
  bool writes = false;
  uint64_t position = 0;
  /// The open file description, numbered in each snapshot, where another process of the tree has
  /// the same one by kcmp(2): one position for all of them. 0: nobody else has it, or the kernel
  /// does not tell.
  int32_t description = 0;
  /// How often the position was seen to move, by who of those that share it had read something
  /// meanwhile: only this process; this one and others; others only. Looked for where the position
  /// has moved since the snapshot before.
  uint32_t moves_alone = 0;
  uint32_t moves_maybe = 0;
  uint32_t moves_of_others = 0;

  bool operator==(const SharedFile&) const = default;
};

/// One thread at one moment.
struct ThreadSnapshot {
  int32_t tid = 0;
  int32_t own_tid = 0;       ///< in its own pid namespace; 0: the same
  uint64_t start_ticks = 0;  ///< when it began, in clock ticks since boot
  std::string comm;          ///< hostile text
  char state = '?';          ///< R S D T t Z
  uint64_t cpu_ns = 0;       ///< that it has run (schedstat), else its ticks
  uint64_t queued_ns = 0;    ///< that it was ready to run and had no CPU (schedstat)
  uint64_t timeslices = 0;   ///< how often it was put on a CPU: still the same, still the same wait
  /// It has not run since this moment, or an earlier one; 0: not known, or it runs.
  BootNs blocked_since = 0;
  std::string wchan;  ///< the kernel's function that it waits in, where no more is known of it
  ThreadWait wait;
  std::optional<FutexWait> futex;
  std::vector<StackFrame> stack;  ///< innermost first; Python and native merged where they match
  std::string stack_note;         ///< what is missing of the stack, and why
  bool stopped = false;  ///< it was stopped for this look (or will be in a moment), and woken by it
  bool consistent = true;  ///< the thread did not move while it was looked at

  bool operator==(const ThreadSnapshot&) const = default;
};

/// One process at one moment.
struct ProcessSnapshot {
  ProcessKey key;
  BootNs at = 0;
  std::vector<ThreadSnapshot> threads;   ///< the main thread first
  std::string python;                    ///< "3.11.2"; empty: no Python in it
  std::string python_note;               ///< why its Python stacks could not be read
  std::optional<int32_t> gil_holder;     ///< tid
  int64_t pause_ns = 0;                  ///< for how long it was stopped; 0: not at all
  std::vector<SemLockState> sem_locks;   ///< by inode
  std::vector<MappedLibrary> libraries;  ///< that keep threads, by address
  std::vector<SharedFile> shared_files;  ///< by descriptor

  bool operator==(const ProcessSnapshot&) const = default;
};

/// A process tree at one moment.
struct TreeSnapshot {
  BootNs at = 0;
  std::vector<ProcessSnapshot> processes;  ///< in key order
  std::vector<ChannelEnd> channel_ends;    ///< by inode, pid, descriptor
  bool all_ends_seen = true;               ///< no process's descriptors were hidden from dlprobe

  bool operator==(const TreeSnapshot&) const = default;
};

}  // namespace dlprobe
