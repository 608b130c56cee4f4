#include "tools/dlprobe/on_failure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

namespace dlprobe {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

FailureNotice notice() {
  return {.report_path = "/tmp/r 1.json",
          .verdict = "fail",
          .code = "DLP0509",
          .headline = "it's \"broken\"; $(touch x)\n`true`",
          .exit_code = 139};
}

// What the command and dlprobe write to stderr.
std::string stderr_of(const std::string& command,
                      std::chrono::nanoseconds limit = std::chrono::seconds(60)) {
  testing::internal::CaptureStderr();
  run_on_failure(command, notice(), limit);
  return testing::internal::GetCapturedStderr();
}

void expect_no_child_left() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(OnFailure, TheCommandIsToldByItsEnvironment) {
  const std::string told = stderr_of(
      R"(printf '%s|%s|%s|%s|%s' "$DLPROBE_REPORT" "$DLPROBE_VERDICT" "$DLPROBE_CODE" "$DLPROBE_HEADLINE" "$DLPROBE_EXIT_CODE")");
  EXPECT_EQ(told, "/tmp/r 1.json|fail|DLP0509|it's \"broken\"; $(touch x)\\x0a`true`|139");
  EXPECT_EQ(::getenv("DLPROBE_VERDICT"), nullptr) << "dlprobe's own environment was changed";
  expect_no_child_left();
}

TEST(OnFailure, ItHasNoInputAndItsOutputIsOnStderr) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(stderr_of("cat; echo out; echo err >&2"), "out\nerr\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(OnFailure, HowItEndsIsSaidAndChangesNothing) {
  EXPECT_EQ(stderr_of("exit 0"), "");
  EXPECT_EQ(stderr_of("exit 7"), "dlprobe: the command of --on-failure exited with code 7\n");
  EXPECT_EQ(stderr_of("kill -9 $$"),
            "dlprobe: the command of --on-failure was killed by signal 9\n");
  EXPECT_THAT(stderr_of("no-such-command-anywhere"), HasSubstr("exited with code 127"));
  EXPECT_THAT(stderr_of("if"), HasSubstr("exited with code 2")) << "not a command at all";
  expect_no_child_left();
}

TEST(OnFailure, OneThatDoesNotEndIsEndedWithItsGroup) {
  std::string text = stderr_of("sleep 60 & echo $! $$; wait", milliseconds(300));
  EXPECT_THAT(text, HasSubstr("did not end within 300 ms"));
  const pid_t background = std::atoi(text.c_str());
  ASSERT_GT(background, 0);
  // An orphan of ours: it is ours to reap, or was never.
  const bool was_ours = ::waitpid(background, nullptr, 0) == background;
  EXPECT_TRUE(was_ours || ::kill(background, 0) != 0);
  expect_no_child_left();
}

TEST(OnFailure, OneThatIgnoresTheRequestIsKilled) {
  EXPECT_THAT(stderr_of("trap '' TERM; while :; do sleep 0.1; done", milliseconds(100)),
              HasSubstr("did not end within 100 ms"));
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  expect_no_child_left();
}

TEST(OnFailure, TheNoticeIsThatOfTheReport) {
  report::Report report;
  report.summary = {.verdict = OverallVerdict::kFail, .headline = "worker 3 died", .counts = {}};
  report.findings.resize(2);
  report.findings.front().code = report::CodeText(std::string("DLP0503"));
  const FailureNotice made = failure_notice(report, "r.json", 1);
  EXPECT_EQ(made.report_path, "r.json");
  EXPECT_EQ(made.verdict, "fail");
  EXPECT_EQ(made.headline, "worker 3 died");
  EXPECT_EQ(made.code, "DLP0503");
  EXPECT_EQ(made.exit_code, 1);
  EXPECT_EQ(failure_notice(report::Report(), "", 3).code, "");
}

}  // namespace
}  // namespace dlprobe
