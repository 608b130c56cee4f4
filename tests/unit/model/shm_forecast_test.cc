#include "lib/model/shm_forecast.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

constexpr uint64_t kPage = 4096;

// One page of images per batch exactly, and a label segment of one page.
LoaderPlan plan_of_one_page() {
  LoaderPlan plan;
  plan.workers = 2;
  plan.batch_size = 4;
  plan.sample_shape = {1024};
  plan.dtype = "uint8";
  plan.prefetch_factor = 3;
  return plan;
}

TEST(ShmForecast, CountsPrefetchedBatchesAndTheOneInTheTrainingLoop) {
  const ShmForecast forecast = forecast_shm(plan_of_one_page(), kPage);
  EXPECT_EQ(forecast.batch_bytes, 2 * kPage);
  EXPECT_EQ(forecast.batches, 2U * 3 + 1);
  EXPECT_EQ(forecast.bytes, forecast.batch_bytes * forecast.batches);
  EXPECT_EQ(forecast.most_bytes, forecast.bytes + forecast.batch_bytes);
  EXPECT_EQ(forecast.formula,
            "(2 workers x 3 prefetched + 1 in the training loop) x 8.0 KiB per batch");
}

TEST(ShmForecast, TheFileSystemHeaderMayCostAPage) {
  LoaderPlan plan = plan_of_one_page();
  plan.sharing_strategy = SharingStrategy::kFileSystem;
  EXPECT_EQ(forecast_shm(plan, kPage).batch_bytes, 3 * kPage);
}

TEST(ShmForecast, PinnedBatchesAreTheSameCount) {
  LoaderPlan plan = plan_of_one_page();
  plan.pin_memory = true;
  const ShmForecast forecast = forecast_shm(plan, kPage);
  EXPECT_EQ(forecast.batches, 7U);
  EXPECT_NE(forecast.formula.find("pin-memory thread"), std::string::npos);
}

TEST(ShmForecast, NeverMoreThanTheDataHasBatches) {
  LoaderPlan plan = plan_of_one_page();
  plan.batches = 3;
  EXPECT_EQ(forecast_shm(plan, kPage).batches, 3U);
  EXPECT_EQ(forecast_shm(plan, kPage).most_bytes, forecast_shm(plan, kPage).bytes);
}

TEST(ShmForecast, NoWorkersNoSharedMemory) {
  LoaderPlan plan = plan_of_one_page();
  plan.workers = 0;
  EXPECT_EQ(forecast_shm(plan, kPage).bytes, 0U);
  EXPECT_EQ(forecast_shm(plan, kPage).most_bytes, 0U);
}

}  // namespace
}  // namespace dlprobe
