#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/stacks/locks/pointer_scan.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// A Python object around a semaphore of the C library. Up to CPython 3.13.0 the locks of threading
/// hold a private sem_t (Python/thread_pthread.h), later ones a PyMutex (see parking_lot.h);
/// multiprocessing's SemLock holds a shared one. So do the buffers of files, a private one.
struct PythonLockObject {
  uint64_t address = 0;    ///< of the object
  uint64_t semaphore = 0;  ///< address of the sem_t
  /// tp_name: "_thread.lock", "_thread.RLock", "_multiprocessing.SemLock", "_io.BufferedWriter"
  std::string type;
  int32_t count = 0;              ///< of an RLock or a SemLock: how often it is acquired here
  std::optional<uint64_t> owner;  ///< pthread_self() of the thread that has it, or had it last
  bool recursive = false;         ///< of a SemLock: it is an RLock
  int32_t max_value = 1;          ///< of a SemLock

  bool operator==(const PythonLockObject&) const = default;
};

/// Where objects were found, for the next process: forked copies have them at the same addresses.
using PythonLockPlaces = std::map<uint64_t, uint64_t>;  ///< semaphore to the object's address

/// A thread's wait for a semaphore: the addresses of both.
struct SemaphoreWait {
  uint64_t semaphore = 0;
  uint64_t stack_pointer = 0;
};

/// Looks for the object around the semaphore on the stack of the thread that waits for it, where
/// the method of the lock that called the wait has its `self`: cheaper than a scan. Adds it to
/// `places`.
void find_place_on_stack(const Memory& memory, const AddressSpace& space,
                         const PythonLayout::Object& layout, const SemaphoreWait& wait,
                         PythonLockPlaces& places);

/// The Python objects around `semaphores` (sorted addresses) in the process that `scan` searches
/// and `memory` reads; `layout` is of its Python. Looks at `places` first, then scans, up to a
/// limit; what is not found is left out.
std::vector<PythonLockObject> find_python_locks(const PointerScan& scan, const Memory& memory,
                                                const PythonLayout::Object& layout,
                                                std::span<const uint64_t> semaphores,
                                                PythonLockPlaces& places);

}  // namespace dlprobe
