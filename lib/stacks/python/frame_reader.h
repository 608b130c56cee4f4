#pragma once

#include <cstdint>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {

/// Of _PyStackRef (3.14 on): no pointer to an object has them.
inline constexpr uint64_t kPythonTagBits = 3;

/// A frame in memory: what a walk needs of it.
struct RawPythonFrame {
  uint64_t address = 0;
  uint64_t previous = 0;
  uint64_t code = 0;
  bool is_shim = false;
};

/// Reads frames of one Python. Refers to all three arguments.
class PythonFrameReader {
 public:
  PythonFrameReader(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache)
      : memory_(memory),
        runtime_(runtime),
        layout_(runtime.layout),
        cache_(cache),
        objects_(memory, runtime.layout) {}

  Expected<RawPythonFrame> read(uint64_t address) const;

  /// What stands at that byte of the bytecode of a code object.
  Expected<PythonFrame> at(uint64_t code, int64_t position);

  /// Appends it to the frames of the thread, but for one that runs no code of a file.
  Status add(const RawPythonFrame& raw, PythonThread& thread);

 private:
  Expected<uint64_t> pointer(uint64_t address) const { return memory_.value<uint64_t>(address); }
  /// What is in use, where the frame tells; else as large as it may become.
  Expected<AddressRange> value_stack_of(const RawPythonFrame& raw,
                                        const PythonCodeCache::Code& code) const;
  /// As far as the frame itself says.
  Expected<bool> read_is_entry(const RawPythonFrame& raw) const;
  /// In bytes from the begin of the bytecode; negative before the first instruction.
  Expected<int64_t> read_position(const RawPythonFrame& raw) const;
  /// Of the bytecode that the frame runs: in the code object, or the copy that its thread has
  /// (_PyCodeArray of pycore_code.h: a size, then pointers).
  Expected<uint64_t> read_bytecode_begin(const RawPythonFrame& raw) const;
  Expected<const PythonCodeCache::Code*> read_code(uint64_t address);

  const Memory& memory_;
  const PythonRuntime& runtime_;
  const PythonLayout& layout_;
  PythonCodeCache& cache_;
  PythonObjects objects_;
};

}  // namespace dlprobe
