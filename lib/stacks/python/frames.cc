#include "lib/stacks/python/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/foreign/python_code.h"
#include "lib/stacks/python/frame_reader.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

constexpr size_t kThreadLimit = 10'000;
constexpr size_t kFrameLimit = 10'000;
constexpr uint64_t kConditionBytes = 48;  ///< pthread_cond_t of glibc and musl, 64-bit

class StackReader {
 public:
  StackReader(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache,
              std::span<const PythonThread> known)
      : memory_(memory),
        known_(known),
        runtime_(runtime),
        layout_(runtime.layout),
        frames_(memory, runtime, cache) {}

  Expected<PythonStacks> read() {
    DLP_TRY(const auto interpreters, list_python_interpreters(memory_, runtime_));
    stacks_.version = runtime_.version;
    stacks_.free_threaded = runtime_.free_threaded;
    stacks_.notes = runtime_.notes;
    for (const uint64_t interpreter : interpreters) {
      note("read the GIL", read_gil(interpreter));
      note("read whether garbage is collected", read_gc(interpreter));
      note("list threads", read_threads(interpreter));
    }
    mark_holders();
    return std::move(stacks_);
  }

 private:
  Expected<uint64_t> pointer(uint64_t address) const { return memory_.value<uint64_t>(address); }

  void note(std::string_view what, const Status& status) {
    if (!status) stacks_.notes.push_back(fmt::format("{}: {}", what, to_string(status.error())));
  }

  Status read_gil(uint64_t interpreter) {
    uint64_t address = runtime_.address + layout_.runtime.gil.value_or(0);
    if (layout_.interpreter.gil) {
      DLP_TRY(address, pointer(interpreter + *layout_.interpreter.gil));
    }
    const auto is_same = [&](const PythonGil& gil) { return gil.address == address; };
    if (address == 0 || std::ranges::any_of(stacks_.gils, is_same)) return {};
    if (layout_.gil.enabled) {
      DLP_TRY(const int32_t enabled, memory_.value<int32_t>(address + *layout_.gil.enabled));
      if (enabled == 0) return {};
    }
    DLP_TRY(const int32_t locked, memory_.value<int32_t>(address + layout_.gil.locked));
    DLP_TRY(const uint64_t holder, pointer(address + layout_.gil.last_holder));
    const uint64_t cond = address + layout_.gil.cond;
    PythonGil gil{.address = address,
                  .locked = locked == 1,
                  .holder_tstate = std::nullopt,
                  .cond = {.begin = cond, .end = cond + kConditionBytes}};
    if (gil.locked && holder != 0) gil.holder_tstate = holder;
    stacks_.gils.push_back(gil);
    return {};
  }

  Status read_gc(uint64_t interpreter) {
    const uint64_t address = layout_.interpreter.gc_collecting
                                 ? interpreter + *layout_.interpreter.gc_collecting
                                 : runtime_.address + layout_.runtime.gc_collecting.value_or(0);
    DLP_TRY(const int32_t collecting, memory_.value<int32_t>(address));
    stacks_.gc_running = stacks_.gc_running || collecting != 0;
    return {};
  }

  Status read_threads(uint64_t interpreter) {
    PythonListGuard guard("Python threads", kThreadLimit);
    DLP_TRY(uint64_t tstate, pointer(interpreter + layout_.interpreter.threads_head));
    while (tstate != 0) {
      DLP_CHECK(guard.enter(tstate));
      DLP_TRY(const uint64_t owner, pointer(tstate + layout_.thread.interpreter));
      if (owner != interpreter) {
        return failure(ErrorCode::kMalformed,
                       fmt::format("the thread at {:#x} is of another interpreter", tstate));
      }
      DLP_TRY(auto thread, read_thread(tstate, interpreter));
      stacks_.threads.push_back(std::move(thread));
      DLP_TRY(tstate, pointer(tstate + layout_.thread.next));
    }
    return {};
  }

  Expected<PythonThread> read_thread(uint64_t tstate, uint64_t interpreter) {
    PythonThread thread{.tstate = tstate, .interpreter = interpreter};
    DLP_TRY(thread.pthread_id, pointer(tstate + layout_.thread.thread_id));
    if (layout_.thread.native_thread_id) {
      DLP_TRY(const uint64_t tid, pointer(tstate + *layout_.thread.native_thread_id));
      if (tid != 0) thread.native_tid = static_cast<int32_t>(tid);
    }
    const auto known = std::ranges::find(known_, tstate, &PythonThread::tstate);
    if (known != known_.end() && known->pthread_id == thread.pthread_id) {
      thread.frames = known->frames;
      thread.value_stacks = known->value_stacks;
      thread.event_loop = known->event_loop;
      thread.main_task = known->main_task;
      thread.places = known->places;
      thread.cut_off = known->cut_off;
      return thread;
    }
    if (auto status = read_frames(thread); !status) thread.cut_off = std::move(status).error();
    return thread;
  }

  Expected<uint64_t> innermost_frame(uint64_t tstate) const {
    DLP_TRY(const uint64_t frame, pointer(tstate + layout_.thread.frame));
    if (!layout_.thread.frame_in_cframe || frame == 0) return frame;
    return pointer(frame + *layout_.thread.frame_in_cframe);
  }

  /// Appends to thread.frames what can be read, in order.
  Status read_frames(PythonThread& thread) {
    PythonListGuard guard("Python frames", kFrameLimit);
    DLP_TRY(uint64_t address, innermost_frame(thread.tstate));
    while (address != 0) {
      DLP_CHECK(guard.enter(address));
      DLP_TRY(const RawPythonFrame raw, frames_.read(address));
      if (raw.is_shim) {
        if (!thread.frames.empty()) thread.frames.back().is_entry = true;
      } else {
        DLP_CHECK(frames_.add(raw, thread));
        DLP_CHECK(find_event_loop(raw, thread));
      }
      address = raw.previous;
    }
    return {};
  }

  /// Takes the loop, and what it runs until it is done, from the locals of the methods of
  /// asyncio.BaseEventLoop that run it.
  Status find_event_loop(const RawPythonFrame& raw, PythonThread& thread) const {
    if (thread.frames.empty()) return {};
    const PythonFrame& frame = thread.frames.back();
    const bool is_loop = frame.function.ends_with("run_forever") && thread.event_loop == 0;
    const bool has_task = frame.function.ends_with("run_until_complete") && thread.main_task == 0;
    if (!is_loop && !has_task) return {};
    if (!is_of_standard_library(frame.file, "asyncio/base_events.py")) return {};
    const auto local = [&](uint64_t index) {  // self, future
      return pointer(raw.address + layout_.frame.locals + index * sizeof(uint64_t));
    };
    DLP_TRY(const uint64_t object, local(is_loop ? 0 : 1));
    (is_loop ? thread.event_loop : thread.main_task) = object & ~kPythonTagBits;
    return {};
  }

  void mark_holders() {
    for (PythonThread& thread : stacks_.threads) {
      thread.holds_gil = std::ranges::any_of(
          stacks_.gils, [&](const PythonGil& gil) { return gil.holder_tstate == thread.tstate; });
    }
  }

  const Memory& memory_;
  std::span<const PythonThread> known_;
  const PythonRuntime& runtime_;
  const PythonLayout& layout_;
  PythonFrameReader frames_;
  PythonStacks stacks_;
};

}  // namespace

const PythonCodeCache::Code* PythonCodeCache::find(const Key& key) const {
  const auto found = codes_.find(key);
  return found == codes_.end() ? nullptr : &found->second;
}

const PythonCodeCache::Code& PythonCodeCache::add(const Key& key, Code code) {
  return codes_.insert_or_assign(key, std::move(code)).first->second;
}

Expected<PythonStacks> read_python_stacks(const Memory& memory, const PythonRuntime& runtime,
                                          PythonCodeCache& cache,
                                          std::span<const PythonThread> known) {
  return StackReader(memory, runtime, cache, known).read();
}

}  // namespace dlprobe
