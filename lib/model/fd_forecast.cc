#include "lib/model/fd_forecast.h"

#include <algorithm>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr uint64_t kOfProcess = 8;    // Python's own and the result queue
constexpr uint64_t kPerWorker = 4;    // the ends of its pipes in the trainer
constexpr uint64_t kOfWorker = 2;     // its listener for descriptors, and /dev/null as stdin
constexpr uint64_t kMoreBatches = 2;  // in the training loop, and the next one taken before it goes

}  // namespace

FdForecast forecast_descriptors(const LoaderPlan& plan, uint64_t tensors_per_batch) {
  FdForecast forecast;
  const auto workers = static_cast<uint64_t>(std::max(plan.workers, 0));
  const auto prefetch = static_cast<uint64_t>(std::max(plan.prefetch_factor, 0));
  if (workers == 0) {
    forecast.in_trainer = forecast.most = kOfProcess;
    forecast.formula = own(kOfProcess) + " of the process itself, no workers";
    return forecast;
  }
  forecast.in_trainer = kOfProcess + kPerWorker * workers;
  forecast.in_worker = forecast.in_trainer + kOfWorker;
  forecast.formula =
      own(kOfProcess) + " of the process + " + own(kPerWorker) + " x " + counted(workers, "worker");
  if (plan.sharing_strategy == SharingStrategy::kFileDescriptor) {
    uint64_t batches = workers * prefetch + kMoreBatches;
    if (plan.batches > 0) batches = std::min(batches, static_cast<uint64_t>(plan.batches));
    forecast.in_trainer += batches * tensors_per_batch;
    forecast.in_worker += prefetch * tensors_per_batch;
    forecast.formula +=
        " + " + counted(batches, "batch") + " x " + counted(tensors_per_batch, "tensor");
  } else {
    forecast.in_trainer += workers;  // a socket to each worker's torch_shm_manager
    forecast.formula += " + 1 x " + counted(workers, "worker") + " for its manager";
  }
  forecast.most = std::max(forecast.in_trainer, forecast.in_worker);
  return forecast;
}

}  // namespace dlprobe
