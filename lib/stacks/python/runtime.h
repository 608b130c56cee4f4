#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/symbol_source.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// The CPython of a process. It serves for children that the process forked, too, as long as they
/// run the same program.
struct PythonRuntime {
  PythonVersion version;
  bool free_threaded = false;
  uint64_t address = 0;  ///< of _PyRuntime
  PythonLayout layout;
  std::vector<std::string> notes;  ///< what is odd about it, in words
};

/// Finds the interpreter of a process: _PyRuntime by its symbol, by the section .PyRuntime, or by
/// what it looks like in the writable data of the program. Nothing: the process has no Python.
/// kInsufficient: it has not started its interpreter, or has ended it; kUnsupported: the version.
Expected<std::optional<PythonRuntime>> find_python(const Memory& memory, const AddressSpace& space,
                                                   SymbolSource& symbols);

/// The addresses of its interpreters (PyInterpreterState), the newest first; the main one is last.
/// Each was checked: its first thread points back to it. Those of a runtime that is none fail.
Expected<std::vector<uint64_t>> list_python_interpreters(const Memory& memory,
                                                         const PythonRuntime& runtime);

}  // namespace dlprobe
