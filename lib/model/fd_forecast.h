#pragma once

#include <cstdint>

#include "lib/base/own_words.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// How many descriptors a loader has open at the most.
///
/// Counted on PyTorch 1.13 and 2.13 with CPython 3.11, fork, spawn and forkserver: Python has 5 of
/// its own, the result queue takes 3 pipe ends, each worker 4 (its index queue and the two pipes of
/// multiprocessing.Process), and under file_descriptor each tensor takes one: in the worker until
/// it is fetched, in the trainer while it lives. Batches that come out of order wait in the
/// trainer, so all that are in flight may be there at once.
struct FdForecast {
  uint64_t in_trainer = 0;
  uint64_t in_worker = 0;  ///< in the one that was forked last
  uint64_t most = 0;       ///< the larger of the two
  OwnWords formula;  ///< of the trainer: "8 + 4 x 2 workers + (2 x 2 + 1 batches) x 2 tensors"
};

/// Of the plan under its sharing strategy, for batches of that many tensors.
FdForecast forecast_descriptors(const LoaderPlan& plan, uint64_t tensors_per_batch);

/// Of a batch of samples and labels.
inline constexpr uint64_t kTensorsPerBatch = 2;

}  // namespace dlprobe
