#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "lib/base/escape.h"
#include "reports/report.h"
#include "reports/text_layout.h"
#include "tests/unit/reports/cases.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const testing::ReportCase& each, const TextOptions& options = {}) {
  return render_text(make_report(each.recording, each.verdict, {}), options);
}

// DLPROBE_UPDATE_GOLDEN=1 writes the files anew; look at the difference before you commit it.
TEST(TextReport, GoldenFiles) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const std::string path = std::string(DLPROBE_GOLDEN_DIR "/") + std::string(each.name) + ".txt";
    const std::string text = text_of(each);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    if (std::getenv("DLPROBE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
    std::ifstream file(path);
    const std::string golden((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
    EXPECT_EQ(text, golden) << path;
  }
}

TEST(TextReport, TheFirstLineIsTheVerdict) {
  EXPECT_TRUE(text_of(testing::healthy_case()).starts_with("PASS  "));
  EXPECT_TRUE(text_of(testing::exhausted_case()).starts_with("FAIL  DLP0102 shm-exhausted: "));
  EXPECT_TRUE(text_of(testing::incomplete_case()).starts_with("INCOMPLETE  cannot say: "));
}

TEST(TextReport, QuietIsOneLine) {
  for (const testing::ReportCase& each : testing::all_cases()) {
    const std::string text = text_of(each, {.verbosity = -1});
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
  }
}

TEST(TextReport, RunsThatWereNotStartedTakeOneLine) {
  testing::ReportCase each = testing::healthy_case();
  dlprobe::Run& run = each.recording.runs.front();
  run.begin.plan = LoaderPlan{};
  run.end = RunEnd{.at = run.begin.at, .reason = RunEndReason::kNotStarted, .text = "no room"};
  each.recording.runs = {run, run, run};
  const std::string text = text_of(each);
  EXPECT_THAT(text, HasSubstr("  all runs: not started (no room)\n"));
  EXPECT_THAT(text, Not(HasSubstr("shm peak")));
}

TEST(TextReport, NoLineIsWiderThanAskedFor) {
  for (const int width : {60, 80, 100, 160}) {
    for (const testing::ReportCase& each : testing::all_cases()) {
      const std::string text = text_of(each, {.width = width});
      std::string_view rest = text;
      while (!rest.empty()) {
        const std::string_view line = rest.substr(0, rest.find('\n'));
        EXPECT_LE(columns_of(line), static_cast<size_t>(width)) << line;
        rest.remove_prefix(line.size() + 1);
      }
    }
  }
}

TEST(TextReport, HostileTextCannotActOnTheTerminal) {
  const std::string text = text_of(testing::hostile_case(), {.verbosity = 1});
  EXPECT_EQ(escape_keeping_newlines(text), text);
  EXPECT_THAT(text, HasSubstr("\\x1b]0;owned"));
  EXPECT_THAT(text, HasSubstr("\\u{202e}"));
}

TEST(TextReport, ColourOnlyWhenAskedFor) {
  EXPECT_THAT(text_of(testing::exhausted_case()), Not(HasSubstr("\x1b")));
  EXPECT_THAT(text_of(testing::exhausted_case(), {.color = true}), HasSubstr("\x1b[1;31mFAIL"));
}

TEST(TextReport, WhatCouldNotBeSeenIsToldWithWhatWouldHelp) {
  const std::string text = text_of(testing::incomplete_case());
  EXPECT_THAT(text, HasSubstr("Permission denied (EACCES)"));
  EXPECT_THAT(text, HasSubstr("what would help: run dlprobe as root"));
  EXPECT_THAT(text, Not(HasSubstr("PASS")));
}

}  // namespace
}  // namespace dlprobe
