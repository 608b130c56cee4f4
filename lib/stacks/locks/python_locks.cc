#include "lib/stacks/locks/python_locks.h"

#include <algorithm>
#include <array>
#include <set>

#include "lib/base/units.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

// A trainer's memory may hold gigabytes of tensors; Python's own arenas are small mappings.
constexpr uint64_t kMostBytes = 256 * kMiB;

// Behind PyObject_HEAD: the pointer to the semaphore in lockobject, rlockobject
// (Modules/_threadmodule.c) and SemLockObject (Modules/_multiprocessing/semaphore.c), the same from
// 3.8 to 3.15.
struct ObjectWords {
  uint64_t semaphore;
  uint64_t owner;  ///< rlock_owner, last_tid
  std::array<int32_t, 4> fields;
};

// The lock and its owner in the objects of Modules/_io/bufferedio.c, behind PyObject_HEAD: the same
// from 3.8 to 3.12.
constexpr uint64_t kLockOfBuffer = 88;

// Memory that was freed keeps its type. Without the GIL there are two counts before the type.
bool is_referred_to(const Memory& memory, const PythonLayout::Object& layout, uint64_t object) {
  const bool has_gil = layout.head_bytes == PythonLayout::Object{}.head_bytes;
  if (has_gil) return memory.value<uint64_t>(object).value_or(0) != 0;
  constexpr uint64_t kLocalCount = 12;
  constexpr uint64_t kSharedCount = 16;
  return memory.value<uint32_t>(object + kLocalCount).value_or(0) != 0 ||
         memory.value<uint64_t>(object + kSharedCount).value_or(0) != 0;
}

std::optional<PythonLockObject> lock_at(const Memory& memory, const PythonLayout::Object& layout,
                                        uint64_t address, uint64_t semaphore) {
  auto words = memory.value<ObjectWords>(address + layout.head_bytes);
  const bool may_be_buffer = words && words->semaphore != semaphore;
  if (may_be_buffer) words = memory.value<ObjectWords>(address + layout.head_bytes + kLockOfBuffer);
  if (!words || words->semaphore != semaphore) return std::nullopt;
  if (!is_referred_to(memory, layout, address)) return std::nullopt;
  PythonLockObject object{.address = address,
                          .semaphore = semaphore,
                          .type = python_type_name(memory, layout, address).value_or("")};
  if (may_be_buffer != object.type.starts_with("_io.Buffered")) return std::nullopt;
  if (may_be_buffer && words->owner != 0) {
    object.owner = words->owner;
    object.count = 1;
  }
  if (may_be_buffer || object.type == "_thread.lock") return object;
  if (object.type == "_thread.RLock") {
    // unsigned long rlock_count behind the owner.
    object.count = words->fields[0];
    if (words->owner != 0) object.owner = words->owner;
    return object;
  }
  if (object.type == "_multiprocessing.SemLock") {
    object.count = words->fields[0];
    object.max_value = words->fields[1];
    object.recursive = words->fields[2] == 0;
    if (words->owner != 0) object.owner = words->owner;
    return object;
  }
  return std::nullopt;
}

}  // namespace

void find_place_on_stack(const Memory& memory, const AddressSpace& space,
                         const PythonLayout::Object& layout, const SemaphoreWait& wait,
                         PythonLockPlaces& places) {
  constexpr size_t kWords = 512;  // the innermost functions take some hundred bytes
  constexpr uint64_t kAlignment = 16;
  const auto& [semaphore, stack_pointer] = wait;
  const Mapping* stack = space.find(stack_pointer);
  if (stack == nullptr) return;
  // Copies of one process may have made locks of their own since, at other places.
  const auto known = places.find(semaphore);
  if (known != places.end() && lock_at(memory, layout, known->second, semaphore)) return;
  const uint64_t bytes = std::min(stack->end - stack_pointer, kWords * sizeof(uint64_t));
  std::vector<uint64_t> words(bytes / sizeof(uint64_t));
  if (!memory.read(stack_pointer, std::as_writable_bytes(std::span(words)))) return;
  for (const uint64_t word : words) {
    if (word == 0 || word % kAlignment != 0) continue;
    const Mapping* mapping = space.find(word);
    if (mapping == nullptr || mapping == stack || !may_hold_objects(*mapping)) continue;
    if (!lock_at(memory, layout, word, semaphore)) continue;
    places[semaphore] = word;
    return;
  }
}

std::vector<PythonLockObject> find_python_locks(const PointerScan& scan, const Memory& memory,
                                                const PythonLayout::Object& layout,
                                                std::span<const uint64_t> semaphores,
                                                PythonLockPlaces& places) {
  std::vector<PythonLockObject> objects;
  std::set<uint64_t> missing(semaphores.begin(), semaphores.end());
  for (const uint64_t semaphore : semaphores) {
    const auto place = places.find(semaphore);
    if (place == places.end()) continue;
    if (auto object = lock_at(memory, layout, place->second, semaphore)) {
      objects.push_back(std::move(*object));
      missing.erase(semaphore);
    }
  }
  const std::vector<uint64_t> wanted(missing.begin(), missing.end());
  scan.run(wanted, kMostBytes, [&](uint64_t address, uint64_t semaphore) {
    if (!missing.contains(semaphore)) return true;
    const uint64_t start = address - layout.head_bytes;
    if (auto object = lock_at(memory, layout, start, semaphore)) {
      objects.push_back(std::move(*object));
      places[semaphore] = start;
      missing.erase(semaphore);
    }
    return !missing.empty();
  });
  return objects;
}

}  // namespace dlprobe
