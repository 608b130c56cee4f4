#include "lib/stacks/python/tasks.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/stacks/python/frame_reader.h"
#include "lib/stacks/python/objects.h"
#include "lib/stacks/python/values.h"

namespace dlprobe {
namespace {

constexpr size_t kCoroutineLimit = 10'000;

class TaskReader {
 public:
  TaskReader(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache)
      : memory_(memory), runtime_(runtime), frames_(memory, runtime, cache) {}

  Expected<std::vector<PythonFrame>> read(uint64_t task) {
    DLP_TRY(const Awaiting waits, awaiting(task));
    if (waits.coroutine == 0) return std::vector<PythonFrame>();
    return read_coroutine(waits.coroutine);
  }

  Expected<std::optional<PythonFailure>> read_failure(uint64_t task) {
    // FutureObj_HEAD: _loop, _callback0, _context0, _callbacks, _exception.
    constexpr uint64_t kException = 4;
    if (type_of(task) != kTask) return std::nullopt;
    DLP_TRY(const auto state, state_of(task));
    // Nobody has asked for the exception.
    if (state[0] != kFinished || (state[1] & 1U) == 0) return std::nullopt;
    DLP_TRY(const uint64_t exception,
            pointer(task + layout_.object.head_bytes + kException * kPythonWord));
    return read_exception(exception);
  }

  Expected<bool> awaits_what_is_done(uint64_t task) {
    DLP_TRY(const Awaiting waits, awaiting(task));
    if (waits.coroutine == 0) return false;
    if (const auto type = type_of(waits.future); type != kTask && type != "_asyncio.Future")
      return false;
    DLP_TRY(const auto of_task, state_of(task));
    DLP_TRY(const auto of_future, state_of(waits.future));
    return of_task[0] == kPending && (of_future[0] == kFinished || of_future[0] == kCancelled);
  }

  Expected<PythonFailure> read_exception(uint64_t exception) {
    DLP_TRY(std::string name, python_type_name(memory_, layout_.object, exception));
    DLP_TRY(auto frames, read_traceback(exception));
    return PythonFailure{.exception = std::move(name), .frames = std::move(frames)};
  }

 private:
  static constexpr std::string_view kTask = "_asyncio.Task";
  static constexpr uint32_t kPending = 0;
  static constexpr uint32_t kCancelled = 1;
  static constexpr uint32_t kFinished = 2;

  /// What a task waits for, and its coroutine; 0: it does not wait, or is none.
  struct Awaiting {
    uint64_t future = 0;
    uint64_t coroutine = 0;
  };

  Expected<Awaiting> awaiting(uint64_t task) const {
    // The fields of TaskObj (Modules/_asynciomodule.c) differ from version to version, but the
    // future that the task waits for lies before its coroutine in each.
    constexpr size_t kMostFields = 32;
    if (type_of(task) != kTask) return Awaiting();
    DLP_TRY(const auto fields,
            (memory_.value<std::array<uint64_t, kMostFields>>(task + layout_.object.head_bytes)));
    for (size_t i = 1; i < fields.size(); ++i)
      if (fields[i - 1] != 0 && type_of(fields[i]) == "coroutine")
        return Awaiting{.future = fields[i - 1], .coroutine = fields[i]};
    return Awaiting();
  }

  /// Of a future or task: _state, and with it in the word's other half _log_tb.
  Expected<std::array<uint32_t, 2>> state_of(uint64_t future) const {
    constexpr std::array<uint64_t, 6> kState = {7, 8, 9, 9, 9, 10};  // from 3.8 on
    constexpr int kFirstRead = 8;
    const auto version = static_cast<size_t>(runtime_.version.minor - kFirstRead);
    if (version >= kState.size()) return std::array<uint32_t, 2>{};
    return memory_.value<std::array<uint32_t, 2>>(future + layout_.object.head_bytes +
                                                  kState.at(version) * kPythonWord);
  }

  /// PyBaseExceptionObject: dict, args, from 3.11 on notes, traceback.
  Expected<std::vector<PythonFrame>> read_traceback(uint64_t exception) {
    constexpr int kFirstWithNotes = 11;
    const uint64_t before = runtime_.version.minor >= kFirstWithNotes ? 3 : 2;
    DLP_TRY(uint64_t entry, pointer(exception + layout_.object.head_bytes + before * kPythonWord));
    PythonListGuard guard("a Python traceback", kCoroutineLimit);
    std::vector<PythonFrame> frames;
    while (entry != 0) {
      DLP_CHECK(guard.enter(entry));
      // PyTracebackObject: tb_next, tb_frame, int tb_lasti (in bytes).
      const uint64_t fields = entry + layout_.object.head_bytes;
      DLP_TRY(const uint64_t code, code_of_frame(fields + kPythonWord));
      DLP_TRY(const int32_t position, memory_.value<int32_t>(fields + 2 * kPythonWord));
      DLP_TRY(PythonFrame frame, frames_.at(code, position));
      frames.push_back(std::move(frame));
      DLP_TRY(entry, pointer(fields));
    }
    std::ranges::reverse(frames);
    return frames;
  }

  /// Of a PyFrameObject: from 3.11 on its second field is where the frame itself lies.
  Expected<uint64_t> code_of_frame(uint64_t place) {
    DLP_TRY(uint64_t frame, pointer(place));
    if (layout_.position == PythonPosition::kPointer) {
      DLP_TRY(frame, pointer(frame + layout_.object.head_bytes + kPythonWord));
    }
    DLP_TRY(const RawPythonFrame raw, frames_.read(frame));
    return raw.code;
  }

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
    const uint64_t values = frame + layout_.frame.value_stack.value_or(0);
    uint64_t top = 0;
    if (layout_.position == PythonPosition::kByte) {
      DLP_TRY(top, pointer(values + kPythonWord));  // f_stacktop
    } else if (layout_.position == PythonPosition::kInstruction) {
      constexpr uint64_t kStackDepth = 16;  // f_stackdepth, behind f_trace
      DLP_TRY(top, pointer(values));
      DLP_TRY(const int32_t depth, memory_.value<int32_t>(values + kStackDepth));
      top += static_cast<uint64_t>(depth) * kPythonWord;
    } else if (layout_.frame.stack_top != 0) {
      DLP_TRY(const int32_t depth, memory_.value<int32_t>(frame + layout_.frame.stack_top));
      top = frame + layout_.frame.locals + static_cast<uint64_t>(depth) * kPythonWord;
    } else {
      DLP_TRY(top, pointer(frame + layout_.frame.position + kPythonWord));  // stackpointer
    }
    DLP_TRY(const uint64_t awaited, pointer(top - kPythonWord));
    return awaited & ~kPythonTagBits;
  }

  const Memory& memory_;
  const PythonRuntime& runtime_;
  const PythonLayout& layout_ = runtime_.layout;
  PythonFrameReader frames_;
};

}  // namespace

Expected<std::vector<PythonFrame>> read_waiting_task(const Memory& memory,
                                                     const PythonRuntime& runtime,
                                                     PythonCodeCache& cache, uint64_t task) {
  return TaskReader(memory, runtime, cache).read(task);
}

bool awaits_what_is_done(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache,
                         uint64_t task) {
  return TaskReader(memory, runtime, cache).awaits_what_is_done(task).value_or(false);
}

Expected<std::optional<PythonFailure>> read_failed_task(const Memory& memory,
                                                        const PythonRuntime& runtime,
                                                        PythonCodeCache& cache, uint64_t task) {
  return TaskReader(memory, runtime, cache).read_failure(task);
}

Expected<PythonFailure> read_python_failure(const Memory& memory, const PythonRuntime& runtime,
                                            PythonCodeCache& cache, uint64_t exception) {
  return TaskReader(memory, runtime, cache).read_exception(exception);
}

}  // namespace dlprobe
