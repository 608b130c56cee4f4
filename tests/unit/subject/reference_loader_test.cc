#include "lib/subject/reference_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

TEST(ReferenceLoader, NamesThePackageWhenItIsNotInstalled) {
  const auto found = find_reference_loader("", "/nowhere/bin/dlprobe");
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().context, HasSubstr("package dlprobe-reference-loader"));
  EXPECT_THAT(found.error().context, HasSubstr("--pid"));
}

TEST(ReferenceLoader, AnOverrideThatIsNoProgramIsAnErrorNotAFallback) {
  const auto found = find_reference_loader("/nowhere/loader", "/bin/sh");
  ASSERT_FALSE(found.has_value());
  EXPECT_THAT(found.error().context, HasSubstr("/nowhere/loader"));
}

TEST(ReferenceLoader, ThePlanBecomesItsCommandLine) {
  LoaderPlan plan;
  plan.workers = 3;
  plan.sample_shape = {3, 32, 64};
  plan.start_method = StartMethod::kSpawn;
  plan.sharing_strategy = SharingStrategy::kFileSystem;
  plan.pin_memory = true;
  const auto argv = reference_loader_argv("loader", plan);
  EXPECT_THAT(argv, IsSupersetOf({"--workers", "3", "--sample-shape", "3x32x64", "--start-method",
                                  "spawn", "--sharing-strategy", "file_system", "--pin-memory",
                                  "--progress-fd", "3"}));
  EXPECT_THAT(argv, Not(Contains("--data")));
  EXPECT_THAT(argv, Not(Contains("--fault")));
}

}  // namespace
}  // namespace dlprobe
