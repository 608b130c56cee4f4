#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>

#include "lib/model/snapshot.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/python/frames.h"

namespace dlprobe {

/// Tells which thread of the process a thread of Python's is, as far as that can be told.
class ThreadMatcher {
 public:
  /// `python` are all threads of its Python.
  ThreadMatcher(const ProcessSnapshot& snapshot, const AddressSpace& space,
                const std::map<int32_t, uint64_t>& stack_pointers,
                std::span<const PythonThread> python);

  /// By the thread's own word (CPython 3.11 on), where there is such a thread: a fork() that is not
  /// Python's leaves the parent's there. Else by its stack: pthread_self() lies at its upper end,
  /// but for the main thread.
  std::optional<int32_t> tid_of(const PythonThread& thread) const;

 private:
  std::map<int32_t, int32_t> by_native_tid_;
  std::map<uint64_t, int32_t> by_pthread_id_;
};

}  // namespace dlprobe
