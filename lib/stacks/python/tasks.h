#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/runtime.h"

namespace dlprobe {

/// Where a task of asyncio waits: the frames of its coroutine and of those that it awaits, the
/// innermost first. Nothing where the object at that address is no `_asyncio.Task`, or does not
/// wait.
Expected<std::vector<PythonFrame>> read_waiting_task(const Memory& memory,
                                                     const PythonRuntime& runtime,
                                                     PythonCodeCache& cache, uint64_t task);

/// Whether the future or task that a task of asyncio awaits is done, and the task has not gone on.
/// CPython 3.8 to 3.13, not of futures of a class of the program's own.
bool awaits_what_is_done(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache,
                         uint64_t task);

/// How a task failed.
struct PythonFailure {
  std::string exception;            ///< its type
  std::vector<PythonFrame> frames;  ///< of its traceback, where it was raised first
};

/// Of an exception object. CPython 3.8 to 3.13.
Expected<PythonFailure> read_python_failure(const Memory& memory, const PythonRuntime& runtime,
                                            PythonCodeCache& cache, uint64_t exception);

/// The exception by which a task or future of asyncio ended, where nobody has asked for it.
/// Nothing where the object at that address is no such one. CPython 3.8 to 3.13.
Expected<std::optional<PythonFailure>> read_failed_task(const Memory& memory,
                                                        const PythonRuntime& runtime,
                                                        PythonCodeCache& cache, uint64_t task);

}  // namespace dlprobe
