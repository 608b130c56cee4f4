#pragma once

#include "lib/base/error.h"

namespace dlprobe {

/// Why there is nothing to report on.
struct Refusal {
  enum class Kind {
    kImpossible,     ///< what was asked for makes no sense or cannot be carried out as written
    kIncomplete,     ///< something that had to be looked at could not be
    kNotFound,       ///< there is no such command
    kNotExecutable,  ///< the command cannot be executed
  };
  Error error;
  Kind kind = Kind::kImpossible;
};

}  // namespace dlprobe
