#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// What CPython 3.13 and later say of themselves in memory.
struct PythonDebugOffsets {
  PythonVersion version;
  bool free_threaded = false;
  PythonLayout layout;
};

/// The first bytes of _Py_DebugOffsets.
inline constexpr std::string_view kPythonDebugCookie = "xdebugpy";

/// The newest CPython whose _Py_DebugOffsets are known word by word.
inline constexpr PythonVersion kNewestKnownPython{.major = 3, .minor = 15};

/// Reads _Py_DebugOffsets (Include/internal/pycore_runtime.h in 3.13, pycore_debug_offsets.h from
/// 3.14 on), with which _PyRuntime begins. Those of later versions are searched for the groups of
/// the newest known one; see find_later_table. kNotFound: there is no cookie; kUnsupported: a
/// version that has none, or whose groups are not found; kMalformed: an offset lies outside its
/// structure.
Expected<PythonDebugOffsets> read_python_debug_offsets(const Memory& memory, uint64_t runtime);

}  // namespace dlprobe
