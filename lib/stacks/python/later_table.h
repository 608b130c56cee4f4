#pragma once

#include <cstdint>

#include "lib/base/error.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/python/debug_tables.h"

namespace dlprobe {

/// The _Py_DebugOffsets of a CPython that is newer than the newest known table, as that table.
///
/// New versions put new words into its groups and new groups between them, and have kept the order
/// of those that there are (3.13 to 3.15). So each group is looked for behind the one before it, by
/// what must hold between its words: the name of a code object follows its file, a str begins with
/// the head of all objects. Where a thread has its ids its memory tells. Words that nobody needs
/// are zero. kUnsupported: some group is not there.
Expected<DebugOffsets315> find_later_table(const Memory& memory, uint64_t runtime);

}  // namespace dlprobe
