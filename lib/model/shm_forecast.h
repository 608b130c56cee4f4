#pragma once

#include <cstdint>

#include "lib/model/finding.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// The most shared memory that a loader with this plan holds at once.
///
/// A batch is its sample tensor (float32 after the transform, or the plan's dtype) and an int64
/// label per sample, each a segment of its own: rounded up to pages, under file_system with the
/// 64-byte header of at::RefcountedMapAllocator before the rounding. Alive at once: prefetch_factor
/// batches per worker, and one that the training loop holds; it asks for a new one only when it
/// takes one, so the new task is already running while the taken batch is in use. With pin_memory
/// the training loop holds a pinned copy, and the pin-memory thread holds the batch it is copying:
/// the same count. Never more than the data has batches. (PyTorch 1.13 to 2.13,
/// _MultiProcessingDataLoaderIter. There the loop's variable keeps the old batch for a moment after
/// the next one was taken, so that for a moment up to one batch more may be there.)
ShmForecast forecast_shm(const LoaderPlan& plan, uint64_t page_size);

}  // namespace dlprobe
