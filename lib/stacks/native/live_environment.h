#pragma once

#include <string>
#include <string_view>

#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/symbol_source.h"

namespace dlprobe {

/// Those variables of a process that `is_wanted` picks, as its C library has them now (environ(7)),
/// NAME=VALUE each ended by a zero byte. /proc/PID/environ shows what execve(2) was given;
/// setenv(3) and os.environ of Python change this one. Empty where it cannot be found; of a value
/// that is longer than any that is asked for, the begin.
std::string read_live_environment(const Memory& memory, const AddressSpace& space,
                                  SymbolSource& symbols, bool (*is_wanted)(std::string_view entry));

}  // namespace dlprobe
