#pragma once

#include <cstdint>
#include <map>

#include "lib/collect/snapshot/python_look.h"
#include "lib/model/snapshot.h"
#include "lib/os/file_system.h"
#include "lib/os/process_access.h"
#include "lib/stacks/locks/python_locks.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"

namespace dlprobe {

/// Whose the semaphores of a process are: those at which its threads wait for locks of Python's,
/// and the shared ones of multiprocessing that it has mapped.
class LockLook {
 public:
  /// All must outlive it. `pid` is a thread by which the memory is reached.
  LockLook(const ProcessAccess& processes, int32_t pid, const AddressSpace& space,
           const Memory& memory, const PythonLook& python)
      : processes_(processes), pid_(pid), space_(space), memory_(memory), python_(python) {}

  /// Fills in ProcessSnapshot::sem_locks, if `with_shared`, and in each FutexWait on a lock of
  /// Python's its type and owner, or the thread that is joined by it. `stack_pointers` are those of
  /// its threads; `places` is for the next process of the tree; `parent` is the memory of the
  /// process's parent, if that is in the tree.
  void look(ProcessSnapshot& snapshot, bool with_shared,
            const std::map<int32_t, uint64_t>& stack_pointers, PythonLockPlaces& places,
            const Memory* parent) const;

 private:
  /// What threads wait for, by their tids: addresses of threading.Locks, and in the parking lot of
  /// what may be the PyEvent of a thread that is joined.
  struct Waited {
    std::map<int32_t, uint64_t> locks;
    std::map<int32_t, uint64_t> events;
  };

  PythonLayout::Object objects() const;
  /// Whether the thread waits in CPython's parking lot.
  bool mark_parked(ThreadSnapshot& thread, uint64_t stack_pointer, const ProcessSnapshot& snapshot,
                   Waited& waited) const;
  /// Who holds a lock that does not say so, and who is joined by one.
  void mark_users(const Waited& waited, ProcessSnapshot& snapshot, const Memory* parent) const;
  /// What a forked process's parent has where it has that threading.Lock.
  LockOfParent in_parent(uint64_t lock, LockKind kind, const Memory& parent) const;
  void mark_owner(uint64_t pthread, const ProcessSnapshot& snapshot, FutexWait& futex) const;
  SemLockState sem_lock(const PythonLockObject& object, const Mapping& mapping) const;
  void mark(const PythonLockObject& object, ProcessSnapshot& snapshot, Waited& waited) const;

  const ProcessAccess& processes_;
  int32_t pid_;
  const AddressSpace& space_;
  const Memory& memory_;
  const PythonLook& python_;
};

/// Marks the owners of locks in shared memory that no process of the machine has as a thread any
/// more. Where the waiter is in a pid namespace of its own that is not known, and nothing is
/// marked.
void mark_dead_owners(const Directory& root, TreeSnapshot& tree);

}  // namespace dlprobe
