#include "lib/collect/snapshot/lock_look.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "lib/stacks/locks/lock_users.h"
#include "lib/stacks/locks/parking_lot.h"

namespace dlprobe {
namespace {

/// Threads of CPython from 3.13 on wait in its parking lot for all but SemLocks.
bool has_parking_lot(const PythonRuntime& runtime) {
  return runtime.version.minor >= 13;
}

bool is_private_semaphore(const std::optional<FutexWait>& futex) {
  return futex && !futex->shared && !futex->timed && futex->kind == LockKind::kSemaphore;
}

}  // namespace

void LockLook::look(ProcessSnapshot& snapshot, bool with_shared,
                    const std::map<int32_t, uint64_t>& stack_pointers, PythonLockPlaces& places,
                    const Memory* parent) const {
  std::map<uint64_t, const Mapping*> shared;
  std::vector<uint64_t> semaphores;
  Waited waited;
  for (const Mapping& mapping : space_.mappings()) {
    if (!with_shared || !mapping.shared || !mapping.path.contains("/sem.")) continue;
    shared.emplace(mapping.begin, &mapping);
    semaphores.push_back(mapping.begin);
  }
  for (ThreadSnapshot& thread : snapshot.threads) {
    const auto stack = stack_pointers.find(thread.tid);
    if (stack != stack_pointers.end() && mark_parked(thread, stack->second, snapshot, waited))
      continue;
    const auto& futex = thread.futex;
    if (!futex || !is_private_semaphore(futex)) continue;
    semaphores.push_back(futex->address);
    if (stack == stack_pointers.end()) continue;
    find_place_on_stack(memory_, space_, objects(), {futex->address, stack->second}, places);
  }
  std::ranges::sort(semaphores);
  for (const PythonLockObject& object : find_python_locks(PointerScan(processes_, pid_, space_),
                                                          memory_, objects(), semaphores, places)) {
    const auto mapping = shared.find(object.semaphore);
    if (mapping != shared.end()) {
      snapshot.sem_locks.push_back(sem_lock(object, *mapping->second));
    } else {
      mark(object, snapshot, waited);
    }
  }
  std::ranges::sort(snapshot.sem_locks, {}, &SemLockState::inode);
  if (!waited.locks.empty() || !waited.events.empty()) mark_users(waited, snapshot, parent);
}

PythonLayout::Object LockLook::objects() const {
  const PythonRuntime* runtime = python_.runtime();
  return runtime == nullptr ? PythonLayout::Object{} : runtime->layout.object;
}

bool LockLook::mark_parked(ThreadSnapshot& thread, uint64_t stack_pointer,
                           const ProcessSnapshot& snapshot, Waited& waited) const {
  auto& futex = thread.futex;
  const PythonRuntime* runtime = python_.runtime();
  if (!futex || futex->shared || runtime == nullptr || !has_parking_lot(*runtime)) return false;
  constexpr std::array kKinds = {LockKind::kSemaphore, LockKind::kCondition,
                                 LockKind::kPythonMutex};
  if (std::ranges::find(kKinds, futex->kind) == kKinds.end()) return false;
  const auto parked = read_parked_wait(memory_, space_, objects(), futex->address, stack_pointer);
  if (!parked) return false;
  // What the stack has told of a mutex stays, should it be free by now.
  if (futex->kind == LockKind::kSemaphore || parked->kind == LockKind::kPythonMutex) {
    futex->kind = parked->kind;
  }
  futex->python_type = parked->type;
  if (parked->owner) mark_owner(*parked->owner, snapshot, *futex);
  if (parked->type == "_thread.lock") {
    waited.locks.emplace(thread.tid, parked->address - objects().head_bytes);
  } else if (parked->kind == LockKind::kCondition) {
    waited.events.emplace(thread.tid, parked->address);
  }
  return true;
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

void LockLook::mark(const PythonLockObject& object, ProcessSnapshot& snapshot,
                    Waited& waited) const {
  for (ThreadSnapshot& thread : snapshot.threads) {
    auto& futex = thread.futex;
    if (!futex || !is_private_semaphore(futex) || futex->address != object.semaphore) continue;
    futex->python_type = object.type;
    if (object.owner && object.count > 0) mark_owner(*object.owner, snapshot, *futex);
    if (object.type == "_thread.lock") waited.locks.emplace(thread.tid, object.address);
  }
}

LockOfParent LockLook::in_parent(uint64_t lock, LockKind kind, const Memory& parent) const {
  const PythonLayout::Object layout = objects();
  if (layout.head_bytes != PythonLayout::Object{}.head_bytes) return LockOfParent::kUnknown;
  const auto word = [](const Memory& memory, uint64_t address) {
    return memory.value<uint64_t>(address).value_or(0);
  };
  const uint64_t type = word(memory_, lock + layout.type);
  if (type == 0 || !parent.value<uint64_t>(type)) return LockOfParent::kUnknown;
  // Memory that was freed keeps its type.
  const bool is_there = word(parent, lock) != 0 && word(parent, lock + layout.type) == type;
  const uint64_t held = lock + layout.head_bytes;  // a PyMutex, or the address of a semaphore
  if (kind == LockKind::kPythonMutex) {
    if (!is_there) return LockOfParent::kNone;
    return (word(parent, held) & 1U) != 0 ? LockOfParent::kTaken : LockOfParent::kFree;
  }
  const uint64_t semaphore = word(memory_, held);
  if (!is_there || word(parent, held) != semaphore) return LockOfParent::kNone;
  const auto value = parent.value<int32_t>(semaphore);
  if (!value) return LockOfParent::kUnknown;
  return *value == 0 ? LockOfParent::kTaken : LockOfParent::kFree;
}

void LockLook::mark_users(const Waited& waited, ProcessSnapshot& snapshot,
                          const Memory* parent) const {
  const PythonLayout::Object layout = objects();
  std::map<uint64_t, std::set<int32_t>> waiters;
  std::set<uint64_t> locks;
  for (const auto& [tid, lock] : waited.locks) {
    waiters[lock].insert(tid);
    locks.insert(lock);
  }
  const LockUsers users(memory_, layout, python_.threads(), std::move(locks));
  for (ThreadSnapshot& thread : snapshot.threads) {
    if (!thread.futex) continue;
    FutexWait& futex = *thread.futex;
    const auto lock = waited.locks.find(thread.tid);
    const auto event = waited.events.find(thread.tid);
    std::optional<int32_t> joined;
    if (lock != waited.locks.end()) joined = users.joined_by_lock(lock->second);
    if (event != waited.events.end()) joined = users.joined_by_event(event->second);
    if (joined) {
      futex.kind = LockKind::kJoin;
      futex.owner_tid = joined;
    } else if (lock != waited.locks.end()) {
      futex.owner_tid = users.holder_of(lock->second, waiters.at(lock->second));
      if (parent != nullptr) futex.in_parent = in_parent(lock->second, futex.kind, *parent);
    }
  }
}

void LockLook::mark_owner(uint64_t pthread, const ProcessSnapshot& snapshot,
                          FutexWait& futex) const {
  futex.owner_tid = python_.tid_of_pthread(pthread);
  futex.owner_gone = !futex.owner_tid && snapshot.python_note.empty();
}

}  // namespace dlprobe
