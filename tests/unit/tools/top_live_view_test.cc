#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "lib/base/units.h"
#include "tools/dlprobe/top/live_view.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::Field;
using testing::HasSubstr;
using testing::Not;

class FakeScreen final : public Screen {
 public:
  size_t columns() const override { return 80; }
  size_t lines() const override { return 12; }
  int descriptor() const override { return -1; }
  void draw(const std::vector<FrameLine>& lines) override { shown = lines; }
  std::optional<char> key() override {
    if (typed.empty()) return std::nullopt;
    const char key = typed.front();
    typed.pop_front();
    return key;
  }

  std::vector<FrameLine> shown;
  std::deque<char> typed;
};

class LiveViewTest : public testing::Test {
 protected:
  LiveViewTest() {
    dlprobe::Run run;
    run.begin = {.subject = SubjectKind::kPid, .root = ProcessKey{.pid = 100}};
    for (int32_t pid = 100; pid < 140; ++pid) {
      run.processes.push_back(
          {.key = {.pid = pid}, .ppid = 100, .role = pid == 100 ? Role::kTrainer : Role::kWorker});
    }
    recording_.runs = {run};
    look();
  }

  // One more sample.
  void look() {
    dlprobe::Run& run = recording_.runs.back();
    Sample sample{.at = run.samples.empty() ? kSecond : run.samples.back().at + kSecond};
    for (const ProcessInfo& info : run.processes)
      sample.processes.push_back({.key = info.key, .state = 'S'});
    run.samples.push_back(sample);
  }

  void type(std::string_view keys) {
    screen_.typed.insert(screen_.typed.end(), keys.begin(), keys.end());
    view_.take(recording_);
  }

  std::string selected() const {
    const auto found = std::ranges::find(screen_.shown, FrameStyle::kSelected, &FrameLine::style);
    return found == screen_.shown.end() ? "" : found->text.substr(0, 10);
  }

  Recording recording_;
  FakeScreen screen_;
  Expected<ScreenText> stacks_ = ScreenText{.title = "stacks", .text = "a frame\n"};
  int reports_ = 0;
  LiveView view_{screen_,
                 {.stacks = [this](const TopProcess&, size_t) { return stacks_; },
                  .report = [this](const Recording&, size_t) -> Expected<ScreenText> {
                    ++reports_;
                    return ScreenText{.title = "report: x.html", .text = "FAIL\n"};
                  }}};
};

const auto kLine = [](const std::string& text) {
  return Contains(Field(&FrameLine::text, HasSubstr(text)));
};

TEST_F(LiveViewTest, KeysSelectARow) {
  type("");
  EXPECT_EQ(selected(), "");
  type("j");
  EXPECT_EQ(selected(), "trainer   ");
  type("jjk");
  EXPECT_EQ(selected(), " worker 0 ");
  type("G");
  EXPECT_EQ(selected(), " worker 38");
  type("gkk");
  EXPECT_EQ(selected(), "trainer   ");
}

TEST_F(LiveViewTest, QAndTheEndOfTheKeyboardEndIt) {
  type("jx");
  EXPECT_FALSE(view_.has_enough());
  type("q");
  EXPECT_TRUE(view_.has_enough());
}

TEST_F(LiveViewTest, AHangUpEndsItFromEveryPage) {
  type("h");
  EXPECT_THAT(screen_.shown, kLine("quit"));
  type(std::string(1, kHangUp));
  EXPECT_TRUE(view_.has_enough());
}

TEST_F(LiveViewTest, StacksOfTheSelectedProcessStandUntilAKeyTakesThemAway) {
  type("jjs");
  EXPECT_THAT(screen_.shown, kLine("a frame"));
  look();
  type("");
  EXPECT_THAT(screen_.shown, kLine("a frame"));
  type("q");
  EXPECT_FALSE(view_.has_enough());
  EXPECT_THAT(screen_.shown, Not(kLine("a frame")));
}

TEST_F(LiveViewTest, SaysWhyThereAreNoStacks) {
  stacks_ = failure(ErrorCode::kForbidden, "no right");
  type("s");
  EXPECT_THAT(screen_.shown.back().text, HasSubstr("no right"));
}

TEST_F(LiveViewTest, AReportWaitsForThreeSnapshots) {
  type("r");
  EXPECT_TRUE(view_.wants_snapshots());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reports_, 0);
    look();
    recording_.runs.back().snapshots.push_back({.at = recording_.runs.back().samples.back().at});
    type("");
  }
  EXPECT_EQ(reports_, 1);
  EXPECT_FALSE(view_.wants_snapshots());
  EXPECT_THAT(screen_.shown, kLine("report: x.html"));
}

TEST_F(LiveViewTest, AReportComesWithoutSnapshotsWhereThereAreNone) {
  type("r");
  for (int i = 0; i < 8; ++i) {
    look();
    type("");
  }
  EXPECT_EQ(reports_, 1);
}

TEST_F(LiveViewTest, APausedScreenStands) {
  type(" ");
  recording_.runs.back().processes.pop_back();
  look();
  type("");
  EXPECT_THAT(screen_.shown, kLine("39 workers"));
  type(" ");
  look();
  type("");
  EXPECT_THAT(screen_.shown, kLine("38 workers"));
}

TEST_F(LiveViewTest, WhatASessionTellsStandsInTheLastLine) {
  view_.tell("the recording ended early");
  look();
  type("");
  EXPECT_EQ(screen_.shown.back().text, "the recording ended early");
}

}  // namespace
}  // namespace dlprobe
