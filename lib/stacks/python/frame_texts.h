#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "lib/stacks/python/frames.h"
#include "lib/stacks/python/values.h"

namespace dlprobe {

/// The texts that a running function has at hand, which may be names of files: its local variables,
/// the globals that its code names, and the attributes of both. Refers to all its arguments.
class PythonFrameTexts {
 public:
  PythonFrameTexts(const Memory& memory, const PythonRuntime& runtime,
                   const PythonValueLayout& layout)
      : layout_(layout), values_(memory, runtime, layout) {}

  /// Of that frame, and of those before; up to a limit.
  const std::set<std::string>& add(const PythonFramePlace& place);

 private:
  void add_locals(const PythonFramePlace& place);
  void add_globals(const PythonFramePlace& place);
  void add_value(uint64_t value, int depth);
  void add_text(uint64_t text);

  const PythonValueLayout& layout_;
  PythonValues values_;
  std::set<std::string> texts_;
  std::set<uint64_t> seen_;
};

}  // namespace dlprobe
