#include "lib/stacks/locks/parking_lot.h"

#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

/// struct wait_entry, up to its semaphore.
struct WaitEntry {
  uint64_t park_argument;
  uint64_t address;  ///< of what the thread waits for
};

constexpr uint8_t kLockedWithWaiters = 3;  // _Py_LOCKED | _Py_HAS_PARKED of a PyMutex

/// _PyRecursiveMutex (pycore_lock.h), behind its PyMutex.
struct RecursiveWords {
  uint64_t mutex;  ///< one byte, then nothing
  uint64_t thread;
  uint64_t level;  ///< how often it was acquired, beyond the first time
};

/// A PyMutex is waited for with a note (struct mutex_entry) in an outer function of the same stack;
/// so is a queue.SimpleQueue, but that has no such byte.
bool is_mutex(const Memory& memory, const WaitEntry& entry, const Mapping& stack,
              uint64_t semaphore) {
  const auto byte = memory.value<uint8_t>(entry.address);
  return byte && *byte == kLockedWithWaiters && entry.park_argument > semaphore &&
         entry.park_argument < stack.end;
}

}  // namespace

std::optional<ParkedWait> read_parked_wait(const Memory& memory, const AddressSpace& space,
                                           const PythonLayout::Object& object, uint64_t semaphore,
                                           uint64_t stack_pointer) {
  const Mapping* stack = space.find(stack_pointer);
  if (stack == nullptr || space.find(semaphore) != stack || semaphore < stack_pointer) {
    return std::nullopt;
  }
  const auto entry = memory.value<WaitEntry>(semaphore - sizeof(WaitEntry));
  if (!entry || !memory.value<uint8_t>(entry->address)) return std::nullopt;
  if (!is_mutex(memory, *entry, *stack, semaphore)) return ParkedWait{.address = entry->address};
  ParkedWait wait{.address = entry->address, .kind = LockKind::kPythonMutex};
  // lockobject and rlockobject (Modules/_threadmodule.c) begin with it.
  const auto type = python_type_name(memory, object, entry->address - object.head_bytes);
  if (!type || (*type != "_thread.lock" && *type != "_thread.RLock")) return wait;
  wait.type = *type;
  if (wait.type != "_thread.RLock") return wait;
  const auto words = memory.value<RecursiveWords>(entry->address);
  if (words && words->thread != 0) wait.owner = words->thread;
  return wait;
}

}  // namespace dlprobe
