#include "tools/dlprobe/options/watch_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "probes/probe.h"

namespace dlprobe {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::string refusal_of(const WatchOptions& options) {
  ExamineRequest request;
  const Status status = put_watch_options(options, *find_probe("shm"), request);
  return status ? "accepted" : to_string(status.error());
}

TEST(WatchOptions, TheDefaults) {
  ExamineRequest request;
  ASSERT_TRUE(put_watch_options({}, *find_probe("shm"), request));
  EXPECT_FALSE(request.watch_for.has_value());
  EXPECT_EQ(request.interval, milliseconds(100));
  EXPECT_EQ(request.snapshot.max_pause, milliseconds(5));
  EXPECT_EQ(default_watch_of_pid(probes::attach::kProbe), std::chrono::seconds(3));
  EXPECT_EQ(default_watch_of_pid(*find_probe("deadlock")), std::chrono::seconds(3));
  EXPECT_EQ(default_watch_of_pid(*find_probe("shm")), std::chrono::seconds(15));
}

TEST(WatchOptions, AreTakenOver) {
  ExamineRequest request;
  ASSERT_TRUE(put_watch_options({.watch_for = "30s",
                                 .sampling = {.interval = "1s", .record_path = "hang.dlrec"},
                                 .pause = {.max_pause = "2ms"}},
                                *find_probe("shm"), request));
  EXPECT_EQ(request.watch_for, std::chrono::seconds(30));
  EXPECT_EQ(request.interval, std::chrono::seconds(1));
  EXPECT_EQ(request.record_path, "hang.dlrec");
  EXPECT_EQ(request.snapshot.max_pause, milliseconds(2));
}

TEST(WatchOptions, NoPauseIsNone) {
  const auto options = snapshot_options({.no_pause = true});
  ASSERT_TRUE(options.has_value());
  EXPECT_EQ(options->max_pause.count(), 0);
}

TEST(WatchOptions, RefusesWhatMakesNoSense) {
  EXPECT_THAT(refusal_of({.watch_for = "3"}), HasSubstr("'3' is not a duration"));
  EXPECT_THAT(refusal_of({.sampling = {.interval = "1ms"}}), HasSubstr("--interval 1ms"));
  EXPECT_THAT(refusal_of({.sampling = {.interval = "11s"}}), HasSubstr("--interval 11s"));
  EXPECT_THAT(refusal_of({.pause = {.max_pause = "2s"}}), HasSubstr("--max-pause 2s is more than"));
  EXPECT_THAT(refusal_of({.pause = {.max_pause = "-1ms"}}), HasSubstr("is not a duration"));
}

}  // namespace
}  // namespace dlprobe
