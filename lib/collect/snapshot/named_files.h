#pragma once

#include <set>
#include <string>

#include "lib/model/process.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Between two tries for a lock, as SQLite's busy handler and LOCK_NB in a loop are, a thread is in
/// a sleep; up to Python 3.10 that is a select(2) without files.
bool may_be_in_sleep(const ThreadWait& wait);

/// To the wait of a thread that sleeps adds the file for whose lock, or whose end, it may wait: of
/// those that `names` has one that is locked, or the only one that is nearly empty. It has no
/// descriptor. `process` is the /proc directory of its process.
void add_named_file(const Machine& machine, const Directory& process,
                    const std::set<std::string>& names, ThreadWait& wait);

}  // namespace dlprobe
