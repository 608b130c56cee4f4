#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fields.h"
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
template <>
struct Names<Role> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"trainer", "worker", "forkserver", "resource-tracker", "shm-manager", "launcher", "other"});
};

/// A soft and a hard resource limit; nothing is "unlimited".
struct Limit {
  std::optional<uint64_t> soft;
  std::optional<uint64_t> hard;
  bool operator==(const Limit&) const = default;
};
constexpr void list_fields(auto&& field, Of<Limit> /*of*/) {
  field("soft", &Limit::soft, "what the kernel enforces; none: unlimited");
  field("hard", &Limit::hard, "up to which the process may raise it; none: unlimited");
}

/// Which of the processes of a distributed job a process is, as its launcher has told it by
/// variables of its environment, or as its process group (torch.distributed) has it.
struct JobRank {
  std::string job;
  int32_t rank = 0;
  std::optional<int32_t> world_size;
  std::optional<int32_t> local_world_size;
  std::string source;

  /// Its ranks meet at an address that this machine alone has: all of them are here.
  bool meets_here() const { return job.starts_with("127.") || job.starts_with("localhost:"); }
  bool operator==(const JobRank&) const = default;
};
constexpr void list_fields(auto&& field, Of<JobRank> /*of*/) {
  field("job", &JobRank::job,
        "tells jobs of one machine apart: where its ranks meet (MASTER_ADDR:MASTER_PORT), or the "
        "launcher's own name for it; empty: not told");
  field("rank", &JobRank::rank, "from 0 on");
  field("world", &JobRank::world_size, "ranks of the job");
  field("local_world", &JobRank::local_world_size, "ranks of the job on this node");
  field("source", &JobRank::source, R"(what told the rank: "RANK", "c10d::ProcessGroupGloo")");
}

/// What stays the same over a process's life, or changes seldom (execve, reparenting). Recorded
/// when a process is first seen and again when one of these changes; the last one counts.
struct ProcessInfo {
  ProcessKey key;
  int32_t ppid = 0;
  BootNs seen_at = 0;
  std::string comm;
  std::vector<std::string> cmdline;
  Observed<std::string> exe = failure(ErrorCode::kInsufficient, "not read");
  Role role = Role::kOther;
  std::string role_basis;
  std::optional<StartMethod> start_method;
  bool orphaned = false;
  Observed<uint32_t> uid = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> signals_caught = failure(ErrorCode::kInsufficient, "not read");
  std::vector<int32_t> namespace_pids;
  Observed<uint64_t> mount_namespace = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> open_files_limit = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> cpu_time_limit = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> file_size_limit = failure(ErrorCode::kInsufficient, "not read");
  Observed<Limit> stack_limit = failure(ErrorCode::kInsufficient, "not read");
  int32_t session = 0;
  Observed<std::string> cgroup = failure(ErrorCode::kInsufficient, "not read");
  std::optional<JobRank> rank;

  /// Nothing where its signal handlers could not be read.
  std::optional<bool> catches(int signal) const {
    if (!signals_caught) return std::nullopt;
    return (*signals_caught >> static_cast<unsigned>(signal - 1) & 1U) != 0;
  }
  /// Of a job of several ranks; null where it is of none.
  const JobRank* rank_of_several() const {
    return rank && rank->world_size.value_or(2) > 1 ? &*rank : nullptr;
  }
  bool operator==(const ProcessInfo&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessInfo> /*of*/) {
  field("key", &ProcessInfo::key, "the process");
  field("ppid", &ProcessInfo::ppid, "pid of its parent, of an orphan of the one that it had");
  field("at", &ProcessInfo::seen_at, "when it was first seen", Unit::kMoment);
  field("comm", &ProcessInfo::comm, "its name as the kernel has it, up to 15 bytes; hostile text");
  field("cmdline", &ProcessInfo::cmdline, "its arguments, secrets masked; hostile text");
  field("exe", &ProcessInfo::exe, "the program that it runs");
  field("role", &ProcessInfo::role, "what it is to the loader");
  field("basis", &ProcessInfo::role_basis, "how the role was known");
  field("start_method", &ProcessInfo::start_method, "of a worker, where it can be told");
  field("orphaned", &ProcessInfo::orphaned,
        "It was forked, and whoever forked it has ended: it came to init or to another that adopts "
        "orphans");
  field("uid", &ProcessInfo::uid, "its user");
  field("sigcgt", &ProcessInfo::signals_caught,
        "signals that it catches (SigCgt): bit N-1 is signal N");
  field("nspid", &ProcessInfo::namespace_pids, "its pid in each namespace, outermost first");
  field("mnt_ns", &ProcessInfo::mount_namespace, "inode of its mount namespace");
  field("nofile", &ProcessInfo::open_files_limit, "RLIMIT_NOFILE");
  field("cpu_limit", &ProcessInfo::cpu_time_limit, "RLIMIT_CPU, in seconds");
  field("fsize_limit", &ProcessInfo::file_size_limit, "RLIMIT_FSIZE, in bytes");
  field("stack_limit", &ProcessInfo::stack_limit, "RLIMIT_STACK, in bytes");
  field("session", &ProcessInfo::session, "pid of the session's leader; 0: not read");
  field("cgroup", &ProcessInfo::cgroup, "its memory cgroup");
  field("rank", &ProcessInfo::rank,
        "of a distributed job; the children of a rank have its variables, too");
}

/// What a thread waits on.
enum class FileKind {
  kOther,
  kPipe,
  kFifo,  ///< a pipe with a name, which anybody can open
  kSocket,
  kListeningSocket,
  kConnectingSocket,  ///< the other side has not answered yet (TCP_SYN_SENT)
  kFile,
  kEventfd,
};
template <>
struct Names<FileKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"other", "pipe", "fifo", "socket", "listening socket",
                                       "connecting socket", "file", "eventfd"});
};

/// A file that a blocked thread waits on.
struct WaitedFile {
  int32_t fd = -1;
  FileKind kind = FileKind::kOther;
  uint64_t inode = 0;
  uint64_t peer = 0;
  std::string path;
  std::string storage;

  bool operator==(const WaitedFile&) const = default;
};
constexpr void list_fields(auto&& field, Of<WaitedFile> /*of*/) {
  field("fd", &WaitedFile::fd, "its descriptor; -1: none");
  field("kind", &WaitedFile::kind, "what it is");
  field("ino", &WaitedFile::inode, "of the file, pipe or socket");
  field("peer", &WaitedFile::peer,
        "Of a socket that a snapshot shows: inode of the socket at its other end, on this machine; "
        "0: not known");
  field("path", &WaitedFile::path,
        "Of a file, a FIFO or a terminal, and of one that is being opened as the program has it: "
        "its name; hostile text. Of a TCP socket: address and port of the other side");
  field("storage", &WaitedFile::storage,
        R"(of a file: type and source of its mount, "nfs4 server:/data")");
}

/// Where one thread is in the kernel at one instant (/proc/PID/task/TID/syscall).
struct ThreadWait {
  int32_t tid = 0;
  bool running = false;
  int64_t syscall = -1;
  std::array<uint64_t, 6> args = {};
  std::vector<WaitedFile> files;
  std::optional<int64_t> ends_in_ns;

  bool operator==(const ThreadWait&) const = default;
};
constexpr void list_fields(auto&& field, Of<ThreadWait> /*of*/) {
  field("tid", &ThreadWait::tid, "the thread");
  field("running", &ThreadWait::running, "on a CPU or runnable: no system call to show");
  field("nr", &ThreadWait::syscall,
        "number of the system call; -1: blocked outside of one (page fault)");
  field("args", &ThreadWait::args, "the six arguments of the system call");
  field("files", &ThreadWait::files, "that read, poll, ppoll, select or epoll_wait waits on");
  field("ends_in", &ThreadWait::ends_in_ns,
        "of a sleep, of select without files, and of a futex with a timeout: it ends so long after "
        "the look, or earlier",
        Unit::kNanoseconds);
}

/// One process at one moment: what changes.
///
/// std::optional means "not sampled at this tick"; Observed means "sampled, or why it could not
/// be".
struct ProcessSample {
  ProcessKey key;
  int32_t ppid = 0;
  char state = '?';
  uint64_t utime_ticks = 0;
  uint64_t stime_ticks = 0;
  uint64_t minor_faults = 0;
  uint64_t major_faults = 0;
  int32_t threads = 0;
  Observed<uint64_t> rss_bytes = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> rss_shared_bytes = failure(ErrorCode::kInsufficient, "not read");
  std::optional<Observed<uint64_t>> fd_count;
  std::optional<Observed<FdKinds>> fds;
  std::optional<Observed<uint64_t>> map_count;
  std::optional<Observed<uint64_t>> swap_bytes;
  std::optional<Observed<uint64_t>> pss_bytes;
  std::optional<uint64_t> pss_anon_bytes;
  std::optional<uint64_t> private_bytes;
  std::optional<uint64_t> page_table_bytes;
  std::optional<Observed<uint64_t>> io_calls;
  std::optional<Observed<std::vector<ThreadWait>>> waits;

  bool operator==(const ProcessSample&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessSample> /*of*/) {
  field("key", &ProcessSample::key, "the process");
  field("ppid", &ProcessSample::ppid, "pid of its parent");
  field("st", &ProcessSample::state, "R S D T t Z X I of /proc/PID/stat");
  field("ut", &ProcessSample::utime_ticks, "CPU time in the program, of all threads", Unit::kTicks);
  field("stt", &ProcessSample::stime_ticks, "CPU time in the kernel, of all threads", Unit::kTicks);
  field("minflt", &ProcessSample::minor_faults, "page faults without a disk, cumulative");
  field("majflt", &ProcessSample::major_faults, "page faults that read a disk, cumulative");
  field("thr", &ProcessSample::threads, "how many it has");
  field("rss", &ProcessSample::rss_bytes, "resident memory", Unit::kBytes);
  field("rshm", &ProcessSample::rss_shared_bytes, "file-backed and shmem part of rss_bytes",
        Unit::kBytes);
  field("fds", &ProcessSample::fd_count, "open descriptors");
  field("kinds", &ProcessSample::fds, "read at most once a second, where the count changed");
  field("maps", &ProcessSample::map_count, "memory mappings; read seldom");
  field("swap", &ProcessSample::swap_bytes, "swapped out", Unit::kBytes);
  field("pss", &ProcessSample::pss_bytes, "proportional share of resident memory (PSS)",
        Unit::kBytes);
  field("pss_anon", &ProcessSample::pss_anon_bytes, "anonymous part of pss_bytes (Linux 5.4+)",
        Unit::kBytes);
  field("uss", &ProcessSample::private_bytes, "pages that no other process has: USS", Unit::kBytes);
  field("pt", &ProcessSample::page_table_bytes, "page tables", Unit::kBytes);
  field("io", &ProcessSample::io_calls,
        "How often it has called read(2), write(2) and their kin (syscr + syscw of /proc/PID/io): "
        "moves whenever a batch or an index goes through a pipe, and stands while it waits in poll "
        "or futex");
  field("waits", &ProcessSample::waits, "its main thread first");
}

/// How a process ended. `wait_status` is encoded as wait(2) has it.
struct ProcessExit {
  ProcessKey key;
  BootNs at = 0;
  Observed<int32_t> wait_status = failure(ErrorCode::kInsufficient, "not read");
  std::string source;

  bool operator==(const ProcessExit&) const = default;
};
constexpr void list_fields(auto&& field, Of<ProcessExit> /*of*/) {
  field("key", &ProcessExit::key, "the process");
  field("at", &ProcessExit::at, "when dlprobe saw it, not before the exit", Unit::kMoment);
  field("status", &ProcessExit::wait_status, "as wait(2) encodes it");
  field("source", &ProcessExit::source, R"("waitid", "pidfd info", "zombie stat")");
}

}  // namespace dlprobe
