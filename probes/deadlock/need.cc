#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "lib/base/units.h"
#include "lib/foreign/libraries.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/need_parts.h"
#include "probes/deadlock/ranks.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

// Its own process has the lock of the file by which it sleeps.
bool has_it_itself(const Facts& facts, const ThreadFacts& thread) {
  return std::ranges::any_of(facts.last->channel_ends, [&](const ChannelEnd& end) {
    return end.kind == EndKind::kFileLock && end.writes && end.pid == thread.process->key.pid &&
           std::ranges::count(thread.thread->wait.files, end.inode, &WaitedFile::inode) > 0;
  });
}

class AnyNeed : public Waiter {
 public:
  using Waiter::Waiter;

  Need read() const {
    if (!waiter_.process->frozen_by.empty()) {
      return {.kind = NeedKind::kContinue,
              .words = "its cgroup to be thawed (" + as_path(waiter_.process->frozen_by) + ")",
              .others_may = false};
    }
    if (thread_.state == 'T' || thread_.state == 't') {
      return {.kind = NeedKind::kContinue,
              .words = "SIGCONT: it is stopped (state " + own(std::string(1, thread_.state)) + ")",
              .others_may = false};
    }
    if (thread_.state == 'D' && kind_of(thread_.wait, facts_.machine) == WaitKind::kVfork) {
      return {.kind = NeedKind::kOutside,
              .words = "its new child to call execve or to end (vfork)"};
    }
    if (thread_.state == 'D') return need_of_storage(waiter_);
    if (thread_.state == 'Z') {
      return {.kind = NeedKind::kOutside, .words = "nothing: it has ended, without its process"};
    }
    if (thread_.wait.running) return {.kind = NeedKind::kNothing};
    if (thread_.futex) return need_of_futex(facts_, waiter_);
    switch (kind_of(thread_.wait, facts_.machine)) {
      case WaitKind::kPoll:
      case WaitKind::kSelect:
      case WaitKind::kEpoll:
      case WaitKind::kRead:
        return need_of_files(facts_, waiter_, true);
      case WaitKind::kWrite:
        return need_of_files(facts_, waiter_, false);
      case WaitKind::kSleep:
        return of_sleep();
      case WaitKind::kWaitForChild:
        return of_child();
      case WaitKind::kLockFile:
        return of_file_lock();
      case WaitKind::kOpen:
        return of_open();
      case WaitKind::kSignal:
        return {.kind = NeedKind::kOutside, .words = "a signal"};
      case WaitKind::kAccept:
        return need_of_accept(waiter_);
      default:
        return need_of_files(facts_, waiter_, true);
    }
  }

 private:
  Need of_child() const {
    const auto pid = static_cast<int32_t>(thread_.wait.args[0]);
    const auto wanted = static_cast<int32_t>(thread_.wait.args[1]);
    // wait4 has the pid first, waitid a kind (1: P_PID) and the pid.
    const Syscall* call = find_syscall(thread_.wait.syscall, facts_.machine);
    const bool is_waitid = pid == 1 && call != nullptr && call->name == "waitid";
    const int32_t child = is_waitid ? wanted : pid;
    Need need{.kind = NeedKind::kChild, .words = "a child process to end", .relation = "waits for"};
    if (child <= 1) return need;
    need.providers = threads_of(child);
    if (need.providers.empty()) return need;
    const ProcessKey& key = facts_.threads[need.providers.front()].process->key;
    const ProcessInfo* info = facts_.run->find_process(key);
    const bool has_program = info != nullptr && info->role == Role::kOther;
    need.words = describe(*facts_.run, key) +
                 (has_program ? " (" + as_name(info->comm) + ")" : Message()) + " to end";
    need.others_may = false;
    return need;
  }

  // Whoever asks for a lock again and again has its file open. The sleep may have another reason.
  Need of_sleep() const {
    Need need{.kind = NeedKind::kNothing, .words = "the end of a sleep"};
    const BootNs ends_in = thread_.wait.ends_in_ns.value_or(0);
    if (ends_in >= kSecond)
      need.words += ", in " + format_duration(std::chrono::nanoseconds(ends_in)) + " at most";
    if (asks_for_lock(facts_, thread_.wait)) {
      Need lock = of_file_lock();
      if (is_in_file_lock()) return lock;
      if (!has_it_itself(facts_, waiter_)) need.words += ", maybe for " + lock.words;
    } else if (const WaitedFile* file = polled_file(waiter_)) {
      const ChannelEnd* end = end_of_file(facts_, *file);
      need.words += ", maybe until the file " + as_path(file->path) + " is removed, which " +
                    (end == nullptr ? Message("no process") : "process " + own(end->pid)) +
                    " has open";
    }
    return need;
  }

  // The package filelock tries for the lock again and again, and so does SQLite (its busy timeout).
  bool is_in_file_lock() const {
    const StackFrame* frame = python_frame(thread_);
    return (frame != nullptr && frame->file.contains("/site-packages/filelock/")) ||
           blamed_library(thread_).starts_with("libsqlite3.");
  }

  Need of_file_lock() const {
    Need need{.kind = NeedKind::kFileLock, .words = "a lock of a file", .relation = "held by"};
    if (thread_.wait.files.empty()) return need;
    const std::string& path = thread_.wait.files.front().path;
    if (!path.empty()) need.words = "a lock of the file " + as_path(path);
    const uint64_t inode = thread_.wait.files.front().inode;
    need.object = "file " + own(inode);
    need.label = "lock of file " + own(inode);
    std::optional<int32_t> held_outside;
    bool held = false;
    const auto has_it = [&](const ChannelEnd& end) {
      return end.inode == inode && end.kind == EndKind::kFileLock && end.writes;
    };
    // Of who took it forked children have the open file, and with it the lock, too.
    const bool is_taker_there = std::ranges::any_of(
        facts_.last->channel_ends, [&](const ChannelEnd& end) { return has_it(end) && end.reads; });
    for (const ChannelEnd& end : facts_.last->channel_ends) {
      if (!has_it(end)) continue;
      held = true;
      const auto threads = threads_of(end.pid);
      if (threads.empty()) held_outside = end.pid;
      // By another open file its own process, or the thread itself, may have it.
      const bool is_copy = is_taker_there && !end.reads;
      std::ranges::copy(threads, std::back_inserter(is_copy ? need.savers : need.providers));
    }
    need.others_may = !held || held_outside || !facts_.last->all_ends_seen;
    if (!need.providers.empty()) {
      need.words +=
          " held by " + describe(*facts_.run, facts_.threads[need.providers.front()].process->key);
    } else if (held_outside) {
      need.words += " held by process " + own(*held_outside);
    }
    return need;
  }

  // Of a FIFO it waits for whoever opens the other side: anybody who knows its name.
  Need of_open() const {
    Need need{.kind = NeedKind::kOutside, .words = "the opening of a file"};
    if (thread_.wait.files.empty()) return need;
    const WaitedFile& file = thread_.wait.files.front();
    if (file.path.empty()) return need;
    if (file.kind != FileKind::kFifo) return need_of_storage(waiter_);
    need.words = "someone to open the other end of the FIFO " + as_path(file.path);
    return need;
  }
};

}  // namespace

std::vector<size_t> Waiter::others_of_the_process() const {
  std::vector<size_t> threads = threads_of(waiter_.process->key.pid);
  std::erase_if(threads, [&](size_t each) { return facts_.threads[each].thread == &thread_; });
  return threads;
}

bool Waiter::is_beside_the_point(size_t other) const {
  return facts_.threads[other].serves_group && !waiter_.serves_group && !collective_of(thread_);
}

std::vector<size_t> Waiter::threads_of(int32_t pid) const {
  const auto found = facts_.wakers.find(pid);
  return found == facts_.wakers.end() ? std::vector<size_t>() : found->second;
}

std::string Waiter::object_id(std::string_view what, uint64_t address) const {
  return fmt::format("{} {}:{:#x}", what, waiter_.process->key.pid, address);
}

Message Waiter::in_library() const {
  if (thread_.futex && thread_.futex->kind == LockKind::kLowLevelLock) {
    // Of the C library itself: the function that the program called.
    for (const StackFrame& frame : thread_.stack)
      if (!frame.python && is_libc(frame.file) && !frame.function.empty())
        return " of the C library in " + as_name(frame.function);
  }
  const std::string library = blamed_library(thread_);
  return library.empty() ? "" : " in " + as_path(library);
}

bool asks_for_lock(const Facts& facts, const ThreadWait& wait) {
  return std::ranges::any_of(wait.files, [&](const WaitedFile& file) {
    return file.fd >= 0 || std::ranges::any_of(facts.last->channel_ends, [&](const auto& end) {
             return end.inode == file.inode && end.kind == EndKind::kFileLock && end.writes;
           });
  });
}

bool may_sleep_for_a_lock(const Facts& facts, const ThreadFacts& thread) {
  return thread.need.kind == NeedKind::kNothing && asks_for_lock(facts, thread.thread->wait) &&
         !has_it_itself(facts, thread);
}

const WaitedFile* polled_file(const ThreadFacts& thread) {
  const auto& files = thread.thread->wait.files;
  const bool is_named = polls_by_sleep(thread) && !files.empty() && files.front().fd < 0;
  const bool is_same = std::ranges::all_of(thread.looks, [&](const Look& look) {
    return look.thread->wait.running || look.thread->wait.files == files;
  });
  return is_named && is_same ? &files.front() : nullptr;
}

const ChannelEnd* end_of_file(const Facts& facts, const WaitedFile& file) {
  const auto& ends = facts.last->channel_ends;
  const auto found = std::ranges::find_if(ends, [&](const ChannelEnd& end) {
    return end.inode == file.inode && end.kind == EndKind::kFileLock;
  });
  return found == ends.end() ? nullptr : &*found;
}

Need need_of(const Facts& facts, const ThreadFacts& waiter) {
  return AnyNeed(facts, waiter).read();
}

}  // namespace dlprobe::probes::deadlock
