#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/units.h"
#include "lib/base/utf8.h"
#include "reports/document/text_page.h"
#include "tools/dlprobe/top/frame.h"

namespace dlprobe {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::Field;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TopProcess process_of(int32_t pid, Role role, std::string state = "waits for a pipe") {
  return {.key = {.pid = pid, .start_ticks = 1},
          .role = role,
          .state = std::move(state),
          .cpu = 0.25,
          .io_rate = 90,
          .still = 0,
          .rss_bytes = 128 * kMiB,
          .pss_bytes = 32 * kMiB,
          .pss_age = kSecond,
          .shm_bytes = 2 * kMiB,
          .fds = 42};
}

TopPicture job_of(size_t workers) {
  TopPicture picture{.at = 1,
                     .root_pid = 100,
                     .command = {"python", "train.py"},
                     .age = 65 * kSecond,
                     .processes = {process_of(100, Role::kTrainer, "runs")},
                     .shm = {{.size_bytes = 64 * kMiB, .used_bytes = 16 * kMiB}}};
  for (size_t i = 0; i < workers; ++i) {
    picture.processes.push_back(process_of(101 + static_cast<int32_t>(i), Role::kWorker));
    picture.processes.back().index = i;
  }
  return picture;
}

std::vector<std::string> texts(const std::vector<FrameLine>& lines) {
  std::vector<std::string> result;
  for (const FrameLine& line : lines)
    result.push_back(line.text);
  return result;
}

size_t rows_of_workers(const std::vector<FrameLine>& lines) {
  return static_cast<size_t>(std::ranges::count_if(
      lines, [](const FrameLine& line) { return line.text.starts_with(" worker "); }));
}

TEST(TopFrame, IsNeverWiderThanTheScreen) {
  TopPicture picture = job_of(64);
  picture.command = {"python", std::string(400, 'x'), "\u6f22\u5b57\u6f22\u5b57"};
  for (const size_t columns : {1, 20, 60, 80, 119, 200}) {
    for (const FrameLine& line : top_frame(picture, {.columns = columns}))
      EXPECT_LE(columns_of(line.text), columns) << line.text;
  }
}

TEST(TopFrame, HasARowForEachProcessOnAScreenThatScrollsByItself) {
  EXPECT_EQ(rows_of_workers(top_frame(job_of(64), {})), 64);
}

TEST(TopFrame, ANarrowScreenKeepsWhoWhatAndForHowLong) {
  TopPicture picture = job_of(1);
  picture.processes[1].still = 35 * kSecond;
  EXPECT_THAT(texts(top_frame(picture, {.columns = 60})),
              AllOf(Contains("process        pid  CPU%     RSS   still state"),
                    Contains(" worker 0      101    25  128.0M    35 s waits for a pipe")));
}

TEST(TopFrame, ABriefLookDoesNotTellForHowLong) {
  EXPECT_THAT(texts(top_frame(job_of(1), {.columns = 60, .is_brief = true})),
              AllOf(Contains("process        pid  CPU%     RSS state"),
                    Contains(" worker 0      101    25  128.0M waits for a pipe")));
}

TEST(TopFrame, AWiderScreenHasEachColumn) {
  const auto shown = texts(top_frame(job_of(1), {.columns = 80}));
  EXPECT_THAT(shown,
              Contains(" worker 0      101    25  128.0M   32.0M    2.0M    42         waits for a"
                       " pipe"));
  EXPECT_THAT(texts(top_frame(job_of(1), {.columns = 200})), Contains(HasSubstr("    io/s ")));
  EXPECT_THAT(shown, Contains("100  up 1 min 5 s  python train.py"));
  EXPECT_THAT(shown, Contains(StartsWith("1 worker   CPUs 0.5   PSS 64.0M")));
  EXPECT_THAT(shown, Contains("/dev/shm 16.0 MiB of 64.0 MiB (25 %)"));
}

TEST(TopFrame, WhatIsNotKnownIsNoNumber) {
  TopPicture picture = job_of(0);
  picture.processes = {{.key = {.pid = 100}, .role = Role::kTrainer, .state = "waits"}};
  const auto shown = texts(top_frame(picture, {.columns = 80}));
  EXPECT_THAT(shown,
              Contains("trainer        100     -       -       -       -     -       - waits"));
  EXPECT_THAT(shown, Contains(HasSubstr("PSS -")));
}

TEST(TopFrame, HostileNamesNeverActOnTheTerminal) {
  TopPicture picture = job_of(1);
  picture.command = {"\x1b[2J", "a\nb",
                     "\u202e"
                     "evil",
                     "\xff"};
  picture.processes[1].state = "\x1b]0;x\x07";
  const auto lines = texts(top_frame(picture, {.columns = 120, .lines = 20, .footer = "\x1b[m"}));
  EXPECT_THAT(lines, Each(AllOf(Not(HasSubstr("\x1b")), Not(HasSubstr("\n")),
                                Not(HasSubstr("\u202e")), Not(HasSubstr("\x07")))));
  for (const std::string& line : lines)
    EXPECT_TRUE(is_utf8(line)) << line;
}

TEST(TopFrame, FillsTheScreenAndKeepsTheSelectedRowInSight) {
  const TopPicture picture = job_of(64);
  for (const size_t lines : {1, 2, 5, 12, 24, 100}) {
    for (const TopProcess& process : picture.processes) {
      const auto shown =
          top_frame(picture, {.lines = lines, .selected = process.key, .footer = "keys"});
      ASSERT_EQ(shown.size(), lines);
      EXPECT_EQ(shown.back().text, "keys");
      const auto selected = Contains(Field(&FrameLine::style, FrameStyle::kSelected));
      const bool has_rows = lines > 5;
      EXPECT_EQ(testing::Value(shown, selected), has_rows) << process.key.pid;
    }
  }
}

TEST(TopFrame, RowsAreSorted) {
  TopPicture picture = job_of(3);
  picture.processes[2].cpu = 3;
  picture.processes[3].rss_bytes = 1 * kGiB;
  picture.processes[1].fds = 99;
  picture.processes[2].still = kSecond;
  picture.processes[3].shm_bytes = std::nullopt;
  picture.processes[2].shm_bytes = 9 * kMiB;
  const auto first = [&](TopSort sort) { return sorted_processes(picture, sort)[0].key.pid; };
  EXPECT_EQ(first(TopSort::kJob), 100);
  EXPECT_EQ(first(TopSort::kCpu), 102);
  EXPECT_EQ(first(TopSort::kRss), 103);
  EXPECT_EQ(first(TopSort::kFds), 101);
  EXPECT_EQ(first(TopSort::kState), 102);
  EXPECT_EQ(first(TopSort::kShm), 102);
  std::ranges::reverse(picture.processes);
  EXPECT_EQ(first(TopSort::kPid), 100);
}

TEST(TopFrame, SaysThatNothingMoves) {
  TopPicture picture = job_of(2);
  for (TopProcess& process : picture.processes)
    process.still = 75 * kSecond;
  const auto alarm = Field(&FrameLine::style, FrameStyle::kAlarm);
  EXPECT_THAT(top_frame(picture, {}), Contains(alarm));
  EXPECT_THAT(texts(top_frame(picture, {})),
              Contains("trainer and workers stand still for 75 s: r finds the cause"));
  // One worker moves, or may.
  for (const std::optional<BootNs> still : {std::optional<BootNs>(0), std::optional<BootNs>()}) {
    picture.processes[1].still = still;
    EXPECT_THAT(top_frame(picture, {}), Each(Not(alarm)));
  }
}

TEST(TopFrame, SaysThatAMountIsNearlyFull) {
  TopPicture picture = job_of(1);
  const auto alarm = Field(&FrameLine::style, FrameStyle::kAlarm);
  EXPECT_THAT(top_frame(picture, {}), Each(Not(alarm)));
  picture.shm[0].used_bytes = 60 * kMiB;
  EXPECT_THAT(top_frame(picture, {}), Contains(alarm));
  // No limit.
  picture.shm[0].size_bytes = 0;
  EXPECT_THAT(top_frame(picture, {}), Each(Not(alarm)));
}

TEST(TopFrame, SaysHowTheJobEnded) {
  TopPicture picture = job_of(1);
  picture.end = "exited with code 1";
  EXPECT_THAT(texts(top_frame(picture, {})), Contains("ended (exited with code 1)"));
}

}  // namespace
}  // namespace dlprobe
