#pragma once

#include <optional>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// A pool whose workers end in vain: its initializer fails in each, or a task ends each, by a crash
/// or by leaving. New ones are started without end: by multiprocessing.Pool, or by a program that
/// takes a new executor when one is broken. Points into the recording.
struct VainStarts {
  const StartEvent* first = nullptr;  ///< the first such word; null: crashes leave none
  BootNs since = 0;                   ///< when the first ended so
  ProcessKey trainer;                 ///< whose pool it is
  std::vector<ProcessKey> workers;    ///< who ended so, as far as they were seen to end
};

/// Nothing: no worker ends so again and again, or one of that pool is past it.
std::optional<VainStarts> vain_starts(const Run& run);

/// Workers that one trainer started, each of which ended with an error after a moment, and none of
/// which went on or ended well since the first of them; whether a witness knows why or not.
struct FailingWorkers {
  size_t count = 0;
  BootNs first = 0;  ///< when the first ended
  BootNs last = 0;
};
std::optional<FailingWorkers> failing_workers(const Run& run, const ProcessKey& trainer);

/// Since when all that a trainer starts end so, until now; by either of these.
std::optional<BootNs> in_vain_since(const Run& run);

/// An error of a finding about such workers, where the program did not end well.
void make_error_of_vain_starts(const Run& run, const VainStarts& vain, Finding& finding);

}  // namespace dlprobe
