#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/error.h"

namespace dlprobe {

/// A CPython version (Include/patchlevel.h).
struct PythonVersion {
  int major = 0;
  int minor = 0;
  int micro = -1;  ///< -1: not known

  auto operator<=>(const PythonVersion&) const = default;
};

/// Of PY_VERSION_HEX, as in Py_Version: 0x030b07f0 is 3.11.7.
PythonVersion python_version_from_hex(uint64_t hex);

/// "3.11.7"; "3.11" where the micro version is not known.
std::string to_string(const PythonVersion& version);

/// How a frame says at which instruction it is.
enum class PythonPosition {
  kByte,         ///< 3.8, 3.9: int f_lasti, in bytes
  kInstruction,  ///< 3.10: int f_lasti, in units of two bytes
  kPointer,      ///< 3.11 on: a pointer into the code (prev_instr, from 3.13 on instr_ptr)
};

/// How the line table of a code object is written; see line_table.h.
enum class PythonLineTable {
  kDeltas,     ///< 3.8, 3.9: co_lnotab
  kRanges,     ///< 3.10: co_linetable
  kLocations,  ///< 3.11 on: co_linetable with columns
};

/// Which frames begin a native call of the interpreter (_PyEval_EvalFrameDefault).
enum class PythonEntry {
  kEveryFrame,  ///< up to 3.10
  kFlag,        ///< 3.11: _PyInterpreterFrame.is_entry
  kShim,        ///< 3.12 on: a frame whose next older one is a shim, without code of its own
};

/// Where the fields lie that a walk over the threads and frames of a CPython of one version needs:
/// offsets in bytes on a 64-bit machine, by the structures that hold them. A field that is not in
/// every version is optional. The structures are those of Include/internal/pycore_runtime.h,
/// pycore_interp.h, pycore_gil.h, pycore_frame.h and
/// Include/cpython/{pystate,code,unicodeobject}.h.
struct PythonLayout {
  struct Runtime {
    uint32_t interpreters_head = 0;
    std::optional<uint32_t> gil;            ///< up to 3.11: the GIL lies here
    std::optional<uint32_t> gc_collecting;  ///< 3.8
    bool operator==(const Runtime&) const = default;
  };
  struct Interpreter {
    uint32_t next = 0;
    uint32_t threads_head = 0;
    uint32_t modules = 0;                   ///< a dict
    std::optional<uint32_t> gil;            ///< 3.12 on: a pointer to the GIL
    std::optional<uint32_t> gc_collecting;  ///< 3.9 on
    bool operator==(const Interpreter&) const = default;
  };
  struct Gil {
    uint32_t last_holder = 8;
    uint32_t locked = 16;             ///< int; -1: not made yet
    uint32_t cond = 32;               ///< pthread_cond_t: who waits for the GIL waits here
    std::optional<uint32_t> enabled;  ///< free-threaded: int; 0: nobody takes it
    bool operator==(const Gil&) const = default;
  };
  struct Thread {
    uint32_t next = 8;
    uint32_t interpreter = 16;
    uint32_t frame = 0;                       ///< the innermost frame
    std::optional<uint32_t> frame_in_cframe;  ///< 3.11, 3.12: `frame` is a _PyCFrame, this is in it
    uint32_t thread_id = 0;                   ///< pthread_self()
    std::optional<uint32_t> native_thread_id;  ///< 3.11 on
    bool operator==(const Thread&) const = default;
  };
  struct Frame {
    uint32_t previous = 0;
    uint32_t code = 0;
    uint32_t position = 0;
    std::optional<uint32_t> value_stack;  ///< up to 3.10: a pointer to it
    uint32_t locals = 72;    ///< they lie here, from 3.11 on the value stack behind them
    uint32_t stack_top = 0;  ///< 3.11 to 3.13 (else 0): int, words from the locals on; negative
                             ///< while the frame runs, or is in a native function
    std::optional<uint32_t> is_entry;  ///< 3.11
    std::optional<uint32_t> owner;     ///< 3.12 on
    std::optional<uint32_t>
        tlbc_index;  ///< 3.14 on, free-threaded: which copy of the bytecode it runs
    bool operator==(const Frame&) const = default;
  };
  struct Code {
    uint32_t first_line = 0;
    uint32_t file = 112;
    uint32_t name = 120;
    std::optional<uint32_t> qualified_name;  ///< 3.11 on
    uint32_t line_table = 136;
    uint32_t stack_size = 0;               ///< int: how many values a frame's stack has at most
    std::optional<uint32_t> locals_count;  ///< int, 3.11 on: how many locals lie before it
    std::optional<uint32_t> instructions;  ///< 3.11 on: they begin here
    std::optional<uint32_t> tlbc;          ///< 3.14 on, free-threaded: the threads' copies of them
    bool operator==(const Code&) const = default;
  };
  /// Of a coroutine, a generator, an asynchronous generator (Include/cpython/genobject.h).
  struct Coroutine {
    uint32_t frame = 72;  ///< up to 3.10: a pointer to it
    bool operator==(const Coroutine&) const = default;
  };
  struct Object {
    uint32_t head_bytes = 16;  ///< PyObject; the object's own fields follow
    uint32_t type = 8;
    uint32_t type_name = 24;  ///< in the type
    uint32_t bytes_size = 16;
    uint32_t bytes_data = 32;
    bool operator==(const Object&) const = default;
  };
  struct Unicode {
    uint32_t length = 16;
    uint32_t state = 32;
    uint32_t kind_bit = 2;  ///< of the state: 3 bits of kind, 1 of compact, 1 of ascii
    uint32_t ascii_size = 40;
    uint32_t compact_size = 56;
    bool operator==(const Unicode&) const = default;
  };

  PythonPosition position = PythonPosition::kPointer;
  PythonLineTable line_table = PythonLineTable::kLocations;
  PythonEntry entry = PythonEntry::kShim;
  Runtime runtime;
  Interpreter interpreter;
  Gil gil;
  Thread thread;
  Frame frame;
  Code code;
  Coroutine coroutine;
  Object object;
  Unicode unicode;

  bool operator==(const PythonLayout&) const = default;
};

/// The layout of a release build with the GIL, x86_64 or aarch64, as measured on 3.8.18, 3.9.18,
/// 3.10.13, 3.11.7, 3.12.1, 3.13.0 and 3.14.0. kUnsupported before 3.8 and after 3.14.
Expected<PythonLayout> python_layout(const PythonVersion& version);

}  // namespace dlprobe
