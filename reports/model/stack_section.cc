#include "reports/model/stack_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/function_name.h"
#include "lib/foreign/syscalls.h"
#include "reports/model/sections.h"

namespace dlprobe {
namespace {

std::string name_of_call(int64_t number, std::string_view machine) {
  // Recordings of other machines than these two have had the names of x86_64.
  const Syscall* call = find_syscall(number, machine == "aarch64" ? machine : "x86_64");
  return call == nullptr ? fmt::format("system call {}", number) : std::string(call->name);
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

report::Futex futex_of(const FutexWait& futex) {
  report::Futex entry;
  entry.kind = to_string(futex.kind);
  entry.address = futex.address;
  entry.shared = futex.shared;
  entry.timed = futex.timed;
  entry.expected = futex.expected;
  entry.value = futex.value;
  entry.owner_tid = futex.owner_tid;
  if (futex.team_size > 0) entry.team_size = futex.team_size;
  entry.python_type = report::if_any(futex.python_type);
  if (futex.inode != 0) {
    entry.file = futex.file;
    entry.inode = futex.inode;
    entry.offset = futex.offset;
  }
  return entry;
}

report::WaitedFile waited_file_of(const WaitedFile& file) {
  report::WaitedFile entry;
  entry.fd = file.fd;
  entry.kind = to_string(file.kind);
  entry.inode = file.inode;
  if (file.peer != 0) entry.peer = file.peer;
  entry.path = report::if_any(file.path);
  return entry;
}

report::SemLock sem_lock_of(const SemLockState& lock) {
  return {.inode = lock.inode,
          .file = lock.file,
          .value = lock.value,
          .max_value = lock.max_value,
          .recursive = lock.recursive,
          .count = lock.count,
          .last_tid = lock.last_tid};
}

double seconds_of(auto nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

// A thread, looked at at that moment, with its whole stack, innermost frame first.
report::Thread thread_of(const ThreadSnapshot& thread, BootNs at, std::string_view machine) {
  report::Thread entry;
  entry.tid = thread.tid;
  entry.comm = thread.comm;
  entry.state = std::string(1, thread.state);
  entry.cpu_s = seconds_of(thread.cpu_ns);
  entry.queued_s = seconds_of(thread.queued_ns);
  entry.timeslices = thread.timeslices;
  if (thread.blocked_since != 0)
    entry.blocked_for_s = seconds_of(std::max<BootNs>(at - thread.blocked_since, 0));
  entry.waits_for = describe_wait(thread, machine);
  if (!thread.wait.running && thread.wait.syscall >= 0)
    entry.syscall = as_count(thread.wait.syscall);
  entry.futex = thread.futex.transform(futex_of);
  std::vector<report::WaitedFile> files;
  files.reserve(thread.wait.files.size());
  for (const WaitedFile& file : thread.wait.files)
    files.push_back(waited_file_of(file));
  entry.files = report::if_any(std::move(files));
  entry.stopped = thread.stopped;
  entry.consistent = thread.consistent;
  for (const StackFrame& frame : thread.stack)
    entry.stack.push_back(frame_of(frame));
  entry.stack_note = report::if_any(thread.stack_note);
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
    text += fmt::format("{} {} {}", i == 0 ? " on" : ",", to_string(file.kind), file.inode);
  }
  if (thread.wait.files.size() > kMostFiles) {
    text += fmt::format(" and {} more", thread.wait.files.size() - kMostFiles);
  }
  return text;
}

report::Frame frame_of(const StackFrame& frame) {
  report::Frame entry;
  entry.kind = frame.python ? report::FrameKind::kPython : report::FrameKind::kNative;
  entry.function = frame.function;
  std::string name = display_name(frame);
  if (name != frame.function) entry.name = std::move(name);
  entry.file = frame.file;
  if (!frame.python) entry.offset = frame.offset;
  if (frame.line > 0) entry.line = as_count(frame.line);
  return entry;
}

report::LastLook last_look_of(const ProcessSnapshot& process, std::string_view machine) {
  report::LastLook entry;
  entry.python = report::if_any(process.python);
  entry.python_note = report::if_any(process.python_note);
  entry.gil_holder = process.gil_holder;
  entry.pause_s = seconds_of(process.pause_ns);
  for (const ThreadSnapshot& thread : process.threads)
    entry.threads.push_back(thread_of(thread, process.at, machine));
  std::vector<report::SemLock> locks;
  locks.reserve(process.sem_locks.size());
  for (const SemLockState& lock : process.sem_locks)
    locks.push_back(sem_lock_of(lock));
  entry.sem_locks = report::if_any(std::move(locks));
  return entry;
}

}  // namespace dlprobe
