#include "lib/stacks/python/frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/stacks/python/line_table.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

constexpr size_t kThreadLimit = 10'000;
constexpr size_t kFrameLimit = 10'000;
constexpr uint64_t kConditionBytes = 48;  ///< pthread_cond_t of glibc and musl, 64-bit
constexpr uint64_t kTagBits = 3;  ///< of _PyStackRef (3.14 on): no pointer to an object has them
/// From this on a frame's owner is no Python code: FRAME_OWNED_BY_CSTACK (3.12, 3.13: 3; 3.14: 4),
/// FRAME_OWNED_BY_INTERPRETER (3.14 on: 3).
constexpr uint8_t kFirstShimOwner = 3;

/// A frame in memory: what a walk needs of it.
struct RawFrame {
  uint64_t address = 0;
  uint64_t previous = 0;
  uint64_t code = 0;
  bool is_shim = false;
};

class StackReader {
 public:
  StackReader(const Memory& memory, const PythonRuntime& runtime, PythonCodeCache& cache,
              std::span<const PythonThread> known)
      : memory_(memory),
        known_(known),
        runtime_(runtime),
        layout_(runtime.layout),
        cache_(cache),
        objects_(memory, runtime.layout) {}

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
      DLP_TRY(const RawFrame raw, read_raw_frame(address));
      if (raw.is_shim) {
        if (!thread.frames.empty()) thread.frames.back().is_entry = true;
      } else {
        DLP_CHECK(add_frame(raw, thread));
      }
      address = raw.previous;
    }
    return {};
  }

  Expected<RawFrame> read_raw_frame(uint64_t address) const {
    RawFrame raw{.address = address};
    DLP_TRY(raw.previous, pointer(address + layout_.frame.previous));
    DLP_TRY(raw.code, pointer(address + layout_.frame.code));
    raw.code &= ~kTagBits;
    if (layout_.frame.owner) {
      DLP_TRY(const uint8_t owner, memory_.value<uint8_t>(address + *layout_.frame.owner));
      raw.is_shim = owner >= kFirstShimOwner;
    }
    return raw;
  }

  Status add_frame(const RawFrame& raw, PythonThread& thread) {
    DLP_TRY(const std::string type, python_type_name(memory_, layout_.object, raw.code));
    if (type != "code") {
      // From 3.13 on an extension may put any object there: PyUnstable_InterpreterFrame_GetCode.
      if (runtime_.version.minor >= 13) return {};
      return failure(ErrorCode::kMalformed,
                     fmt::format("the frame at {:#x} has no code object", raw.address));
    }
    DLP_TRY(const PythonCodeCache::Code* code, read_code(raw.code));
    // What CPython runs between a class and its __init__ (_Py_InitCleanup of Python/specialize.c,
    // from 3.12 on) is in no file.
    if (code->file == "__init__" && code->function == "__init__") return {};
    DLP_TRY(const int64_t position, read_position(raw));
    DLP_TRY(const bool is_entry, read_is_entry(raw));
    DLP_TRY(const AddressRange values, value_stack_of(raw, *code));
    const auto line =
        python_line_at(layout_.line_table, code->line_table, code->first_line, position);
    thread.frames.push_back({.file = code->file,
                             .function = code->function,
                             .line = line.value_or(0),
                             .is_entry = is_entry});
    thread.value_stacks.push_back(values);
    return {};
  }

  /// What is in use, where the frame tells; else as large as it may become.
  Expected<AddressRange> value_stack_of(const RawFrame& raw,
                                        const PythonCodeCache::Code& code) const {
    const auto words = [](int32_t count) {
      constexpr int32_t kMostValues = 1 << 12;
      return static_cast<uint64_t>(std::clamp(count, 0, kMostValues)) * sizeof(uint64_t);
    };
    uint64_t begin = raw.address + layout_.frame.locals + words(code.locals_count);
    if (layout_.frame.value_stack) {
      DLP_TRY(begin, pointer(raw.address + *layout_.frame.value_stack));
    }
    const AddressRange all{.begin = begin, .end = begin + words(code.stack_size)};
    if (layout_.frame.stack_top == 0) return all;
    DLP_TRY(const int32_t top, memory_.value<int32_t>(raw.address + layout_.frame.stack_top));
    const uint64_t end = raw.address + layout_.frame.locals + words(top);
    return top > 0 && end >= all.begin && end <= all.end ? AddressRange{all.begin, end} : all;
  }

  /// As far as the frame itself says.
  Expected<bool> read_is_entry(const RawFrame& raw) const {
    if (!layout_.frame.is_entry) return layout_.entry == PythonEntry::kEveryFrame;
    DLP_TRY(const uint8_t flag, memory_.value<uint8_t>(raw.address + *layout_.frame.is_entry));
    return flag != 0;
  }

  /// In bytes from the begin of the bytecode; negative before the first instruction.
  Expected<int64_t> read_position(const RawFrame& raw) const {
    constexpr int64_t kInstructionBytes = 2;
    const uint64_t address = raw.address + layout_.frame.position;
    if (layout_.position != PythonPosition::kPointer) {
      DLP_TRY(const int32_t lasti, memory_.value<int32_t>(address));
      return layout_.position == PythonPosition::kByte ? lasti : lasti * kInstructionBytes;
    }
    DLP_TRY(const uint64_t instruction, pointer(address));
    DLP_TRY(const uint64_t begin, read_bytecode_begin(raw));
    return static_cast<int64_t>(instruction - begin);
  }

  /// Of the bytecode that the frame runs: in the code object, or the copy that its thread has
  /// (_PyCodeArray of pycore_code.h: a size, then pointers).
  Expected<uint64_t> read_bytecode_begin(const RawFrame& raw) const {
    const uint64_t own = raw.code + layout_.code.instructions.value_or(0);
    if (!layout_.frame.tlbc_index || !layout_.code.tlbc) return own;
    DLP_TRY(const int32_t index, memory_.value<int32_t>(raw.address + *layout_.frame.tlbc_index));
    DLP_TRY(const uint64_t copies, pointer(raw.code + *layout_.code.tlbc));
    if (index <= 0 || copies == 0) return own;
    DLP_TRY(const uint64_t count, pointer(copies));
    const auto number = static_cast<uint64_t>(index);
    if (number >= count) {
      return failure(ErrorCode::kMalformed, fmt::format("bytecode copy {} of {}", number, count));
    }
    return pointer(copies + (number + 1) * sizeof(uint64_t));
  }

  Expected<const PythonCodeCache::Code*> read_code(uint64_t address) {
    const PythonLayout::Code& at = layout_.code;
    PythonCodeCache::Key key{.address = address};
    DLP_TRY(key.file, pointer(address + at.file));
    DLP_TRY(key.name, pointer(address + at.qualified_name.value_or(at.name)));
    DLP_TRY(key.line_table, pointer(address + at.line_table));
    DLP_TRY(key.first_line, memory_.value<int32_t>(address + at.first_line));
    if (const auto* known = cache_.find(key)) return known;
    PythonCodeCache::Code code{.first_line = key.first_line};
    DLP_TRY(code.stack_size, memory_.value<int32_t>(address + at.stack_size));
    if (at.locals_count) {
      DLP_TRY(code.locals_count, memory_.value<int32_t>(address + *at.locals_count));
    }
    DLP_TRY(code.file, objects_.text(key.file));
    DLP_TRY(code.function, objects_.text(key.name));
    DLP_TRY(code.line_table, objects_.bytes(key.line_table));
    return &cache_.add(key, std::move(code));
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
  PythonCodeCache& cache_;
  PythonObjects objects_;
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
