#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/os/file_system.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/module_cache.h"

namespace dlprobe {

/// What is known of a thread's registers. Of a thread that is blocked in a system call the kernel
/// shows the first two without stopping it.
struct Registers {
  uint64_t program_counter = 0;
  uint64_t stack_pointer = 0;
  /// The others by libunwind's numbers (UNW_X86_64_RBP ...); nothing: not known.
  std::vector<std::optional<uint64_t>> others;
};

struct NativeStack {
  std::vector<uint64_t> program_counters;  ///< innermost first; of callers the return address
  /// The walk needs a register that is not known: with all registers it would go on.
  bool needs_registers = false;
  std::string cut_off;  ///< why it ended before the outermost frame; empty if it did not
};

/// Walks native stacks of one process by its unwind information (libunwind), from what was read of
/// its memory: the process itself is not involved. Not thread-safe.
class Unwinder {
 public:
  /// All must outlive it. `process` is its /proc directory.
  Unwinder(const Memory& memory, const AddressSpace& space, const Directory& process,
           ModuleCache& modules);
  ~Unwinder();
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  NativeStack unwind(const Registers& registers);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprobe
