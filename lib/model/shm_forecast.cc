#include "lib/model/shm_forecast.h"

#include <algorithm>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// at::RefcountedMapAllocator (ATen/MapAllocator.cpp): map_alloc_alignment.
constexpr uint64_t kFileSystemHeaderBytes = 64;
constexpr uint64_t kLabelBytes = 8;

}  // namespace

ShmForecast forecast_shm(const LoaderPlan& plan, uint64_t page_size) {
  const uint64_t header =
      plan.sharing_strategy == SharingStrategy::kFileSystem ? kFileSystemHeaderBytes : 0;
  const auto batch_size = static_cast<uint64_t>(plan.batch_size);
  ShmForecast forecast;
  forecast.batch_bytes = round_up_to_pages(batch_size * sample_bytes(plan) + header, page_size) +
                         round_up_to_pages(batch_size * kLabelBytes + header, page_size);
  forecast.batches =
      static_cast<uint64_t>(plan.workers) * static_cast<uint64_t>(plan.prefetch_factor);
  OwnWords in_flight = counted(static_cast<uint64_t>(std::max(plan.workers, 0)), "worker") + " x " +
                       own(plan.prefetch_factor) + " prefetched";
  if (plan.workers > 0) {
    forecast.batches += 1;
    in_flight += plan.pin_memory ? " + 1 in the pin-memory thread" : " + 1 in the training loop";
  }
  uint64_t most_batches = plan.workers > 0 ? forecast.batches + 1 : 0;
  const auto data_batches = static_cast<uint64_t>(std::max(plan.batches, 0));
  if (data_batches > 0) most_batches = std::min(most_batches, data_batches);
  if (data_batches > 0 && data_batches < forecast.batches) {
    forecast.batches = data_batches;
    in_flight = all_of(data_batches, "batch") + " of an epoch";
  }
  forecast.bytes = forecast.batch_bytes * forecast.batches;
  forecast.most_bytes = forecast.batch_bytes * most_batches;
  forecast.formula = "(" + in_flight + ") x " + format_bytes(forecast.batch_bytes) + " per batch";
  return forecast;
}

}  // namespace dlprobe
