#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/model/snapshot.h"
#include "lib/stacks/python/frames.h"

namespace dlprobe {

/// One stack of native and Python frames, innermost first.
///
/// Each native call of _PyEval_EvalFrameDefault ran the Python frames from one entry frame inwards:
/// they take its place. Put together from the outermost end, where both are sure. Where the numbers
/// of calls and of entry frames differ, both stacks are kept, the native one first, and `note` says
/// so: no frame is lost.
struct MergedStack {
  std::vector<StackFrame> frames;
  std::string note;
};
MergedStack merge_stacks(std::span<const StackFrame> native, std::span<const PythonFrame> python);

/// Python frames alone.
std::vector<StackFrame> to_stack(std::span<const PythonFrame> python);

}  // namespace dlprobe
