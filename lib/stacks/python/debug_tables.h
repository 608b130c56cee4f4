#pragma once

#include <array>
#include <cstdint>

namespace dlprobe {

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

struct InterpreterOffsets314 {
  uint64_t size, id, next, threads_head, threads_main, gc, imports_modules, sysdict, builtins,
      ceval_gil, gil_runtime_state, gil_runtime_state_enabled, gil_runtime_state_locked,
      gil_runtime_state_holder, code_object_generation, tlbc_generation;
};
struct FrameOffsets314 {
  uint64_t size, previous, executable, instr_ptr, localsplus, owner, stackpointer, tlbc_index;
};
struct CodeOffsets314 {
  uint64_t size, filename, name, qualname, linetable, firstlineno, argcount, localsplusnames,
      localspluskinds, co_code_adaptive, co_tlbc;
};

/// tuple, list, set, dict, float, int: nobody needs them.
using OtherObjects314 = std::array<uint64_t, 18>;

/// Up to `gc`; what follows it is not needed.
struct DebugOffsets314 {
  DebugHeader header;
  RuntimeOffsets runtime_state;
  InterpreterOffsets314 interpreter_state;
  ThreadOffsets thread_state;
  FrameOffsets314 interpreter_frame;
  CodeOffsets314 code_object;
  ObjectOffsets pyobject;
  TypeOffsets type_object;
  OtherObjects314 other_objects;
  BytesOffsets bytes_object;
  UnicodeOffsets unicode_object;
  GcOffsets gc;
};
static_assert(sizeof(DebugOffsets314) == 664);

/// Up to `gc.collecting`.
struct DebugOffsets315 {
  DebugHeader header;
  RuntimeOffsets runtime_state;
  InterpreterOffsets314 interpreter_state;
  struct {
    uint64_t size, prev, next, interp, current_frame, base_frame, last_profiled_frame,
        last_profiled_frame_seq, thread_id, native_thread_id, datastack_chunk, status, holds_gil,
        gil_requested, current_exception, exc_state;
  } thread_state;
  uint64_t err_stackitem_exc_value;
  FrameOffsets314 interpreter_frame;
  CodeOffsets314 code_object;
  ObjectOffsets pyobject;
  struct {
    uint64_t size, tp_name, tp_repr, tp_flags, tp_basicsize, tp_dictoffset;
  } type_object;
  std::array<uint64_t, 2> heap_type_object;
  OtherObjects314 other_objects;
  BytesOffsets bytes_object;
  struct {
    uint64_t size, state, length, asciiobject_size, compactunicodeobject_size;
  } unicode_object;
  GcOffsets gc;
};
static_assert(sizeof(DebugOffsets315) == 768);

}  // namespace dlprobe
