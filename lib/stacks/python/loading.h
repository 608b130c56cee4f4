#pragma once

#include <cstdint>
#include <optional>

#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/value_layout.h"

namespace dlprobe {

/// What a Python program has read so far.
struct PythonLoading {
  /// Processes that its multiprocessing has made; 0: none, or it is not known.
  int64_t processes = 0;
  /// Batches that were taken in the loop over a DataLoader of PyTorch that the thread is in; of
  /// several loops the innermost. Nothing: it is in none that is known.
  std::optional<int64_t> batches;
};

/// Of a thread that stands. CPython 3.8 to 3.13.
PythonLoading read_python_loading(const Memory& memory, const PythonRuntime& runtime,
                                  const PythonValueLayout& layout, const PythonThread& thread);

}  // namespace dlprobe
