#pragma once

#include "lib/model/recording.h"

namespace dlprobe {

/// Whether the process failed and its parent took that and went on: a child of the program's own,
/// no worker of multiprocessing or a loader, of a parent that ended well, or failed later for
/// something else.
bool is_handled_child(const Run& run, const ProcessKey& key);

/// Whether it may yet turn out to be one: its parent has not ended.
bool may_be_handled_child(const Run& run, const ProcessKey& key);

}  // namespace dlprobe
