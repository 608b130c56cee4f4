#include "lib/stacks/python/tasks.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "lib/stacks/python/frame_reader.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

constexpr size_t kCoroutineLimit = 10'000;

class TaskReader {
 public:
  TaskReader(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache)
      : memory_(memory), layout_(runtime.layout), frames_(memory, runtime, cache) {}

  Expected<std::vector<PythonFrame>> read(uint64_t task) {
    // The fields of TaskObj (Modules/_asynciomodule.c) differ from version to version, but the
    // future that the task waits for lies before its coroutine in each.
    constexpr size_t kMostFields = 32;
    const auto type = type_of(task);
    if (type != "_asyncio.Task") return std::vector<PythonFrame>();
    DLP_TRY(const auto fields,
            (memory_.value<std::array<uint64_t, kMostFields>>(task + layout_.object.head_bytes)));
    for (size_t i = 1; i < fields.size(); ++i)
      if (fields[i - 1] != 0 && type_of(fields[i]) == "coroutine") return read_coroutine(fields[i]);
    return std::vector<PythonFrame>();
  }

 private:
  Expected<uint64_t> pointer(uint64_t address) const { return memory_.value<uint64_t>(address); }

  std::string type_of(uint64_t object) const {
    return python_type_name(memory_, layout_.object, object).value_or("");
  }

  Expected<std::vector<PythonFrame>> read_coroutine(uint64_t address) {
    PythonListGuard guard("Python coroutines", kCoroutineLimit);
    PythonThread thread;
    while (true) {
      DLP_TRY(const uint64_t frame, suspended_frame(address));
      if (frame == 0) break;
      DLP_CHECK(guard.enter(frame));
      DLP_TRY(const RawPythonFrame raw, frames_.read(frame));
      DLP_CHECK(frames_.add(raw, thread));
      DLP_TRY(address, read_awaited(frame));
    }
    std::ranges::reverse(thread.frames);
    return std::move(thread.frames);
  }

  /// 0: the object is none that has a frame, or it has not begun or has ended.
  Expected<uint64_t> suspended_frame(uint64_t object) const {
    std::string type = type_of(object);
    if (type == "async_generator_asend" || type == "async_generator_athrow") {
      DLP_TRY(object, pointer(object + layout_.object.head_bytes));
      type = type_of(object);
    }
    if (type != "coroutine" && type != "generator" && type != "async_generator") return 0;
    const uint64_t at = object + layout_.coroutine.frame;
    if (layout_.frame.value_stack) return pointer(at);
    constexpr uint64_t kStateBeforeFrame = 5;
    DLP_TRY(const int8_t state, memory_.value<int8_t>(at - kStateBeforeFrame));
    return state < 0 ? at : 0;
  }

  /// What a frame that is suspended in `await` or `yield from` waits for: the top of its stack. 0:
  /// not known.
  Expected<uint64_t> read_awaited(uint64_t frame) const {
    constexpr uint64_t kValueBytes = sizeof(uint64_t);
    const uint64_t values = frame + layout_.frame.value_stack.value_or(0);
    uint64_t top = 0;
    if (layout_.position == PythonPosition::kByte) {
      DLP_TRY(top, pointer(values + kValueBytes));  // f_stacktop
    } else if (layout_.position == PythonPosition::kInstruction) {
      constexpr uint64_t kStackDepth = 16;  // f_stackdepth, behind f_trace
      DLP_TRY(top, pointer(values));
      DLP_TRY(const int32_t depth, memory_.value<int32_t>(values + kStackDepth));
      top += static_cast<uint64_t>(depth) * kValueBytes;
    } else if (layout_.frame.stack_top != 0) {
      DLP_TRY(const int32_t depth, memory_.value<int32_t>(frame + layout_.frame.stack_top));
      top = frame + layout_.frame.locals + static_cast<uint64_t>(depth) * kValueBytes;
    } else {
      DLP_TRY(top, pointer(frame + layout_.frame.position + kValueBytes));  // stackpointer
    }
    DLP_TRY(const uint64_t awaited, pointer(top - kValueBytes));
    return awaited & ~kPythonTagBits;
  }

  const Memory& memory_;
  const PythonLayout& layout_;
  PythonFrameReader frames_;
};

}  // namespace

Expected<std::vector<PythonFrame>> read_waiting_task(const Memory& memory,
                                                     const PythonRuntime& runtime,
                                                     PythonCodeCache& cache, uint64_t task) {
  return TaskReader(memory, runtime, cache).read(task);
}

}  // namespace dlprobe
