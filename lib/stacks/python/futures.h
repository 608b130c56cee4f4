#pragma once

#include <cstdint>
#include <optional>

#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/tasks.h"
#include "lib/stacks/python/values.h"

namespace dlprobe {

/// Futures of concurrent.futures: what the tasks of an executor end in. Refers to all its
/// arguments.
class PythonFutures {
 public:
  PythonFutures(const Memory& memory, const PythonRuntime& runtime, const PythonValueLayout& layout,
                PythonCodeCache& cache)
      : runtime_(runtime), values_(memory, runtime, layout), cache_(cache) {}

  /// Their class; 0: the program has not imported it.
  uint64_t find_class();
  /// How the one at that address failed; nothing where it is none that did.
  std::optional<PythonFailure> read(uint64_t future);

 private:
  const PythonRuntime& runtime_;
  PythonValues values_;
  PythonCodeCache& cache_;
};

}  // namespace dlprobe
