#include "lib/collect/snapshot/lock_look.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace dlprobe {
namespace {

bool is_private_semaphore(const std::optional<FutexWait>& futex) {
  return futex && !futex->shared && !futex->timed && futex->kind == LockKind::kSemaphore;
}

}  // namespace

void LockLook::look(ProcessSnapshot& snapshot, bool with_shared,
                    const std::map<int32_t, uint64_t>& stack_pointers,
                    PythonLockPlaces& places) const {
  std::map<uint64_t, const Mapping*> shared;
  std::vector<uint64_t> semaphores;
  for (const Mapping& mapping : space_.mappings()) {
    if (!with_shared || !mapping.shared || !mapping.path.contains("/sem.")) continue;
    shared.emplace(mapping.begin, &mapping);
    semaphores.push_back(mapping.begin);
  }
  for (const ThreadSnapshot& thread : snapshot.threads) {
    const auto& futex = thread.futex;
    if (!futex || !is_private_semaphore(futex)) continue;
    semaphores.push_back(futex->address);
    const auto stack = stack_pointers.find(thread.tid);
    if (stack == stack_pointers.end()) continue;
    find_place_on_stack(memory_, space_, futex->address, stack->second, places);
  }
  std::ranges::sort(semaphores);
  for (const PythonLockObject& object :
       find_python_locks(PointerScan(processes_, pid_, space_), memory_, semaphores, places)) {
    const auto mapping = shared.find(object.semaphore);
    if (mapping != shared.end()) {
      snapshot.sem_locks.push_back(sem_lock(object, *mapping->second));
    } else {
      mark(object, snapshot);
    }
  }
  std::ranges::sort(snapshot.sem_locks, {}, &SemLockState::inode);
}

SemLockState LockLook::sem_lock(const PythonLockObject& object, const Mapping& mapping) const {
  const auto value = memory_.value<int32_t>(object.semaphore);
  return {.inode = mapping.inode,
          .file = mapping.path,
          .value = value.value_or(0),
          .recursive = object.recursive,
          .max_value = object.max_value,
          .count = object.count,
          .last_tid = object.owner ? python_.tid_of_pthread(*object.owner) : std::nullopt};
}

void mark_dead_owners(const Directory& root, TreeSnapshot& tree) {
  for (ProcessSnapshot& process : tree.processes) {
    for (ThreadSnapshot& thread : process.threads) {
      auto& futex = thread.futex;
      if (!futex || !futex->shared || futex->inode == 0 || thread.own_tid != 0) continue;
      if (futex->owner_tid.value_or(0) <= 0) continue;
      // /proc has every thread by its number, though it lists main threads alone.
      const auto owner = root.stat("proc/" + std::to_string(futex->owner_tid.value_or(0)));
      futex->owner_gone = !owner && owner.error().code == ErrorCode::kNotFound;
    }
  }
}

void LockLook::mark(const PythonLockObject& object, ProcessSnapshot& snapshot) const {
  for (ThreadSnapshot& thread : snapshot.threads) {
    auto& futex = thread.futex;
    if (!futex || !is_private_semaphore(futex) || futex->address != object.semaphore) continue;
    futex->python_type = object.type;
    if (!object.owner || object.count <= 0) continue;
    futex->owner_tid = python_.tid_of_pthread(*object.owner);
    futex->owner_gone = !futex->owner_tid && snapshot.python_note.empty();
  }
}

}  // namespace dlprobe
