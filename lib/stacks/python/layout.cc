#include "lib/stacks/python/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dlprobe {
namespace {

constexpr uint32_t kWord = 8;

constexpr PythonLayout kPython38{
    .position = PythonPosition::kByte,
    .line_table = PythonLineTable::kDeltas,
    .entry = PythonEntry::kEveryFrame,
    .runtime = {.interpreters_head = 32, .gil = 1152, .gc_collecting = 544},
    .interpreter = {.next = 0, .threads_head = 8, .modules = 56},
    .thread = {.frame = 24, .thread_id = 176},
    .frame = {.previous = 24, .code = 32, .position = 104},
    .code = {.first_line = 40, .file = 104, .name = 112, .line_table = 120},
    .unicode = {.ascii_size = 48, .compact_size = 72},
};

constexpr PythonLayout python39() {
  PythonLayout layout = kPython38;
  layout.runtime = {.interpreters_head = 32, .gil = 352};
  layout.interpreter = {.next = 0, .threads_head = 8, .modules = 856, .gc_collecting = 816};
  return layout;
}

constexpr PythonLayout python310() {
  PythonLayout layout = python39();
  layout.position = PythonPosition::kInstruction;
  layout.line_table = PythonLineTable::kRanges;
  layout.frame.position = 96;
  return layout;
}

constexpr PythonLayout kPython311{
    .entry = PythonEntry::kFlag,
    .runtime = {.interpreters_head = 40, .gil = 360},
    .interpreter = {.next = 0, .threads_head = 16, .modules = 888, .gc_collecting = 848},
    .thread = {.frame = 56, .frame_in_cframe = 8, .thread_id = 152, .native_thread_id = 160},
    .frame = {.previous = 48, .code = 32, .position = 56, .is_entry = 68},
    .code = {.first_line = 72, .qualified_name = 128, .instructions = 184},
    .unicode = {.ascii_size = 48, .compact_size = 72},
};

constexpr PythonLayout kPython312{
    .runtime = {.interpreters_head = 40},
    .interpreter =
        {.next = 0, .threads_head = 72, .modules = 944, .gil = 384, .gc_collecting = 312},
    .thread = {.frame = 56, .frame_in_cframe = 0, .thread_id = 136, .native_thread_id = 144},
    .frame = {.previous = 8, .code = 0, .position = 56, .owner = 70},
    .code = {.first_line = 68, .qualified_name = 128, .instructions = 192},
};

constexpr PythonLayout kPython313{
    .runtime = {.interpreters_head = 632},
    .interpreter =
        {.next = 7264, .threads_head = 7344, .modules = 7656, .gil = 16, .gc_collecting = 7600},
    .thread = {.frame = 72, .thread_id = 152, .native_thread_id = 160},
    .frame = {.previous = 8, .code = 0, .position = 56, .owner = 70},
    .code = {.first_line = 68, .qualified_name = 128, .instructions = 200},
};

constexpr PythonLayout python314() {
  PythonLayout layout = kPython313;
  layout.runtime = {.interpreters_head = 0};  // only ever by _Py_DebugOffsets
  layout.interpreter.next = 7272;
  layout.interpreter.modules = 7664;
  layout.frame.owner = 74;
  layout.code.instructions = 208;
  return layout;
}

constexpr int kFirstMinor = 8;
constexpr std::array kLayouts{kPython38,  python39(), python310(), kPython311,
                              kPython312, kPython313, python314()};

// The groups of _Py_DebugOffsets; each number is an offset or, named `size`, a sizeof.
struct RuntimeOffsets {
  uint64_t size, finalizing, interpreters_head;
};
struct ThreadOffsets {
  uint64_t size, prev, next, interp, current_frame, thread_id, native_thread_id, datastack_chunk,
      status;
};
struct TupleOffsets {
  uint64_t size, ob_item, ob_size;
};
struct ObjectOffsets {
  uint64_t size, ob_type;
};
struct TypeOffsets {
  uint64_t size, tp_name, tp_repr, tp_flags;
};
struct BytesOffsets {
  uint64_t size, ob_size, ob_sval;
};
struct UnicodeOffsets {
  uint64_t size, state, length, asciiobject_size;
};
struct GcOffsets {
  uint64_t size, collecting;
};
struct DebugHeader {
  std::array<char, 8> cookie;
  uint64_t version, free_threaded;
};

struct DebugOffsets313 {
  DebugHeader header;
  RuntimeOffsets runtime_state;
  struct {
    uint64_t size, id, next, threads_head, gc, imports_modules, sysdict, builtins, ceval_gil,
        gil_runtime_state, gil_runtime_state_enabled, gil_runtime_state_locked,
        gil_runtime_state_holder;
  } interpreter_state;
  ThreadOffsets thread_state;
  struct {
    uint64_t size, previous, executable, instr_ptr, localsplus, owner;
  } interpreter_frame;
  struct {
    uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, co_code_adaptive;
  } code_object;
  ObjectOffsets pyobject;
  TypeOffsets type_object;
  TupleOffsets tuple_object, list_object, dict_object;
  std::array<uint64_t, 2> float_object;
  TupleOffsets long_object;
  BytesOffsets bytes_object;
  UnicodeOffsets unicode_object;
  GcOffsets gc;
};
static_assert(sizeof(DebugOffsets313) == 584);

/// Up to `gc`; what follows it is not needed.
struct DebugOffsets314 {
  DebugHeader header;
  RuntimeOffsets runtime_state;
  struct {
    uint64_t size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins,
        ceval_gil, gil_runtime_state, gil_runtime_state_enabled, gil_runtime_state_locked,
        gil_runtime_state_holder, code_object_generation, tlbc_generation;
  } interpreter_state;
  ThreadOffsets thread_state;
  struct {
    uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
  } interpreter_frame;
  struct {
    uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
        localspluskinds, co_code_adaptive, co_tlbc;
  } code_object;
  ObjectOffsets pyobject;
  TypeOffsets type_object;
  TupleOffsets tuple_object, list_object;
  std::array<uint64_t, 4> set_object;
  TupleOffsets dict_object;
  std::array<uint64_t, 2> float_object;
  TupleOffsets long_object;
  BytesOffsets bytes_object;
  UnicodeOffsets unicode_object;
  GcOffsets gc;
};
static_assert(sizeof(DebugOffsets314) == 664);

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
          .instructions = in(from.co_code_adaptive, size, 1, "code_object.co_code_adaptive")};
}

template <class Offsets>
PythonLayout::Object object_layout(const Offsets& table, BoundsCheck& in) {
  const auto& bytes = table.bytes_object;
  return {.type = in(table.pyobject.ob_type, table.pyobject.size, kWord, "pyobject.ob_type"),
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

/// What only the free-threaded build of 3.14 has.
void add_thread_local_bytecode(const DebugOffsets314& table, BoundsCheck& in,
                               PythonLayout& layout) {
  layout.frame.tlbc_index = in(table.interpreter_frame.tlbc_index, table.interpreter_frame.size,
                               kIntBytes, "interpreter_frame.tlbc_index");
  layout.code.tlbc =
      in(table.code_object.co_tlbc, table.code_object.size, kWord, "code_object.co_tlbc");
  layout.unicode.kind_bit = 8;  // `interned` is a byte of its own (gh-133968)
}

template <class Offsets>
Expected<PythonLayout> read_layout(const Memory& memory, uint64_t address) {
  DLP_TRY(const Offsets table, memory.value<Offsets>(address));
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
  if constexpr (std::is_same_v<Offsets, DebugOffsets314>) {
    if (table.header.free_threaded != 0) add_thread_local_bytecode(table, in, layout);
  }
  if (const auto& wrong = in.wrong()) {
    return failure(ErrorCode::kMalformed, "read _Py_DebugOffsets: " + *wrong);
  }
  return layout;
}

bool has_cookie(const DebugHeader& header) {
  return std::string_view(header.cookie.data(), header.cookie.size()) == kPythonDebugCookie;
}

}  // namespace

PythonVersion python_version_from_hex(uint64_t hex) {
  const auto byte = [hex](unsigned shift) { return static_cast<int>((hex >> shift) & 0xff); };
  return {.major = byte(24), .minor = byte(16), .micro = byte(8)};
}

std::string to_string(const PythonVersion& version) {
  if (version.micro < 0) return fmt::format("{}.{}", version.major, version.minor);
  return fmt::format("{}.{}.{}", version.major, version.minor, version.micro);
}

Expected<PythonLayout> python_layout(const PythonVersion& version) {
  const int index = version.minor - kFirstMinor;
  if (version.major != 3 || index < 0 || std::cmp_greater_equal(index, kLayouts.size())) {
    return failure(ErrorCode::kUnsupported, "read the frames of Python " + to_string(version));
  }
  return kLayouts.at(static_cast<size_t>(index));
}

Expected<PythonDebugOffsets> read_python_debug_offsets(const Memory& memory, uint64_t runtime) {
  DLP_TRY(const DebugHeader header, memory.value<DebugHeader>(runtime));
  if (!has_cookie(header)) {
    return failure(ErrorCode::kNotFound, "read _Py_DebugOffsets: no cookie");
  }
  PythonDebugOffsets offsets{.version = python_version_from_hex(header.version),
                             .free_threaded = header.free_threaded != 0};
  if (offsets.version.major != 3 || offsets.version.minor < 13 || offsets.version.minor > 14) {
    return failure(ErrorCode::kUnsupported,
                   "read the frames of Python " + to_string(offsets.version));
  }
  auto layout = offsets.version.minor == 13 ? read_layout<DebugOffsets313>(memory, runtime)
                                            : read_layout<DebugOffsets314>(memory, runtime);
  if (!layout) return std::unexpected(std::move(layout).error());
  offsets.layout = *layout;
  return offsets;
}

}  // namespace dlprobe
