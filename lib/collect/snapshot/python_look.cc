#include "lib/collect/snapshot/python_look.h"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <utility>

#include "lib/base/units.h"
#include "lib/collect/snapshot/thread_matcher.h"
#include "lib/foreign/python_code.h"
#include "lib/stacks/python/frame_texts.h"
#include "lib/stacks/python/futures.h"
#include "lib/stacks/python/loading.h"
#include "lib/stacks/python/merge_stacks.h"
#include "lib/stacks/python/tasks.h"

namespace dlprobe {
namespace {

/// Who waits for the GIL waits on its condition variable.
void mark_waits_for_gil(const PythonStacks& stacks, ProcessSnapshot& snapshot) {
  for (ThreadSnapshot& thread : snapshot.threads) {
    if (!thread.futex) continue;
    auto& futex = *thread.futex;
    for (const PythonGil& gil : stacks.gils) {
      if (gil.cond.contains(futex.address)) futex.kind = LockKind::kGil;
    }
  }
}

// A trainer's memory may hold gigabytes of tensors; Python's own arenas are small mappings.
constexpr uint64_t kMostBytes = 256 * kMiB;
constexpr size_t kMostTasks = 10'000;
constexpr size_t kMostPlaces = 32;

/// Between two callbacks, until there is something to do.
bool waits_in_loop(const PythonThread& thread) {
  return thread.event_loop != 0 && !thread.frames.empty() &&
         is_of_standard_library(thread.frames.front().file, "selectors.py");
}

/// A lock of Python, and not within a class of `threading` whose waiters are woken by it.
bool waits_for_lock(const FutexWait& futex, const PythonThread& thread) {
  const bool is_lock = futex.kind == LockKind::kSemaphore || futex.kind == LockKind::kPythonMutex;
  return is_lock && !futex.python_type.empty() && !thread.frames.empty() &&
         !is_of_standard_library(thread.frames.front().file, "threading.py");
}

void add_task(WaitingTasks task, std::vector<WaitingTasks>& tasks) {
  const auto same = std::ranges::find(tasks, task.stack, &WaitingTasks::stack);
  if (same == tasks.end()) {
    tasks.push_back(std::move(task));
    return;
  }
  ++same->count;
  same->is_main = same->is_main || task.is_main;
  same->is_answered = same->is_answered || task.is_answered;
}

void add_failure(FailedTasks task, std::vector<FailedTasks>& failed) {
  const auto same = std::ranges::find_if(failed, [&](const FailedTasks& each) {
    return each.exception == task.exception && each.stack == task.stack;
  });
  if (same != failed.end()) {
    ++same->count;
  } else if (failed.size() < kMostPlaces) {
    failed.push_back(std::move(task));
  }
}

bool same_frames(const PythonStacks& a, const PythonStacks& b) {
  return std::ranges::equal(a.threads, b.threads, {}, &PythonThread::frames, &PythonThread::frames);
}

}  // namespace

void PythonLook::find(const AddressSpace& space, SymbolSource& symbols) {
  auto runtime = find_python(*memory_, space, symbols);
  if (!runtime) {
    error_ = std::move(runtime).error();
    return;
  }
  runtime_ = std::move(*runtime);
  read();
}

void PythonLook::expect_moved(const ProcessSnapshot& snapshot, const AddressSpace& space,
                              const std::map<int32_t, uint64_t>& stack_pointers,
                              const std::set<int32_t>& moved) {
  still_.clear();
  if (!stacks_) return;
  const ThreadMatcher matcher(snapshot, space, stack_pointers, stacks_->threads);
  for (const PythonThread& thread : stacks_->threads) {
    const auto tid = matcher.tid_of(thread);
    if (tid && !moved.contains(*tid)) still_.push_back(thread);
  }
}

void PythonLook::read_unless(std::span<const PythonThread> known) {
  if (!runtime_) return;
  auto stacks = read_python_stacks(*memory_, *runtime_, *codes_, known);
  if (stacks) {
    stacks_ = std::move(*stacks);
    error_.reset();
  } else {
    error_ = std::move(stacks).error();
  }
}

void PythonLook::read_until_steady(ProcessMemory& memory) {
  constexpr int kMostReads = 8;
  if (!runtime_) return;
  steady_ = false;
  for (int i = 0; i < kMostReads && !steady_; ++i) {
    const std::optional<PythonStacks> before = std::exchange(stacks_, std::nullopt);
    memory.forget();
    read();
    steady_ = before && stacks_ && same_frames(*before, *stacks_);
  }
}

void PythonLook::assign(ProcessSnapshot& snapshot, const AddressSpace& space,
                        const std::map<int32_t, uint64_t>& stack_pointers) {
  if (error_) snapshot.python_note = to_string(*error_);
  if (!runtime_) return;
  snapshot.python = to_string(runtime_->version);
  if (!stacks_) return;
  mark_waits_for_gil(*stacks_, snapshot);
  const ThreadMatcher matcher(snapshot, space, stack_pointers, stacks_->threads);
  std::vector<PythonThread*> unknown;
  const auto give = [&](int32_t tid, PythonThread& thread) {
    if (thread.holds_gil) snapshot.gil_holder = tid;
    tids_.insert_or_assign(thread.pthread_id, tid);
    by_tid_.insert_or_assign(tid, std::move(thread));
  };
  for (PythonThread& thread : stacks_->threads) {
    if (const auto tid = matcher.tid_of(thread)) {
      give(*tid, thread);
    } else {
      unknown.push_back(&thread);
    }
  }
  // The main thread has neither sign before 3.11: it is what is left, the first that was made.
  if (!unknown.empty() && !by_tid_.contains(snapshot.key.pid)) {
    give(snapshot.key.pid, *unknown.back());
  }
}

std::optional<int32_t> PythonLook::tid_of_pthread(uint64_t pthread_id) const {
  const auto found = tids_.find(pthread_id);
  return found == tids_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> PythonLook::pthread_of(int32_t tid) const {
  const auto found = by_tid_.find(tid);
  return found == by_tid_.end() ? std::nullopt : std::optional(found->second.pthread_id);
}

void PythonLook::merge(ThreadSnapshot& thread) const {
  const auto found = by_tid_.find(thread.tid);
  if (found == by_tid_.end()) return;
  MergedStack merged = merge_stacks(thread.stack, found->second.frames);
  thread.stack = std::move(merged.frames);
  const auto add_note = [&](const std::string& note) {
    if (!note.empty()) thread.stack_note += (thread.stack_note.empty() ? "" : "; ") + note;
  };
  add_note(merged.note);
  if (const auto& why = found->second.cut_off) add_note("Python: " + to_string(*why));
  if (!thread.consistent && !steady_) {
    add_note("it ran while its Python frames were read: they may be inconsistent");
  }
}

void PythonLook::find_tasks(ThreadSnapshot& thread, const PointerScan& scan,
                            std::vector<FailedTasks>& failed) const {
  const auto found = by_tid_.find(thread.tid);
  if (!runtime_ || found == by_tid_.end() || !waits_in_loop(found->second)) return;
  const PythonThread& python = found->second;
  size_t tasks_left = kMostTasks;
  const auto add = [&](uint64_t task) {
    const auto failure = read_failed_task(*memory_, *runtime_, *codes_, task);
    if (failure && *failure)
      add_failure({.exception = (*failure)->exception, .stack = to_stack((*failure)->frames)},
                  failed);
    const auto frames = read_waiting_task(*memory_, *runtime_, *codes_, task);
    if (!frames || frames->empty()) return true;
    add_task({.stack = to_stack(*frames),
              .is_main = task == python.main_task,
              .is_answered = awaits_what_is_done(*memory_, *runtime_, *codes_, task)},
             thread.tasks);
    return --tasks_left > 0;
  };
  // This one is found in a large memory, too.
  if (python.main_task != 0) add(python.main_task);
  // Behind the head of an asyncio.Future or Task, the first field is its loop.
  const uint32_t head = runtime_->layout.object.head_bytes;
  scan.run(std::array{python.event_loop}, kMostBytes, [&](uint64_t address, uint64_t) {
    const uint64_t task = address - head;
    return task == python.main_task || add(task);
  });
  std::ranges::stable_sort(thread.tasks, std::ranges::greater{}, [](const WaitingTasks& each) {
    return std::tuple(each.is_main, each.is_answered, each.count);
  });
  if (thread.tasks.size() > kMostPlaces) thread.tasks.resize(kMostPlaces);
  std::ranges::stable_sort(failed, std::ranges::greater{}, &FailedTasks::count);
}

void PythonLook::find_failed_futures(const ThreadSnapshot& thread, const PointerScan& scan,
                                     std::vector<FailedTasks>& failed) const {
  const bool waits = thread.futex && !thread.futex->shared && !thread.futex->timed;
  const auto found = by_tid_.find(thread.tid);
  if (!waits || !runtime_ || runtime_->free_threaded || found == by_tid_.end()) return;
  if (waits_for_lock(*thread.futex, found->second)) return;  // no other thread is to wake it
  const auto layout = python_value_layout(runtime_->version);
  if (!layout) return;
  PythonFutures futures(*memory_, *runtime_, *layout, *codes_);
  const uint64_t type = futures.find_class();
  if (type == 0) return;
  constexpr uint64_t kArenasAtMost = 64 * kMiB;
  scan.run(std::array{type}, kArenasAtMost, [&](uint64_t address, uint64_t) {
    const auto failure = futures.read(address - runtime_->layout.object.type);
    if (failure)
      add_failure({.exception = failure->exception, .stack = to_stack(failure->frames)}, failed);
    return true;
  });
  std::ranges::stable_sort(failed, std::ranges::greater{}, &FailedTasks::count);
}

void PythonLook::find_loading(ProcessSnapshot& snapshot) const {
  const auto main = by_tid_.find(snapshot.key.pid);
  if (!runtime_ || runtime_->free_threaded || main == by_tid_.end()) return;
  const auto layout = python_value_layout(runtime_->version);
  if (!layout) return;
  const PythonLoading loading = read_python_loading(*memory_, *runtime_, *layout, main->second);
  snapshot.processes_made = loading.processes;
  snapshot.batches_taken = loading.batches;
}

std::set<std::string> PythonLook::texts_of(int32_t tid) const {
  constexpr size_t kInnermost = 2;
  const auto found = by_tid_.find(tid);
  if (!runtime_ || runtime_->free_threaded || found == by_tid_.end()) return {};
  const auto layout = python_value_layout(runtime_->version);
  if (!layout) return {};
  PythonFrameTexts texts(*memory_, *runtime_, *layout);
  std::set<std::string> all;
  const auto& places = found->second.places;
  for (size_t i = 0; i < std::min(kInnermost, places.size()); ++i)
    all = texts.add(places[i]);
  return all;
}

}  // namespace dlprobe
