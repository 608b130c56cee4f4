#include "lib/stacks/locks/python_locks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// A trainer's memory may hold gigabytes of tensors; Python's own arenas are small mappings.
constexpr uint64_t kMostBytes = 256 * kMiB;

// PyObject_HEAD of a build with the GIL: reference count, type; then the pointer to the semaphore
// in lockobject, rlockobject (Modules/_threadmodule.c) and SemLockObject
// (Modules/_multiprocessing/semaphore.c), the same from 3.8 to 3.13.
constexpr uint64_t kPointerOffset = 16;
constexpr uint64_t kTypeNameOffset = 24;  // PyTypeObject.tp_name, behind PyVarObject

struct ObjectWords {
  uint64_t references;
  uint64_t type;
  uint64_t semaphore;
  uint64_t owner;  ///< rlock_owner, last_tid
  std::array<int32_t, 4> fields;
};

std::string type_name(const Memory& memory, uint64_t type) {
  const auto name = memory.value<uint64_t>(type + kTypeNameOffset);
  if (!name) return {};
  const auto text = memory.value<std::array<char, 32>>(*name);
  if (!text) return {};
  return {text->data(), ::strnlen(text->data(), text->size())};
}

std::optional<PythonLockObject> lock_at(const Memory& memory, uint64_t address,
                                        uint64_t semaphore) {
  const auto words = memory.value<ObjectWords>(address);
  if (!words || words->semaphore != semaphore || words->references == 0) return std::nullopt;
  PythonLockObject object{.semaphore = semaphore, .type = type_name(memory, words->type)};
  if (object.type == "_thread.lock") return object;
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

void find_place_on_stack(const Memory& memory, const AddressSpace& space, uint64_t semaphore,
                         uint64_t stack_pointer, PythonLockPlaces& places) {
  constexpr size_t kWords = 512;  // the innermost functions take some hundred bytes
  constexpr uint64_t kAlignment = 16;
  const Mapping* stack = space.find(stack_pointer);
  if (stack == nullptr || places.contains(semaphore)) return;
  const uint64_t bytes = std::min(stack->end - stack_pointer, kWords * sizeof(uint64_t));
  std::vector<uint64_t> words(bytes / sizeof(uint64_t));
  if (!memory.read(stack_pointer, std::as_writable_bytes(std::span(words)))) return;
  for (const uint64_t word : words) {
    if (word == 0 || word % kAlignment != 0) continue;
    const Mapping* mapping = space.find(word);
    if (mapping == nullptr || mapping == stack || !may_hold_objects(*mapping)) continue;
    if (!lock_at(memory, word, semaphore)) continue;
    places[semaphore] = word;
    return;
  }
}

std::vector<PythonLockObject> find_python_locks(const PointerScan& scan, const Memory& memory,
                                                std::span<const uint64_t> semaphores,
                                                PythonLockPlaces& places) {
  std::vector<PythonLockObject> objects;
  std::set<uint64_t> missing(semaphores.begin(), semaphores.end());
  for (const uint64_t semaphore : semaphores) {
    const auto place = places.find(semaphore);
    if (place == places.end()) continue;
    if (auto object = lock_at(memory, place->second, semaphore)) {
      objects.push_back(std::move(*object));
      missing.erase(semaphore);
    }
  }
  const std::vector<uint64_t> wanted(missing.begin(), missing.end());
  scan.run(wanted, kMostBytes, [&](uint64_t address, uint64_t semaphore) {
    if (!missing.contains(semaphore)) return true;
    const uint64_t start = address - kPointerOffset;
    if (auto object = lock_at(memory, start, semaphore)) {
      objects.push_back(std::move(*object));
      places[semaphore] = start;
      missing.erase(semaphore);
    }
    return !missing.empty();
  });
  return objects;
}

}  // namespace dlprobe
