#include "lib/model/fd_forecast.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

// As counted on PyTorch 1.13 and 2.13 (fork, 6 workers, prefetch_factor 4, batches of 2 tensors):
// 69 in the trainer with 19 batches there, 31 + 2 per batch; 21 to 25 in a worker of two.
TEST(FdForecast, IsWhatWasCounted) {
  const FdForecast six = forecast_descriptors({.workers = 6, .prefetch_factor = 4}, 2);
  EXPECT_EQ(six.in_trainer, 8U + 4 * 6 + 2 * (6 * 4 + 2));
  const FdForecast two = forecast_descriptors({.workers = 2, .prefetch_factor = 4}, 2);
  EXPECT_EQ(two.in_worker, 8U + 4 * 2 + 2 + 4 * 2);
  EXPECT_EQ(two.most, two.in_trainer);
  EXPECT_EQ(two.formula, "8 of the process + 4 x 2 workers + 10 batches x 2 tensors");
}

TEST(FdForecast, TensorsTakeNoneUnderFileSystem) {
  const LoaderPlan plan = {
      .workers = 8, .prefetch_factor = 16, .sharing_strategy = SharingStrategy::kFileSystem};
  EXPECT_EQ(forecast_descriptors(plan, 2).most, forecast_descriptors(plan, 20).most);
  EXPECT_LT(forecast_descriptors(plan, 2).most, 60U);
}

TEST(FdForecast, AShortEpochHasNoMoreBatchesThanItHas) {
  EXPECT_EQ(forecast_descriptors({.workers = 2, .prefetch_factor = 8, .batches = 3}, 2).in_trainer,
            8U + 8 + 6);
}

TEST(FdForecast, WithoutWorkersThereIsNoLoader) {
  EXPECT_EQ(forecast_descriptors({.workers = 0}, 2).most, 8U);
}

}  // namespace
}  // namespace dlprobe
