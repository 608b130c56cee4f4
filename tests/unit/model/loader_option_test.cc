#include "lib/model/loader_option.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

// What the other program makes of a command line.
Expected<LoaderPlan> plan_of(const std::vector<std::string>& arguments) {
  LoaderPlan plan;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const LoaderOption& option = loader_option(arguments[i]);
    if (option.flag != nullptr) {
      plan.*option.flag = true;
    } else {
      DLP_CHECK(read_loader_option(option, arguments.at(++i), plan));
    }
  }
  DLP_CHECK(check_batch_size(plan));
  return plan;
}

TEST(LoaderOption, EveryPlanComesBackFromItsArguments) {
  const LoaderPlan all = {.workers = 0,
                          .batch_size = kLargestBatch,
                          .sample_shape = {1, kLargestExtent, 1},
                          .dtype = "uint8",
                          .prefetch_factor = kMostPrefetched,
                          .start_method = StartMethod::kForkserver,
                          .sharing_strategy = SharingStrategy::kFileSystem,
                          .pin_memory = true,
                          .persistent_workers = true,
                          .epochs = kMostEpochs,
                          .batches = kMostBatches,
                          .device = "cuda:1",
                          .data_dir = "/data/x",
                          .data_sample = 64,
                          .fault = "shm-leak"};
  EXPECT_EQ(plan_of(loader_arguments(all)), all);
  EXPECT_EQ(plan_of(loader_arguments({})), LoaderPlan());
}

TEST(LoaderOption, RefusesWhatIsNoValueInOneLine) {
  for (const auto& [name, text] : {std::pair("--workers", "two"),
                                   {"--workers", "-1"},
                                   {"--batch-size", "0"},
                                   {"--sample-shape", "3x224"},
                                   {"--sample-shape", "3x2097152x1"},
                                   {"--dtype", "int3"},
                                   {"--start-method", "thread"},
                                   {"--sharing-strategy", "mmap"},
                                   {"--device", "cuda:x"}}) {
    LoaderPlan plan;
    const auto refused = read_loader_option(loader_option(name), text, plan);
    ASSERT_FALSE(refused) << name << " " << text;
    EXPECT_TRUE(refused.error().context.starts_with(name)) << refused.error().context;
    EXPECT_EQ(refused.error().context.find('\n'), std::string::npos);
    EXPECT_EQ(plan, LoaderPlan());
  }
}

TEST(LoaderOption, RefusesABatchThatNoMachineHolds) {
  EXPECT_TRUE(check_batch_size({.batch_size = 1 << 10, .sample_shape = {1, 1 << 14, 1 << 14}}));
  EXPECT_FALSE(check_batch_size({.batch_size = 1 << 12, .sample_shape = {1, 1 << 14, 1 << 14}}));
}

}  // namespace
}  // namespace dlprobe
