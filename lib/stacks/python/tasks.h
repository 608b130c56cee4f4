#pragma once

#include <cstdint>
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

}  // namespace dlprobe
