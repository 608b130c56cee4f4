#include "lib/stacks/python/debug_offsets.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "lib/stacks/python/debug_tables.h"
#include "lib/stacks/python/later_table.h"

namespace dlprobe {
namespace {

constexpr uint32_t kWord = 8;

/// Takes offsets that lie in their structure; remembers the first that does not.
class BoundsCheck {
 public:
  /// `offset` of a field of `width` bytes in a structure of `size`.
  uint32_t operator()(uint64_t offset, uint64_t size, uint32_t width, const char* name) {
    const bool fits =
        size <= kLargestStructure && offset < size && size - offset >= width && offset % width == 0;
    if (!fits && !wrong_) wrong_ = fmt::format("{} at {} of {} bytes", name, offset, size);
    return fits ? static_cast<uint32_t>(offset) : 0;
  }
  const std::optional<std::string>& wrong() const { return wrong_; }

 private:
  /// PyInterpreterState takes 200 to 400 KiB.
  static constexpr uint64_t kLargestStructure = uint64_t{16} << 20;
  std::optional<std::string> wrong_;
};

constexpr uint32_t kIntBytes = 4;

template <class Offsets>
PythonLayout::Interpreter interpreter_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.interpreter_state;
  const uint64_t size = from.size;
  return {.next = in(from.next, size, kWord, "interpreter_state.next"),
          .threads_head = in(from.threads_head, size, kWord, "interpreter_state.threads_head"),
          .modules = in(from.imports_modules, size, kWord, "interpreter_state.imports_modules"),
          .gil = in(from.ceval_gil, size, kWord, "interpreter_state.ceval_gil"),
          .gc_collecting = in(from.gc + table.gc.collecting, size, kIntBytes, "gc.collecting")};
}

template <class Offsets>
PythonLayout::Gil gil_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.interpreter_state;
  const uint64_t size = from.size;
  const uint32_t base = in(from.gil_runtime_state, size, kWord, "gil_runtime_state");
  const uint32_t holder = in(from.gil_runtime_state_holder, size, kWord, "gil.last_holder");
  const uint32_t locked = in(from.gil_runtime_state_locked, size, kIntBytes, "gil.locked");
  // Between the two are the rest of a word and the number of switches (pycore_gil.h).
  PythonLayout::Gil gil{
      .last_holder = holder - base, .locked = locked - base, .cond = locked - base + 2 * kWord};
  if (table.header.free_threaded != 0) {
    gil.enabled = in(from.gil_runtime_state_enabled, size, kIntBytes, "gil.enabled");
  }
  return gil;
}

template <class Offsets>
PythonLayout::Thread thread_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.thread_state;
  const uint64_t size = from.size;
  return {.next = in(from.next, size, kWord, "thread_state.next"),
          .interpreter = in(from.interp, size, kWord, "thread_state.interp"),
          .frame = in(from.current_frame, size, kWord, "thread_state.current_frame"),
          .thread_id = in(from.thread_id, size, kWord, "thread_state.thread_id"),
          .native_thread_id = in(from.native_thread_id, size, kWord, "native_thread_id")};
}

template <class Offsets>
PythonLayout::Frame frame_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.interpreter_frame;
  const uint64_t size = from.size;
  return {.previous = in(from.previous, size, kWord, "interpreter_frame.previous"),
          .code = in(from.executable, size, kWord, "interpreter_frame.executable"),
          .position = in(from.instr_ptr, size, kWord, "interpreter_frame.instr_ptr"),
          .locals = in(from.localsplus, size, kWord, "interpreter_frame.localsplus"),
          .owner = in(from.owner, size, 1, "interpreter_frame.owner")};
}

template <class Offsets>
PythonLayout::Code code_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.code_object;
  const uint64_t size = from.size;
  return {.first_line = in(from.firstlineno, size, kIntBytes, "code_object.firstlineno"),
          .file = in(from.filename, size, kWord, "code_object.filename"),
          .name = in(from.name, size, kWord, "code_object.name"),
          .qualified_name = in(from.qualname, size, kWord, "code_object.qualname"),
          .line_table = in(from.linetable, size, kWord, "code_object.linetable"),
          // Not in the table: the fields around the first line (Include/cpython/code.h).
          .stack_size = in(from.firstlineno - kIntBytes, size, kIntBytes, "co_stacksize"),
          .locals_count = in(from.firstlineno + kIntBytes, size, kIntBytes, "co_nlocalsplus"),
          .instructions = in(from.co_code_adaptive, size, 1, "code_object.co_code_adaptive")};
}

template <class Offsets>
PythonLayout::Object object_layout(const Offsets& table, BoundsCheck& in) {
  const auto& bytes = table.bytes_object;
  return {.head_bytes = in(table.pyobject.size, table.type_object.size, kWord, "pyobject.size"),
          .type = in(table.pyobject.ob_type, table.pyobject.size, kWord, "pyobject.ob_type"),
          .type_name = in(table.type_object.tp_name, table.type_object.size, kWord, "tp_name"),
          .bytes_size = in(bytes.ob_size, bytes.size, kWord, "bytes_object.ob_size"),
          .bytes_data = in(bytes.ob_sval, bytes.size, 1, "bytes_object.ob_sval")};
}

template <class Offsets>
PythonLayout::Unicode unicode_layout(const Offsets& table, BoundsCheck& in) {
  const auto& from = table.unicode_object;
  const uint32_t ascii = in(from.asciiobject_size, from.size, kWord, "asciiobject_size");
  return {.length = in(from.length, from.size, kWord, "unicode_object.length"),
          .state = in(from.state, from.size, kIntBytes, "unicode_object.state"),
          .ascii_size = ascii,
          .compact_size = ascii + 2 * kWord};  // utf8_length and utf8
}

/// What only the free-threaded builds of 3.14 and later have.
template <class Offsets>
void add_thread_local_bytecode(const Offsets& table, BoundsCheck& in, PythonLayout& layout) {
  layout.frame.tlbc_index = in(table.interpreter_frame.tlbc_index, table.interpreter_frame.size,
                               kIntBytes, "interpreter_frame.tlbc_index");
  layout.code.tlbc =
      in(table.code_object.co_tlbc, table.code_object.size, kWord, "code_object.co_tlbc");
  layout.unicode.kind_bit = 8;  // `interned` is a byte of its own (gh-133968)
}

template <class Offsets>
Expected<PythonLayout> layout_of(const Offsets& table) {
  BoundsCheck in;
  const auto& runtime = table.runtime_state;
  PythonLayout layout{
      .runtime = {.interpreters_head = in(runtime.interpreters_head, runtime.size, kWord,
                                          "runtime_state.interpreters_head")},
      .interpreter = interpreter_layout(table, in),
      .gil = gil_layout(table, in),
      .thread = thread_layout(table, in),
      .frame = frame_layout(table, in),
      .code = code_layout(table, in),
      .object = object_layout(table, in),
      .unicode = unicode_layout(table, in),
  };
  constexpr uint32_t kBeforeFrame = 7 * kWord;  // gi_weakreflist to gi_frame_state, from 3.12 on
  layout.coroutine.frame = layout.object.head_bytes + kBeforeFrame;
  if constexpr (std::is_same_v<Offsets, DebugOffsets313>) {
    layout.frame.stack_top = layout.frame.locals - kWord;
  } else {
    if (table.header.free_threaded != 0) add_thread_local_bytecode(table, in, layout);
  }
  if (const auto& wrong = in.wrong()) {
    return failure(ErrorCode::kMalformed, "read _Py_DebugOffsets: " + *wrong);
  }
  return layout;
}

template <class Offsets>
Expected<PythonLayout> read_layout(const Memory& memory, uint64_t address) {
  DLP_TRY(const Offsets table, memory.value<Offsets>(address));
  return layout_of(table);
}

Expected<PythonLayout> read_layout_of(const PythonVersion& version, const Memory& memory,
                                      uint64_t address) {
  if (version.minor == 13) return read_layout<DebugOffsets313>(memory, address);
  if (version.minor == 14) return read_layout<DebugOffsets314>(memory, address);
  if (version.minor == kNewestKnownPython.minor) {
    return read_layout<DebugOffsets315>(memory, address);
  }
  DLP_TRY(const DebugOffsets315 table, find_later_table(memory, address));
  return layout_of(table);
}

bool has_cookie(const DebugHeader& header) {
  return std::string_view(header.cookie.data(), header.cookie.size()) == kPythonDebugCookie;
}

}  // namespace

Expected<PythonDebugOffsets> read_python_debug_offsets(const Memory& memory, uint64_t runtime) {
  DLP_TRY(const DebugHeader header, memory.value<DebugHeader>(runtime));
  if (!has_cookie(header)) {
    return failure(ErrorCode::kNotFound, "read _Py_DebugOffsets: no cookie");
  }
  PythonDebugOffsets offsets{.version = python_version_from_hex(header.version),
                             .free_threaded = header.free_threaded != 0};
  if (offsets.version.major != 3 || offsets.version.minor < 13) {
    return failure(ErrorCode::kUnsupported,
                   "read the frames of Python " + to_string(offsets.version));
  }
  DLP_TRY(offsets.layout, read_layout_of(offsets.version, memory, runtime));
  return offsets;
}

}  // namespace dlprobe
