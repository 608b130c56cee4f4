#include "reports/stack_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/function_name.h"
#include "reports/sections.h"

namespace dlprobe {
namespace {

// asm/unistd_64.h of x86_64, asm-generic/unistd.h of aarch64 (-1: it has none): calls in which
// threads wait.
struct CallName {
  std::string_view name;
  int64_t x86_64;
  int64_t aarch64;
};
constexpr std::array<CallName, 33> kCalls = {{
    {"read", 0, 63},
    {"write", 1, 64},
    {"poll", 7, -1},
    {"pread64", 17, 67},
    {"pwrite64", 18, 68},
    {"readv", 19, 65},
    {"writev", 20, 66},
    {"select", 23, -1},
    {"nanosleep", 35, 101},
    {"connect", 42, 203},
    {"accept", 43, 202},
    {"sendto", 44, 206},
    {"recvfrom", 45, 207},
    {"sendmsg", 46, 211},
    {"recvmsg", 47, 212},
    {"wait4", 61, 260},
    {"flock", 73, 32},
    {"fcntl", 72, 25},
    {"fsync", 74, 82},
    {"fdatasync", 75, 83},
    {"rt_sigtimedwait", 128, 137},
    {"rt_sigsuspend", 130, 133},
    {"futex", 202, 98},
    {"clock_nanosleep", 230, 115},
    {"epoll_wait", 232, -1},
    {"waitid", 247, 95},
    {"openat", 257, 56},
    {"pselect6", 270, 72},
    {"ppoll", 271, 73},
    {"epoll_pwait", 281, 22},
    {"accept4", 288, 242},
    {"pause", 34, -1},
    {"io_getevents", 208, 4},
}};

std::string name_of_call(int64_t number, std::string_view machine) {
  for (const CallName& call : kCalls) {
    if (number == (machine == "aarch64" ? call.aarch64 : call.x86_64))
      return std::string(call.name);
  }
  return fmt::format("system call {}", number);
}

std::string describe_futex(const FutexWait& futex) {
  const bool known = futex.kind != LockKind::kUnknown;
  std::string text = known ? std::string(to_string(futex.kind)) : "futex";
  if (!futex.python_type.empty()) text += " of a " + futex.python_type;
  text += futex.inode != 0
              ? fmt::format(" in {}", futex.file.empty() ? "shared memory" : futex.file)
              : fmt::format(" {:#x}", futex.address);
  if (futex.team_size > 0) text += fmt::format(", a team of {}", futex.team_size);
  if (futex.owner_tid) text += fmt::format(", held by thread {}", *futex.owner_tid);
  if (futex.timed) text += ", with a timeout";
  return text;
}

Json futex_json(const FutexWait& futex) {
  Json entry = {{"kind", to_string(futex.kind)}, {"address", futex.address},
                {"shared", futex.shared},        {"timed", futex.timed},
                {"expected", futex.expected},    {"value", futex.value}};
  if (futex.owner_tid) entry["owner_tid"] = *futex.owner_tid;
  if (futex.team_size > 0) entry["team_size"] = futex.team_size;
  if (!futex.python_type.empty()) entry["python_type"] = json_text(futex.python_type);
  if (futex.inode != 0) {
    entry["file"] = json_text(futex.file);
    entry["inode"] = futex.inode;
    entry["offset"] = futex.offset;
  }
  return entry;
}

Json waited_file_json(const WaitedFile& file) {
  Json entry = {{"fd", file.fd}, {"kind", json_text(file.kind)}, {"inode", file.inode}};
  if (file.peer != 0) entry["peer"] = file.peer;
  if (!file.path.empty()) entry["path"] = json_text(file.path);
  return entry;
}

Json sem_lock_json(const SemLockState& lock) {
  Json entry = {{"inode", lock.inode},         {"file", json_text(lock.file)},
                {"value", lock.value},         {"max_value", lock.max_value},
                {"recursive", lock.recursive}, {"count", lock.count}};
  if (lock.last_tid) entry["last_tid"] = *lock.last_tid;
  return entry;
}

}  // namespace

std::string display_name(const StackFrame& frame) {
  return frame.python ? frame.function : short_function_name(frame.function);
}

std::string describe_wait(const ThreadSnapshot& thread, std::string_view machine) {
  if (thread.futex) return describe_futex(*thread.futex);
  if (thread.wait.running) return "";
  if (thread.wait.syscall < 0) {
    return thread.state == 'D' ? "the kernel, outside of a system call" : "";
  }
  std::string text = name_of_call(thread.wait.syscall, machine);
  constexpr size_t kMostFiles = 4;
  for (size_t i = 0; i < std::min(thread.wait.files.size(), kMostFiles); ++i) {
    const WaitedFile& file = thread.wait.files[i];
    text += fmt::format("{} {} {}", i == 0 ? " on" : ",", file.kind, file.inode);
  }
  if (thread.wait.files.size() > kMostFiles) {
    text += fmt::format(" and {} more", thread.wait.files.size() - kMostFiles);
  }
  return text;
}

Json frame_json(const StackFrame& frame) {
  Json entry = {{"kind", frame.python ? "python" : "native"},
                {"function", json_text(frame.function)}};
  const std::string name = display_name(frame);
  if (name != frame.function) entry["name"] = json_text(name);
  entry["file"] = json_text(frame.file);
  if (!frame.python) entry["offset"] = frame.offset;
  if (frame.line > 0) entry["line"] = frame.line;
  return entry;
}

namespace {

// A thread, looked at at that moment, with its whole stack, innermost frame first.
Json thread_json(const ThreadSnapshot& thread, BootNs at, std::string_view machine) {
  Json entry = {{"tid", thread.tid},
                {"comm", json_text(thread.comm)},
                {"state", json_text(std::string(1, thread.state))}};
  put_number(entry, "cpu_s", static_cast<double>(thread.cpu_ns) / 1e9);
  put_number(entry, "queued_s", static_cast<double>(thread.queued_ns) / 1e9);
  entry["timeslices"] = thread.timeslices;
  if (thread.blocked_since != 0) {
    const BootNs blocked_for = std::max<BootNs>(at - thread.blocked_since, 0);
    put_number(entry, "blocked_for_s", static_cast<double>(blocked_for) / 1e9);
  }
  entry["waits_for"] = json_text(describe_wait(thread, machine));
  if (!thread.wait.running && thread.wait.syscall >= 0) entry["syscall"] = thread.wait.syscall;
  if (thread.futex) entry["futex"] = futex_json(*thread.futex);
  Json files = Json::array();
  for (const WaitedFile& file : thread.wait.files)
    files.push_back(waited_file_json(file));
  if (!files.empty()) entry["files"] = std::move(files);
  entry["stopped"] = thread.stopped;
  entry["consistent"] = thread.consistent;
  Json stack = Json::array();
  for (const StackFrame& frame : thread.stack)
    stack.push_back(frame_json(frame));
  entry["stack"] = std::move(stack);
  if (!thread.stack_note.empty()) entry["stack_note"] = json_text(thread.stack_note);
  return entry;
}

}  // namespace

Json process_snapshot_json(const ProcessSnapshot& process, std::string_view machine) {
  Json entry = Json::object();
  if (!process.python.empty()) entry["python"] = json_text(process.python);
  if (!process.python_note.empty()) entry["python_note"] = json_text(process.python_note);
  if (process.gil_holder) entry["gil_holder"] = *process.gil_holder;
  put_number(entry, "pause_s", static_cast<double>(process.pause_ns) / 1e9);
  Json threads = Json::array();
  for (const ThreadSnapshot& thread : process.threads)
    threads.push_back(thread_json(thread, process.at, machine));
  entry["threads"] = std::move(threads);
  Json locks = Json::array();
  for (const SemLockState& lock : process.sem_locks)
    locks.push_back(sem_lock_json(lock));
  if (!locks.empty()) entry["sem_locks"] = std::move(locks);
  return entry;
}

}  // namespace dlprobe
