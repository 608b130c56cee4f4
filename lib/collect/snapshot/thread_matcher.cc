#include "lib/collect/snapshot/thread_matcher.h"

#include <set>

namespace dlprobe {

// The stacks of several threads are one mapping where nothing lies between them: from 2.42 on glibc
// marks its guard pages by madvise (MADV_GUARD_INSTALL, Linux 6.13), which divides no mapping. So
// the nearest pthread_self() above the stack pointer has to be that of the thread.
ThreadMatcher::ThreadMatcher(const ProcessSnapshot& snapshot, const AddressSpace& space,
                             const std::map<int32_t, uint64_t>& stack_pointers,
                             std::span<const PythonThread> python) {
  std::set<uint64_t> pthread_ids;
  for (const PythonThread& thread : python)
    pthread_ids.insert(thread.pthread_id);
  for (const ThreadSnapshot& thread : snapshot.threads) {
    by_native_tid_.emplace(thread.own_tid != 0 ? thread.own_tid : thread.tid, thread.tid);
    const auto stack = stack_pointers.find(thread.tid);
    if (stack == stack_pointers.end()) continue;
    const auto nearest = pthread_ids.lower_bound(stack->second);
    const Mapping* own = space.find(stack->second);
    if (nearest != pthread_ids.end() && own != nullptr && own == space.find(*nearest))
      by_pthread_id_.emplace(*nearest, thread.tid);
  }
}

std::optional<int32_t> ThreadMatcher::tid_of(const PythonThread& thread) const {
  const auto found = by_native_tid_.find(thread.native_tid.value_or(0));
  if (found != by_native_tid_.end()) return found->second;
  const auto by_stack = by_pthread_id_.find(thread.pthread_id);
  return by_stack == by_pthread_id_.end() ? std::nullopt : std::optional(by_stack->second);
}

}  // namespace dlprobe
