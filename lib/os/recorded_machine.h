#pragma once

#include <string>

#include "lib/base/error.h"

namespace dlprobe {

/// The answer of a machine that is read from files, not run on: `what` needs a live kernel.
inline std::unexpected<Error> needs_live_kernel(const char* what) {
  return failure(ErrorCode::kUnsupported, std::string(what) + ": a recorded machine");
}

}  // namespace dlprobe
