#include "lib/collect/snapshot/thread_matcher.h"

#include <algorithm>

namespace dlprobe {

ThreadMatcher::ThreadMatcher(const ProcessSnapshot& snapshot, const AddressSpace& space,
                             const std::map<int32_t, uint64_t>& stack_pointers,
                             std::span<const PythonThread> python)
    : snapshot_(snapshot), space_(space), stack_pointers_(stack_pointers) {
  for (const PythonThread& thread : python)
    pthread_ids_.insert(thread.pthread_id);
}

std::optional<int32_t> ThreadMatcher::tid_of(const PythonThread& thread) const {
  const auto is_it = [&](const ThreadSnapshot& each) {
    return (each.own_tid != 0 ? each.own_tid : each.tid) == thread.native_tid;
  };
  const auto found = std::ranges::find_if(snapshot_.threads, is_it);
  return found == snapshot_.threads.end() ? by_stack(thread.pthread_id) : found->tid;
}

// The stacks of several threads are one mapping where nothing lies between them: from 2.42 on glibc
// marks its guard pages by madvise (MADV_GUARD_INSTALL, Linux 6.13), which divides no mapping. So
// the nearest pthread_self() above the stack pointer has to be that of the thread.
std::optional<int32_t> ThreadMatcher::by_stack(uint64_t pthread_id) const {
  const Mapping* own = space_.find(pthread_id);
  if (own == nullptr) return std::nullopt;
  for (const ThreadSnapshot& thread : snapshot_.threads) {
    const auto stack = stack_pointers_.find(thread.tid);
    if (stack == stack_pointers_.end() || space_.find(stack->second) != own) continue;
    const auto nearest = pthread_ids_.lower_bound(stack->second);
    if (nearest != pthread_ids_.end() && *nearest == pthread_id) return thread.tid;
  }
  return std::nullopt;
}

}  // namespace dlprobe
