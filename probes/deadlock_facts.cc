#include "probes/deadlock_facts.h"

#include <algorithm>
#include <string_view>

namespace dlprobe {
namespace {

const ProcessSnapshot* find_process(const TreeSnapshot& tree, const ProcessKey& key) {
  const auto found = std::ranges::find(tree.processes, key, &ProcessSnapshot::key);
  return found == tree.processes.end() ? nullptr : &*found;
}

const ThreadSnapshot* find_thread_of(const ProcessSnapshot& process, int32_t tid) {
  const auto found = std::ranges::find(process.threads, tid, &ThreadSnapshot::tid);
  return found == process.threads.end() ? nullptr : &*found;
}

// A thread that never ran in between is still in the same wait. One that dlprobe stopped and let go
// has run for as long as it takes to enter the same call again.
bool stood_still(const ThreadSnapshot& before, const ThreadSnapshot& after) {
  constexpr uint64_t kWokenByALook = 4;  // timeslices
  constexpr uint64_t kTimeOfALook = 200'000;
  const uint64_t slices = before.stopped ? kWokenByALook : 0;
  const uint64_t time = before.stopped ? kTimeOfALook : 0;
  return !after.wait.running && after.timeslices <= before.timeslices + slices &&
         after.cpu_ns <= before.cpu_ns + time && before.wait.syscall == after.wait.syscall &&
         before.wait.args == after.wait.args;
}

// The earliest snapshot since which the thread has not moved; nothing if it moved before the last.
std::optional<BootNs> still_since(const Run& run, const ProcessKey& key,
                                  const ThreadSnapshot& thread) {
  std::optional<BootNs> since;
  for (auto tree = run.snapshots.rbegin() + 1; tree != run.snapshots.rend(); ++tree) {
    const ProcessSnapshot* process = find_process(*tree, key);
    const ThreadSnapshot* before =
        process == nullptr ? nullptr : find_thread_of(*process, thread.tid);
    if (before == nullptr || !stood_still(*before, thread)) break;
    since = tree->at;
  }
  return since;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

const StackFrame* blamed_frame(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return !frame.python && !frame.file.empty() && !is_libc(frame.file);
  });
  return found == thread.stack.end() ? nullptr : &*found;
}

}  // namespace

bool is_libc(std::string_view file) {
  const std::string_view name = base_name(file);
  return name.starts_with("libc.so") || name.starts_with("libc-2.") ||
         name.starts_with("libpthread") || name.starts_with("ld-musl");
}

const StuckThread* DeadlockFacts::find(const ProcessKey& process, int32_t tid) const {
  const auto found = std::ranges::find_if(stuck, [&](const StuckThread& each) {
    return each.process->key == process && each.thread->tid == tid;
  });
  return found == stuck.end() ? nullptr : &*found;
}

DeadlockFacts deadlock_facts(const Run& run) {
  DeadlockFacts facts{.run = &run};
  if (run.snapshots.empty()) return facts;
  facts.last = &run.snapshots.back();
  facts.span = facts.last->at - run.snapshots.front().at;
  for (const ProcessSnapshot& process : facts.last->processes) {
    for (const ThreadSnapshot& thread : process.threads) {
      const auto since = still_since(run, process.key, thread);
      if (since) {
        facts.stuck.push_back({.process = &process, .thread = &thread, .since = *since});
      }
    }
  }
  return facts;
}

int32_t own_pid(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  if (process == nullptr || process->namespace_pids.empty()) return key.pid;
  return process->namespace_pids.back();
}

std::optional<ThreadPlace> find_thread(const DeadlockFacts& facts, int32_t tid) {
  for (const ProcessSnapshot& process : facts.last->processes) {
    if (const ThreadSnapshot* thread = find_thread_of(process, tid)) {
      return ThreadPlace{.process = &process, .thread = thread};
    }
  }
  return std::nullopt;
}

bool is_forked_copy(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  return process != nullptr && process->start_method &&
         *process->start_method != StartMethod::kSpawn;
}

std::string blamed_function(const ThreadSnapshot& thread) {
  const StackFrame* frame = blamed_frame(thread);
  return frame == nullptr ? "" : frame->function;
}

std::string blamed_library(const ThreadSnapshot& thread) {
  const StackFrame* frame = blamed_frame(thread);
  return frame == nullptr ? "" : std::string(base_name(frame->file));
}

}  // namespace dlprobe
