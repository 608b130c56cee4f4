#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/descriptors.h"
#include "lib/model/ids.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// What a process is to the loader. ProcessInfo::role_basis says how it was known.
enum class Role {
  kTrainer,          ///< runs the training loop and consumes batches; the root of the loader
  kWorker,           ///< makes batches
  kForkserver,       ///< Python's forkserver process
  kResourceTracker,  ///< Python's multiprocessing.resource_tracker
  kShmManager,       ///< torch_shm_manager, or the reference loader's
  kLauncher,         ///< an ancestor of the trainer inside the subject: a shell, torchrun
  kOther,
};

std::string_view to_string(Role role);  ///< "trainer", "worker", "resource-tracker" ...
Role role_from_string(std::string_view name);

/// A soft and a hard resource limit; nothing is "unlimited".
struct Limit {
  std::optional<uint64_t> soft;
  std::optional<uint64_t> hard;
  bool operator==(const Limit&) const = default;
};

/// What stays the same over a process's life, or changes seldom (execve, reparenting). Recorded
/// when a process is first seen and again when one of these changes; the last one counts.
struct ProcessInfo {
  ProcessKey key;
  int32_t ppid = 0;
  BootNs seen_at = 0;
  std::string comm;                  ///< as the kernel has it: hostile text, up to 15 bytes
  std::vector<std::string> cmdline;  ///< secrets masked; hostile text
  Observed<std::string> exe = failure(ErrorCode::kInsufficient, "not read");
  Role role = Role::kOther;
  std::string role_basis;  ///< "its parent is the trainer and it catches SIGBUS ..."
  std::optional<StartMethod> start_method;  ///< of a worker, where it can be told
  /// It was forked, and whoever forked it has ended: it came to init or to another that adopts
  /// orphans.
  bool orphaned = false;
  uint32_t uid = 0;
  uint64_t signals_caught = 0;          ///< SigCgt of /proc/PID/status: bit N-1 is signal N
  std::vector<int32_t> namespace_pids;  ///< NSpid: the pid in each namespace, outermost first
  Observed<uint64_t> mount_namespace = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> open_files_limit = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> cpu_time_limit = failure(ErrorCode::kInsufficient, "not read");   ///< seconds
  Observed<Limit> file_size_limit = failure(ErrorCode::kInsufficient, "not read");  ///< bytes
  int32_t session = 0;   ///< pid of the session's leader; 0: not read
  int32_t terminal = 0;  ///< device of the controlling terminal (tty_nr); 0: none
  Observed<std::string> cgroup = failure(ErrorCode::kInsufficient, "not read");

  bool operator==(const ProcessInfo&) const = default;
};

/// A file that a blocked thread waits on.
struct WaitedFile {
  int32_t fd = -1;
  /// "pipe", "fifo" (with a name), "socket", "listening socket", "file", "eventfd", "other".
  std::string kind;
  uint64_t inode = 0;
  /// Of a socket that a snapshot shows: inode of the socket at its other end, on this machine; 0:
  /// not known.
  uint64_t peer = 0;
  /// Of a file, and of one that is being opened as the program has it: its name; hostile text.
  std::string path;
  std::string storage;  ///< of a file: type and source of its mount, "nfs4 server:/data"

  bool operator==(const WaitedFile&) const = default;
};

/// Where one thread is in the kernel at one instant (/proc/PID/task/TID/syscall).
struct ThreadWait {
  int32_t tid = 0;
  bool running = false;  ///< on a CPU or runnable: no system call to show
  int64_t syscall = -1;  ///< number; -1: blocked outside a system call (page fault)
  std::array<uint64_t, 6> args = {};
  std::vector<WaitedFile> files;  ///< decoded for read, poll, ppoll, select, epoll_wait

  bool operator==(const ThreadWait&) const = default;
};

/// One process at one moment: what changes.
///
/// std::optional means "not sampled at this tick"; Observed means "sampled, or why it could not
/// be".
struct ProcessSample {
  ProcessKey key;
  int32_t ppid = 0;
  char state = '?';          ///< R S D T t Z X I of /proc/PID/stat
  uint64_t utime_ticks = 0;  ///< of all threads
  uint64_t stime_ticks = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  int32_t threads = 0;
  Observed<uint64_t> rss_bytes = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> rss_shared_bytes =
      failure(ErrorCode::kInsufficient, "not read");  ///< file-backed and shmem part of rss_bytes
  std::optional<Observed<uint64_t>> fd_count;
  std::optional<Observed<FdKinds>> fds;  ///< read at most once a second, where the count changed
  std::optional<Observed<uint64_t>> map_count;  ///< memory mappings; read seldom
  std::optional<Observed<uint64_t>> swap_bytes;
  std::optional<Observed<uint64_t>> pss_bytes;
  std::optional<uint64_t> pss_anon_bytes;  ///< anonymous part of pss_bytes (Linux 5.4+)
  std::optional<uint64_t> private_bytes;   ///< pages that no other process has: USS
  std::optional<uint64_t> page_table_bytes;
  /// How often it has called read(2), write(2) and their kin (syscr + syscw of /proc/PID/io): moves
  /// whenever a batch or an index goes through a pipe, and stands while it waits in poll or futex.
  std::optional<Observed<uint64_t>> io_calls;
  std::optional<Observed<std::vector<ThreadWait>>> waits;  ///< its main thread first

  bool operator==(const ProcessSample&) const = default;
};

/// How a process ended. `wait_status` is encoded as wait(2) has it.
struct ProcessExit {
  ProcessKey key;
  BootNs at = 0;  ///< when dlprobe saw it, not before the exit
  Observed<int32_t> wait_status = failure(ErrorCode::kInsufficient, "not read");
  std::string source;  ///< "waitid", "pidfd info", "zombie stat"

  bool operator==(const ProcessExit&) const = default;
};

}  // namespace dlprobe
