#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "lib/stacks/python/layout.h"

namespace dlprobe {

/// The line of the instruction at byte `position` of the bytecode; nothing where the table gives it
/// none. Before the first instruction it is `first_line`. The formats are in
/// CPython's Objects/lnotab_notes.txt (3.8 to 3.10) and Objects/locations.md (3.11 on;
/// InternalDocs/code_objects.md from 3.13 on).
std::optional<int> python_line_at(PythonLineTable format, std::span<const std::byte> table,
                                  int first_line, int64_t position);

}  // namespace dlprobe
