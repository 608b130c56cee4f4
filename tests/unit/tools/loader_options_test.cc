#include "tools/dlprobe/options/loader_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/model/loader_option.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

TEST(LoaderOptions, AllMeansEveryCombination) {
  const auto plans = loader_plans({});
  ASSERT_TRUE(plans.has_value());
  ASSERT_EQ(plans->size(), 6U);
  EXPECT_EQ(plans->front().start_method, StartMethod::kFork);
  EXPECT_EQ(plans->front().sharing_strategy, SharingStrategy::kFileDescriptor);
  EXPECT_EQ(plans->back().start_method, StartMethod::kForkserver);
  EXPECT_EQ(plans->back().sharing_strategy, SharingStrategy::kFileSystem);
}

TEST(LoaderOptions, OneOfEachIsOnePlan) {
  LoaderOptions options;
  options.start_method = "spawn";
  options.sharing_strategy = "file_system";
  const auto plans = loader_plans(options);
  ASSERT_TRUE(plans.has_value());
  ASSERT_EQ(plans->size(), 1U);
  EXPECT_EQ(plans->front().start_method, StartMethod::kSpawn);
}

TEST(LoaderOptions, RefusesShapesThatAreNone) {
  for (const char* shape : {"3x", "", "x", "3x224", "3x224x224x1", "3x-1x2", "3x0x2", "ax1x1",
                            "3x224x99999999999999999999"}) {
    LoaderOptions options;
    options.sample_shape = shape;
    const auto plans = loader_plans(options);
    ASSERT_FALSE(plans.has_value()) << shape;
    EXPECT_EQ(plans.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(plans.error().context, HasSubstr("--sample-shape"));
  }
}

TEST(LoaderOptions, HaveTheLimitsOfTheReferenceLoader) {
  for (const LoaderOption& option : loader_options()) {
    if (option.number == nullptr || option.name == "--data-sample") continue;
    for (const auto& [value, is_good] : {std::pair(option.least - 1, false),
                                         {option.least, true},
                                         {option.most, true},
                                         {option.most + 1, false}}) {
      CLI::App app;
      LoaderOptions options;
      add_loader_options(app, options);
      const std::string text = std::string(option.name) + "=" + std::to_string(value);
      LoaderPlan plan;
      EXPECT_EQ(bool(read_loader_option(option, std::to_string(value), plan)), is_good) << text;
      if (is_good) {
        EXPECT_NO_THROW(app.parse(text)) << text;
        EXPECT_EQ(options.plan.*option.number, value);
      } else {
        EXPECT_THROW(app.parse(text), CLI::ParseError) << text;
      }
    }
  }
}

TEST(LoaderOptions, RefusesABatchThatNoMachineHolds) {
  LoaderOptions options;
  options.plan.batch_size = 1 << 20;
  options.sample_shape = "3x4096x4096";
  const auto plans = loader_plans(options);
  ASSERT_FALSE(plans.has_value());
  EXPECT_THAT(plans.error().context, HasSubstr("1 TiB"));
}

}  // namespace
}  // namespace dlprobe
