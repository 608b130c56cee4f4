#include "lib/collect/tree/thread_waits.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): TIMER_ABSTIME is POSIX's

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/foreign/syscalls.h"
#include "lib/os/clock.h"
#include "lib/proc/fdinfo.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_stat.h"

namespace dlprobe {
namespace {

constexpr size_t kMostPolledFiles = 16;  ///< of one wait; a data loader polls one to a few

FileKind kind_of_file(const Directory& process, const std::string& path, uint32_t mode) {
  if (S_ISFIFO(mode)) {
    // One with a name can be opened by anybody.
    const auto target = process.read_link(path);
    return target && !target->starts_with("pipe:") ? FileKind::kFifo : FileKind::kPipe;
  }
  if (S_ISSOCK(mode)) return FileKind::kSocket;
  if (S_ISREG(mode) || S_ISDIR(mode) || S_ISBLK(mode)) return FileKind::kFile;
  const auto target = process.read_link(path);
  return target && *target == "anon_inode:[eventfd]" ? FileKind::kEventfd : FileKind::kOther;
}

/// Of the mount that a path of the process lies on; empty where that is not known.
std::string storage_of(const Directory& process, const std::string& path) {
  const auto mounts = chain(process.read("mountinfo"), parse_mountinfo);
  const MountEntry* mount = mounts ? find_mount(*mounts, path) : nullptr;
  return mount == nullptr ? "" : mount->fs_type + " " + mount->source;
}

std::string terminal_behind(const Directory& process, const std::string& path) {
  constexpr std::array<std::string_view, 3> kTerminals = {"/dev/pts/", "/dev/tty", "/dev/console"};
  const std::string target = process.read_link(path).value_or("");
  const bool is_one = std::ranges::any_of(
      kTerminals, [&](std::string_view start) { return target.starts_with(start); });
  return is_one ? target : "";
}

WaitedFile describe(const Directory& process, int32_t fd) {
  WaitedFile file{.fd = fd, .inode = 0};
  const std::string path = "fd/" + std::to_string(fd);
  if (const auto stat = process.stat(path)) {
    file.inode = stat->inode;
    file.kind = kind_of_file(process, path, stat->mode);
  }
  // All of them have one inode.
  if (file.kind == FileKind::kEventfd) {
    const auto info = chain(process.read("fdinfo/" + std::to_string(fd)), parse_fdinfo);
    file.inode = info ? info->eventfd_id : 0;
  }
  if (file.kind == FileKind::kFifo) file.path = process.read_link(path).value_or("");
  if (file.kind == FileKind::kOther) file.path = terminal_behind(process, path);
  if (file.kind == FileKind::kFile) {
    file.path = process.read_link(path).value_or("");
    file.storage = storage_of(process, file.path);
  }
  return file;
}

std::vector<int32_t> polled_fds(const ProcessAccess& processes, int32_t pid,
                                const std::array<uint64_t, 6>& args) {
  std::vector<pollfd> polled(std::min<uint64_t>(args[1], kMostPolledFiles));
  if (polled.empty() ||
      !processes.read_memory(pid, args[0], std::as_writable_bytes(std::span(polled)))) {
    return {};
  }
  std::vector<int32_t> fds;
  for (const pollfd& one : polled) {
    if (one.fd >= 0) fds.push_back(one.fd);
  }
  return fds;
}

/// The read set of select: the one that a wait for data uses.
std::vector<int32_t> selected_fds(const ProcessAccess& processes, int32_t pid,
                                  const std::array<uint64_t, 6>& args) {
  const auto count = static_cast<int32_t>(std::min<uint64_t>(args[0], FD_SETSIZE));
  fd_set set;
  FD_ZERO(&set);
  if (args[1] == 0 ||
      !processes.read_memory(pid, args[1], std::as_writable_bytes(std::span(&set, 1)))) {
    return {};
  }
  std::vector<int32_t> fds;
  for (int32_t fd = 0; fd < count && fds.size() < kMostPolledFiles; ++fd) {
    if (FD_ISSET(fd, &set)) fds.push_back(fd);
  }
  return fds;
}

std::vector<int32_t> epoll_fds(const Directory& process, const std::array<uint64_t, 6>& args) {
  const auto info = chain(process.read("fdinfo/" + std::to_string(args[0])), parse_fdinfo);
  if (!info) return {};
  std::vector<int32_t> fds = info->epoll_targets;
  if (fds.size() > kMostPolledFiles) fds.resize(kMostPolledFiles);
  return fds;
}

std::vector<int32_t> waited_fds(const ProcessAccess& processes, const Directory& process,
                                int32_t pid, const SyscallFile& call) {
  const Syscall* known = find_syscall(call.number, own_syscall_machine());
  switch (known == nullptr ? FileArgument::kNone : known->files) {
    case FileArgument::kDescriptor:
      return {static_cast<int32_t>(call.args[0])};
    case FileArgument::kPoll:
      return polled_fds(processes, pid, call.args);
    case FileArgument::kSelect:
      return selected_fds(processes, pid, call.args);
    case FileArgument::kEpoll:
      return epoll_fds(process, call.args);
    case FileArgument::kNone:
      return {};
  }
  return {};
}

/// Two numbers in the target's memory: seconds, and parts of one.
std::optional<int64_t> time_at(const ProcessAccess& processes, int32_t pid, uint64_t address,
                               int64_t ns_of_part) {
  std::array<int64_t, 2> time = {};
  if (address == 0 || !processes.read_memory(pid, address, std::as_writable_bytes(std::span(time))))
    return std::nullopt;
  constexpr int64_t kLongest = int64_t{1} << 33U;  // seconds; more is no time
  if (time[0] < 0 || time[0] > kLongest) return std::nullopt;
  return time[0] * kSecond + time[1] * ns_of_part;
}

/// Of a futex; nothing where it has no timeout.
std::optional<int64_t> rest_of_futex(const ProcessAccess& processes, int32_t pid,
                                     const SyscallFile& call) {
  const auto operation = static_cast<int>(call.args[1]);
  const int command = operation & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return std::nullopt;
  const auto time = time_at(processes, pid, call.args[3], 1);
  if (!time || command == FUTEX_WAIT) return time;
  const auto now =
      time_by((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC);
  return now ? std::optional(std::max<int64_t>(*time - *now, 0)) : std::nullopt;
}

/// How long a sleep, or a wait in a futex that has a timeout, goes on at most.
std::optional<int64_t> rest_of_wait(const ProcessAccess& processes, int32_t pid,
                                    const SyscallFile& call) {
  switch (call.number) {
    case SYS_futex:
      return rest_of_futex(processes, pid, call);
    case SYS_nanosleep:
      return time_at(processes, pid, call.args[0], 1);
    case SYS_clock_nanosleep: {
      const auto until = time_at(processes, pid, call.args[2], 1);
      if (!until || (call.args[1] & TIMER_ABSTIME) == 0) return until;
      const auto now = time_by(static_cast<int>(call.args[0]));
      return now ? std::optional(std::max<int64_t>(*until - *now, 0)) : std::nullopt;
    }
#ifdef SYS_select  // other architectures have pselect6 alone
    case SYS_select:
      return time_at(processes, pid, call.args[4], 1000);
#endif
    case SYS_pselect6:
      return time_at(processes, pid, call.args[4], 1);
    default:
      return std::nullopt;
  }
}

/// A string of the target's memory; nothing where it cannot be read or is longer than a path.
std::optional<std::string> string_at(const ProcessAccess& processes, int32_t pid,
                                     uint64_t address) {
  constexpr uint64_t kPage = 4096;  // what follows a string's page may not be mapped
  std::string text;
  while (text.size() < PATH_MAX) {
    const uint64_t at = address + text.size();
    std::string piece(kPage - at % kPage, '\0');
    if (!processes.read_memory(pid, at, std::as_writable_bytes(std::span(piece)))) break;
    const size_t end = piece.find('\0');
    text += piece.substr(0, end);
    if (end != std::string::npos) return text;
  }
  return std::nullopt;
}

/// The path that a thread in open(2) opens, and the folder of the process's /proc directory that it
/// is relative to.
struct OpenedPath {
  std::string path;
  std::string base;
};
std::optional<OpenedPath> opened_path(const ProcessAccess& processes, int32_t pid,
                                      const SyscallFile& call) {
  uint64_t address = 0;
  std::string base = "cwd";
  switch (call.number) {
#ifdef SYS_open  // architectures since aarch64 have openat alone
    case SYS_open:
      address = call.args[0];
      break;
#endif
    case SYS_openat:
    case SYS_openat2:
      address = call.args[1];
      if (const auto fd = static_cast<int32_t>(call.args[0]); fd != AT_FDCWD) {
        base = "fd/" + std::to_string(fd);
      }
      break;
    default:
      return std::nullopt;
  }
  auto path = string_at(processes, pid, address);
  if (!path || path->empty()) return std::nullopt;
  if (path->starts_with('/')) base = "root";
  return OpenedPath{.path = std::move(*path), .base = std::move(base)};
}

/// An open(2) that lasts is one of a FIFO, or of a file system that does not answer: which of the
/// two the file's own kind tells, but a file system that does not answer is not asked.
std::optional<WaitedFile> file_to_open(const ProcessAccess& processes, const Directory& process,
                                       const ProcessThread& thread, const SyscallFile& call) {
  auto opened = opened_path(processes, thread.pid, call);
  if (!opened) return std::nullopt;
  WaitedFile file{.fd = -1, .inode = 0};
  const std::string task = "task/" + std::to_string(thread.tid);
  // fifo_open waits in wait_for_partner (fs/pipe.c).
  if (process.read(task + "/wchan").value_or("") == "wait_for_partner") {
    file.kind = FileKind::kFifo;
    if (const auto stat = process.stat(opened->base + "/" + opened->path);
        stat && S_ISFIFO(stat->mode)) {
      file.inode = stat->inode;
    }
  } else {
    const std::string folder = process.read_link(opened->base).value_or("");
    const bool is_absolute = opened->path.starts_with('/');
    file.storage = storage_of(process, is_absolute ? opened->path : folder + "/" + opened->path);
  }
  file.path = std::move(opened->path);
  return file;
}

std::vector<int32_t> thread_ids(const std::vector<std::string>& names, int32_t main_thread) {
  std::vector<int32_t> tids;
  for (const std::string& name : names) {
    if (const auto tid = parse_int<int32_t>(name)) tids.push_back(*tid);
  }
  std::ranges::sort(tids, [main_thread](int32_t a, int32_t b) {
    return std::pair(a != main_thread, a) < std::pair(b != main_thread, b);
  });
  return tids;
}

}  // namespace

Observed<std::vector<int32_t>> list_threads(const Directory& process, int32_t pid, size_t limit) {
  DLP_TRY(const auto names, process.list("task"));
  std::vector<int32_t> tids = thread_ids(names, pid);
  if (tids.size() > limit) tids.resize(limit);
  return tids;
}

int32_t image_thread(const Directory& process, int32_t pid) {
  const auto stat = chain(process.read("stat"), parse_pid_stat);
  if (!stat || stat->state != 'Z') return pid;
  const auto tids = list_threads(process, pid, 2);
  return tids && tids->size() > 1 ? tids->back() : pid;
}

ThreadWait describe_wait(const ProcessAccess& processes, const Directory& process,
                         const ProcessThread& thread, const SyscallFile& call) {
  ThreadWait wait{
      .tid = thread.tid, .running = call.running, .syscall = call.number, .args = call.args};
  for (const int32_t fd : waited_fds(processes, process, thread.pid, call)) {
    wait.files.push_back(describe(process, fd));
  }
  if (auto file = file_to_open(processes, process, thread, call)) {
    wait.files.push_back(std::move(*file));
  }
  if (wait.files.empty() && !call.running)
    wait.ends_in_ns = rest_of_wait(processes, thread.pid, call);
  return wait;
}

Observed<std::vector<ThreadWait>> read_thread_waits(const ProcessAccess& processes,
                                                    const Directory& process, int32_t pid,
                                                    size_t limit) {
  DLP_TRY(const auto tids, list_threads(process, pid, limit));
  std::vector<ThreadWait> waits;
  std::optional<Error> first_error;
  for (const int32_t tid : tids) {
    const auto call =
        chain(process.read("task/" + std::to_string(tid) + "/syscall"), parse_syscall_file);
    if (call) {
      waits.push_back(describe_wait(processes, process, {.pid = pid, .tid = tid}, *call));
    } else if (!first_error) {
      first_error = call.error();
    }
  }
  if (waits.empty() && first_error) return std::unexpected(*first_error);
  return waits;
}

}  // namespace dlprobe
