#include "lib/session/jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace dlprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LoaderJob job(int32_t pid, std::vector<std::string> command) {
  LoaderJob job{.root = {.pid = pid}};
  job.command = std::move(command);
  return job;
}

class JobsNamed : public testing::Test {
 protected:
  JobsNamed() {
    jobs_.push_back(job(11, {"bash", "run.sh"}));
    jobs_.back().trainer_command = {"python", "/srv/train.py", "--lr", "0.1"};
    jobs_.back().job_ids = {"4242_3", "blue-run"};
    jobs_.push_back(job(12, {"python", "-m", "pkg.Train", "--data", "/data/train.py.d"}));
  }
  std::vector<int32_t> named(std::string_view name) const {
    std::vector<int32_t> pids;
    for (const LoaderJob& each : jobs_named(jobs_, name))
      pids.push_back(each.root.pid);
    return pids;
  }

 private:
  std::vector<LoaderJob> jobs_;
};

TEST_F(JobsNamed, ByTheScriptOfTheTrainerOrTheCommandOfTheLauncher) {
  EXPECT_THAT(named("train.py"), ElementsAre(11));
  EXPECT_THAT(named("/srv/train.py"), ElementsAre(11));
  EXPECT_THAT(named("run.sh"), ElementsAre(11));
  EXPECT_THAT(named("pkg.Train"), ElementsAre(12));
}

TEST_F(JobsNamed, ByAJobId) {
  EXPECT_THAT(named("4242_3"), ElementsAre(11));
  EXPECT_THAT(named("blue-run"), ElementsAre(11));
}

TEST_F(JobsNamed, ByAPartOfTheCommandWhereNothingHasThatName) {
  EXPECT_THAT(named("TRAIN"), ElementsAre(11, 12));
  EXPECT_THAT(named("pkg"), ElementsAre(12));
}

TEST_F(JobsNamed, NothingHasAnUnknownOrEmptyName) {
  EXPECT_THAT(named("eval.py"), IsEmpty());
  EXPECT_THAT(named(""), IsEmpty());
}

}  // namespace
}  // namespace dlprobe
