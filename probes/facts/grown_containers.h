#pragma once

#include <optional>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// Something of a process that became more, and from when until when.
struct Risen {
  ProcessKey process;
  BootNs from = 0;
  BootNs to = 0;
  double bytes_per_second = 0;  ///< of memory; 0: what became more is none
  double count_per_second = 0;  ///< of what is kept one by one: threads, descriptors
};

/// Names in `finding` the list, dict, set or deque of the program that grew with it at nearly each
/// look: ": its list Trainer.history grew from 12 to 460 items meanwhile, at train.py:41 in
/// Trainer.step". One whose items cannot be what became more is passed over. Null: there is none.
const GrownContainer* name_grown_container(Finding& finding, const Run& run, const Risen& risen);

/// Where the program stood while what rose did and no container of its own grew: native code may
/// keep it. Nothing: one grew, or there were too few looks.
std::optional<StackFrame> where_none_grew(const Run& run, const Risen& risen);

/// Whether it may have so many items only: a deque with a maxlen, an lru_cache with a maxsize.
bool is_bounded(const GrownContainer& container);

/// Says first what to do about an itertools.cycle, which keeps all that it gave.
void replace_cycle(Finding& finding, const GrownContainer* grown);

/// Names the function of the program in which most of the process's threads stand, where half of
/// them do: "; 240 of them at log.py:31 in Uploader.run".
void name_crowd_of_threads(Finding& finding, const Run& run, const Risen& risen);

}  // namespace dlprobe
