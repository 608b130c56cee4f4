#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/model/snapshot.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// What a thread waits for in CPython's parking lot (Python/parking_lot.c, 3.13 on).
struct ParkedWait {
  uint64_t address = 0;                  ///< of what it waits for: a PyMutex, a PyEvent
  LockKind kind = LockKind::kCondition;  ///< or kPythonMutex
  std::string type;  ///< tp_name of the lock around a mutex: "_thread.lock", "_thread.RLock"
  std::optional<uint64_t> owner;  ///< of an RLock: pthread_self() of the thread that has it

  bool operator==(const ParkedWait&) const = default;
};

/// Reads it around `semaphore`, the one that the thread waits at: each has its own, in its stack,
/// behind the address of what it waits for. Needs no names of functions, which a CPython that was
/// linked as a whole (LTO) has not. Nothing if that is no semaphore of the parking lot.
std::optional<ParkedWait> read_parked_wait(const Memory& memory, const AddressSpace& space,
                                           const PythonLayout::Object& object, uint64_t semaphore,
                                           uint64_t stack_pointer);

}  // namespace dlprobe
