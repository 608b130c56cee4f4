#pragma once

#include <cstdint>
#include <optional>

#include "lib/base/error.h"
#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// How a class keeps the attributes of its instances.
enum class PythonAttributes {
  kDict,           ///< up to 3.10: a dict at tp_dictoffset
  kTwoPointers,    ///< 3.11: before the object, a pointer to values and one to a dict
  kTaggedPointer,  ///< 3.12: before the object, one of both
  kInline,         ///< 3.13 on: the values behind the object, a pointer to a dict before it
};

/// Where the fields of Python's values lie: what the local variables of frames, the globals of
/// modules and the attributes of instances lead to. What is not here is the same from 3.8 to 3.13
/// (values.cc). The structures are those of Include/cpython/{object,funcobject,code}.h,
/// Include/internal/{pycore_dict,pycore_frame}.h.
struct PythonValueLayout {
  PythonAttributes attributes = PythonAttributes::kDict;
  uint32_t cached_keys = 0;    ///< ht_cached_keys of a class
  uint32_t function_code = 0;  ///< of a function
  uint32_t code_names = 0;     ///< co_names
  uint32_t locals_names = 0;   ///< co_localsplusnames, up to 3.10 co_varnames
  uint32_t frame_globals = 0;
  uint32_t frame_locals = 0;
  bool old_keys = false;  ///< up to 3.10: dk_size, and entries of three words only
  uint32_t values = 0;    ///< in PyDictValues
};

/// Of a release build with the GIL, as measured on 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and
/// 3.13.0. kUnsupported for other versions.
Expected<PythonValueLayout> python_value_layout(const PythonVersion& version);

}  // namespace dlprobe
