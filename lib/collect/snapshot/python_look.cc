#include "lib/collect/snapshot/python_look.h"

#include <algorithm>
#include <string>
#include <utility>

#include "lib/collect/snapshot/thread_matcher.h"
#include "lib/stacks/python/merge_stacks.h"

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

}  // namespace dlprobe
