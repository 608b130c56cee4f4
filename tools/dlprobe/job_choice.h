#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/error.h"

namespace dlprobe {

/// The pid to look at: that which a person typed. Where a person gave none, that of the only job on
/// this machine; with a name, of the only one that has it. Which one is taken is said on stderr. Of
/// several a person at a terminal is asked; nobody else can be, and then the list is on stderr and
/// this is kInvalid. kVanished: there is none. kForbidden: there are some, and this user may look
/// into none.
Expected<int32_t> choose_process(const std::optional<std::string>& typed);

}  // namespace dlprobe
