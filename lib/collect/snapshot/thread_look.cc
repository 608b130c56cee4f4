#include "lib/collect/snapshot/thread_look.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "lib/collect/tree/thread_waits.h"
#include "lib/proc/pid_stat.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/schedstat.h"
#include "lib/stacks/locks/futex_wait.h"

namespace dlprobe {
namespace {

/// Nothing on a kernel without.
std::optional<SchedStat> read_schedstat(const Directory& process, const std::string& task) {
  const auto stat = chain(process.read(task + "/schedstat"), parse_schedstat);
  return stat ? std::optional(*stat) : std::nullopt;
}

}  // namespace

std::optional<ThreadSnapshot> ThreadLook::look_at(int32_t tid, Unwinder& unwinder) {
  const Directory& process = *image_.target.directory;
  const std::string task = "task/" + std::to_string(tid);
  ThreadSnapshot thread{.tid = tid, .wait = {.tid = tid}};
  seen_.slices[tid] = read_schedstat(process, task);
  const auto stat = chain(process.read(task + "/stat"), parse_pid_stat);
  if (!stat) return std::nullopt;
  thread.comm = stat->comm;
  thread.start_ticks = stat->start_ticks;
  thread.state = stat->state;
  thread.cpu_ns = static_cast<uint64_t>(ns_of_ticks(stat->utime_ticks + stat->stime_ticks));
  if (image_.status.namespace_pids.size() > 1) thread.own_tid = read_own_tid(task);
  if (is_kernel_thread(*stat)) is_of_kernel_ = true;
  auto call = chain(process.read(task + "/syscall"), parse_syscall_file);
  if (call) *call = image_.kept.calls.resolve(image_.target.key, tid, *call);
  if (stat->state == 'Z' || stat->state == 'X') {
    thread.stack_note = "it has ended";
  } else if (!call) {
    if (call.error().code == ErrorCode::kForbidden) image_.forbidden = call.error();
    thread.stack_note = to_string(call.error());
  } else if (call->running || call->stack_pointer == 0) {
    thread.wait.running = call->running;
    thread.stack_note = "it was running";
    seen_.to_stop.insert(tid);
  } else {
    thread.wait = describe_wait(*image_.machine.processes, process,
                                {.pid = image_.main_thread, .tid = tid}, *call);
    walk(*call, thread, unwinder);
  }
  if (call && !call->running) {
    thread.blocked_since =
        image_.kept.last_run.of(process, task, stat->processor).value_or(thread.blocked_since);
  }
  mark_consistent(thread);
  return thread;
}

int32_t ThreadLook::read_own_tid(const std::string& task) const {
  const auto status = chain(image_.target.directory->read(task + "/status"), parse_pid_status);
  return status && !status->namespace_pids.empty() ? status->namespace_pids.back() : 0;
}

bool ThreadLook::has_moved_on(const ThreadSnapshot& thread) const {
  const Directory& process = *image_.target.directory;
  const std::string task = "task/" + std::to_string(thread.tid);
  const auto known = seen_.calls.find(thread.tid);
  if (known == seen_.calls.end()) return false;
  auto call = chain(process.read(task + "/syscall"), parse_syscall_file);
  if (!call || call->running) return true;
  *call = image_.kept.calls.resolve(image_.target.key, thread.tid, *call);
  const bool is_same =
      call->number == known->second.number && call->stack_pointer == known->second.stack_pointer;
  // Whoever was stopped has run since, to go on waiting.
  if (!is_same || thread.stopped) return !is_same;
  return seen_.slices.at(thread.tid) != read_schedstat(process, task);
}

void ThreadLook::mark_consistent(ThreadSnapshot& thread) const {
  const auto before = seen_.slices.at(thread.tid);
  const auto after = read_schedstat(*image_.target.directory, "task/" + std::to_string(thread.tid));
  thread.consistent = before && after && *before == *after;
  if (!thread.consistent) thread.blocked_since = 0;
  if (!after) return;
  thread.cpu_ns = after->cpu_ns;
  thread.queued_ns = after->queued_ns;
  thread.timeslices = after->timeslices;
}

void ThreadLook::look_again_at_moved(ProcessSnapshot& snapshot, Unwinder& unwinder) {
  constexpr int kMostLooks = 3;
  for (int i = 0; i < kMostLooks; ++i) {
    std::vector<ThreadSnapshot*> moved;
    for (ThreadSnapshot& thread : snapshot.threads) {
      if (thread.state == 'Z' || seen_.to_stop.contains(thread.tid)) continue;
      mark_consistent(thread);
      if (!thread.consistent && seen_.slices.at(thread.tid)) moved.push_back(&thread);
    }
    if (moved.empty()) return;
    image_.memory.forget();
    for (ThreadSnapshot* thread : moved) {
      if (auto again = look_at(thread->tid, unwinder)) *thread = std::move(*again);
    }
    image_.python.read();
  }
}

void ThreadLook::walk(const SyscallFile& call, ThreadSnapshot& thread, Unwinder& unwinder) {
  if (const Mapping* stack = image_.space.find(call.stack_pointer)) {
    image_.memory.preload(call.stack_pointer,
                          std::min(stack->end, call.stack_pointer + kStackPreload));
  }
  seen_.stack_pointers[thread.tid] = call.stack_pointer;
  thread.futex = decode_futex_wait(call, image_.memory, image_.space);
  const Registers* held =
      image_.kept.held.find({image_.target.key, thread.tid}, call, seen_.slices.at(thread.tid));
  const NativeStack stack =
      unwinder.unwind(held != nullptr ? *held
                                      : Registers{.program_counter = call.program_counter,
                                                  .stack_pointer = call.stack_pointer});
  seen_.calls.insert_or_assign(thread.tid, call);
  // One in uninterruptible sleep would not stop, and keep the others waiting.
  if (stack.needs_registers && thread.state != 'D') seen_.to_stop.insert(thread.tid);
  put(stack, thread);
}

void ThreadLook::put(const NativeStack& stack, ThreadSnapshot& thread) {
  thread.stack_note = stack.cut_off;
  thread.stack.clear();
  for (const uint64_t address : stack.program_counters)
    thread.stack.push_back(frames_.frame_at(address));
}

}  // namespace dlprobe
