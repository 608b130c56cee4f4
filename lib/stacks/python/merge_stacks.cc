#include "lib/stacks/python/merge_stacks.h"

#include <algorithm>
#include <iterator>

namespace dlprobe {
namespace {

/// Also its cold part ("_PyEval_EvalFrameDefault.cold").
bool is_evaluation(const StackFrame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrameDefault");
}

/// The call of Python code that a thread is in and in no function below it, but for the check of
/// its result that ends it (ceval.c up to 3.10: the frame is gone by then).
const StackFrame* innermost_call(std::span<const StackFrame> native) {
  if (native.size() > 1 && native[0].function == "_Py_CheckFunctionResult") {
    native = native.subspan(1);
  }
  return !native.empty() && is_evaluation(native.front()) ? &native.front() : nullptr;
}

StackFrame to_frame(const PythonFrame& frame) {
  return {.python = true, .function = frame.function, .file = frame.file, .line = frame.line};
}

}  // namespace

std::vector<StackFrame> to_stack(std::span<const PythonFrame> python) {
  std::vector<StackFrame> stack;
  std::ranges::transform(python, std::back_inserter(stack), to_frame);
  return stack;
}

MergedStack merge_stacks(std::span<const StackFrame> native, std::span<const PythonFrame> python) {
  MergedStack merged;
  auto calls = std::ranges::count_if(native, is_evaluation);
  const auto entries = std::ranges::count_if(python, &PythonFrame::is_entry);
  // The innermost call may be about to begin its frame, or have ended it.
  const StackFrame* frameless = calls == entries + 1 ? innermost_call(native) : nullptr;
  if (frameless != nullptr) --calls;
  if (calls != entries) {
    merged.frames.assign(native.begin(), native.end());
    for (const PythonFrame& frame : python)
      merged.frames.push_back(to_frame(frame));
    if (!python.empty() && !native.empty()) {
      merged.note = std::to_string(calls) + " native calls of Python code, but " +
                    std::to_string(entries) +
                    " Python frames that begin one: native and Python frames are not in order";
    }
    return merged;
  }
  // Both are innermost first, so the innermost call has the innermost frames, down to its entry.
  size_t next = 0;
  for (const StackFrame& frame : native) {
    if (!is_evaluation(frame) || &frame == frameless) {
      merged.frames.push_back(frame);
      continue;
    }
    bool entered = false;
    while (next < python.size() && !entered) {
      entered = python[next].is_entry;
      merged.frames.push_back(to_frame(python[next++]));
    }
  }
  return merged;
}

}  // namespace dlprobe
