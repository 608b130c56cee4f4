#include "lib/collect/snapshot/thread_pause.h"

#include <algorithm>
#include <string>
#include <vector>

#include "lib/collect/tree/thread_waits.h"
#include "lib/stacks/locks/futex_wait.h"

namespace dlprobe {
namespace {

void add_note(ThreadSnapshot& thread, const std::string& why) {
  if (thread.stack_note.ends_with(why)) return;
  thread.stack_note += (thread.stack_note.empty() ? "" : "; ") + why;
}

ThreadSnapshot& thread_of(ProcessSnapshot& snapshot, int32_t tid) {
  return *std::ranges::find(snapshot.threads, tid, &ThreadSnapshot::tid);
}

}  // namespace

void ThreadPause::stop_and_look(ProcessSnapshot& snapshot, Unwinder& unwinder,
                                std::chrono::nanoseconds longest) {
  if (seen_.to_stop.empty()) return;
  std::chrono::nanoseconds left = longest;
  constexpr int kMostStops = 2;
  for (int i = 0; i < kMostStops && left.count() > 0; ++i) {
    for (const ThreadSnapshot& thread : snapshot.threads) {
      const bool woke = i > 0 && !thread.consistent && seen_.slices.at(thread.tid);
      if ((thread.futex && thread.futex->timed) || woke) seen_.to_stop.insert(thread.tid);
    }
    left -= stop_once(snapshot, unwinder, left);
    if (std::ranges::all_of(snapshot.threads, &ThreadSnapshot::consistent)) return;
  }
  const auto moves = [&](const ThreadSnapshot& thread) {
    return !thread.consistent && seen_.to_stop.contains(thread.tid);
  };
  if (std::ranges::any_of(snapshot.threads, moves)) image_.python.read_until_steady(image_.memory);
}

std::chrono::nanoseconds ThreadPause::stop_once(ProcessSnapshot& snapshot, Unwinder& unwinder,
                                                std::chrono::nanoseconds budget) {
  const std::vector<int32_t> tids(seen_.to_stop.begin(), seen_.to_stop.end());
  image_.python.expect_moved(snapshot, image_.space, seen_.stack_pointers, seen_.to_stop);
  const ThreadStop stop = stop_threads(tids, budget, [&](std::span<const StoppedThread> threads) {
    copy_stacks(threads);
    image_.python.read_moved();
  });
  snapshot.pause_ns += stop.pause.count();
  for (ThreadSnapshot& thread : snapshot.threads)
    look_.mark_consistent(thread);
  for (const NotStopped& missed : stop.not_stopped)
    note_not_stopped(missed, thread_of(snapshot, missed.tid));
  for (const StoppedThread& stopped : stop.threads)
    take(stopped, stop.in_time, thread_of(snapshot, stopped.tid), unwinder);
  return stop.pause;
}

void ThreadPause::note_not_stopped(const NotStopped& missed, ThreadSnapshot& thread) {
  thread.consistent = false;
  // It stops, and goes on, when it gets a CPU: that is no progress of its own.
  thread.stopped = missed.why.code == ErrorCode::kTimeout;
  add_note(thread, to_string(missed.why));
  if (missed.why.code == ErrorCode::kForbidden) not_stopped_ = missed.why;
}

void ThreadPause::take(const StoppedThread& stopped, bool in_time, ThreadSnapshot& thread,
                       Unwinder& unwinder) {
  const Registers registers{.program_counter = stopped.program_counter,
                            .stack_pointer = stopped.stack_pointer,
                            .others = {stopped.registers.begin(), stopped.registers.end()}};
  seen_.stack_pointers[stopped.tid] = stopped.stack_pointer;
  const auto call = seen_.calls.find(stopped.tid);
  const auto ran = seen_.slices.at(stopped.tid);
  if (call != seen_.calls.end() && ran && call->second.stack_pointer == stopped.stack_pointer) {
    image_.kept.held.keep({image_.target.key, stopped.tid}, call->second, *ran, registers);
  }
  look_.put(unwinder.unwind(registers), thread);
  if (thread.wait.running && stopped.blocked_in) {
    take_wait(stopped, *stopped.blocked_in, thread);
  }
  thread.stopped = true;
  thread.consistent = in_time;
  if (!in_time) add_note(thread, "it had to go on before all was copied");
}

void ThreadPause::take_wait(const StoppedThread& stopped, const BlockedCall& blocked,
                            ThreadSnapshot& thread) {
  const SyscallFile call = image_.kept.calls.resolve(image_.target.key, thread.tid,
                                                     {.number = blocked.number,
                                                      .args = blocked.args,
                                                      .stack_pointer = stopped.stack_pointer,
                                                      .program_counter = stopped.program_counter});
  thread.state = 'S';
  thread.wait = describe_wait(*image_.machine.processes, *image_.target.directory,
                              {.pid = image_.main_thread, .tid = thread.tid}, call);
  thread.futex = decode_futex_wait(call, image_.memory, image_.space);
}

void ThreadPause::copy_stacks(std::span<const StoppedThread> threads) {
  constexpr uint64_t kRedZone = 128;  // System V ABI x86_64: used below the stack pointer
  image_.memory.forget();
  for (const StoppedThread& thread : threads) {
    const Mapping* stack = image_.space.find(thread.stack_pointer);
    if (stack == nullptr) continue;
    image_.memory.preload(thread.stack_pointer - kRedZone,
                          std::min(stack->end, thread.stack_pointer + kStackPreload));
  }
}

}  // namespace dlprobe
