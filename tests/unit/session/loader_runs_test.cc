#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/session/examination.h"
#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

constexpr pid_t kLoader = 100;
constexpr int kExitOfBadOptionsAsStatus = 2 << 8;

/// The reference loader, on a machine where nothing is real but the pipe for its progress lines.
class LoaderRunsTest : public testing::Test {
 protected:
  LoaderRunsTest() {
    loader().plans.resize(1);
    loader().plans[0].fault = "crash";  // else it is first judged whether it would fit
  }

  LoaderSubject& loader() { return std::get<LoaderSubject>(request_.subject); }
  Examination examine() { return dlprobe::examine(request_, place_.surroundings()); }
  FakeControl& control() { return place_.control; }
  /// The loader's end of the pipe, as it has it after its start.
  UniqueFd progress() {
    return UniqueFd(::fcntl(control().started.back().descriptors.at(0).first, F_DUPFD_CLOEXEC, 0));
  }
  static const RunEnd& end_of(const Examination& examination) {
    return examination.recording.runs.at(0).end.value();
  }

  MadeUpPlace place_;
  ExamineRequest request_ = {.probe = "shm", .subject = LoaderSubject()};
};

TEST_F(LoaderRunsTest, ALoaderThatCannotStartIsRefused) {
  control().start_error = Error{.code = ErrorCode::kForbidden, .os_errno = 0, .context = "no"};
  const Examination examination = examine();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kImpossible);
}

TEST_F(LoaderRunsTest, ALoaderThatWouldNotFitIsNotStarted) {
  loader().plans[0].fault.clear();
  place_.judge.verdict.findings = {
      {.code = FindingCode::kShmTooSmall, .severity = Severity::kError}};
  const Examination examination = examine();
  EXPECT_THAT(control().started, IsEmpty());
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kNotStarted);
  EXPECT_FALSE(examination.refusal.has_value());
}

TEST_F(LoaderRunsTest, OptionsThatTheLoaderRefusesAreRefused) {
  control().on_start = [this](pid_t pid) { control().end(pid, kExitOfBadOptionsAsStatus); };
  const Examination examination = examine();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_THAT(examination.refusal->error.context, HasSubstr("cannot run with these options"));
}

TEST_F(LoaderRunsTest, ItsLinesAreRecorded) {
  UniqueFd pipe;
  control().on_start = [&](pid_t pid) {
    pipe = progress();
    const std::string line = "this is no record\n";
    EXPECT_EQ(::write(pipe.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
    control().in(kSecond, [this, pid] { control().end(pid, 0); });
  };
  const Examination examination = examine();
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kSubjectEnded);
  ASSERT_THAT(examination.recording.runs[0].events, SizeIs(1));
  EXPECT_EQ(examination.recording.runs[0].events[0].kind, "note") << "what is no record is said";
}

TEST_F(LoaderRunsTest, ALoaderThatSaysNothingIsEndedAfterTwoMinutes) {
  request_.interval = std::chrono::seconds(1);
  UniqueFd pipe;
  control().on_start = [&](pid_t) { pipe = progress(); };
  const Examination examination = examine();
  EXPECT_THAT(control().sent, ElementsAre(Pair(kLoader, SIGTERM)));
  EXPECT_THAT(end_of(examination).text.plain(),
              HasSubstr("the reference loader made no progress for 2 min"));
}

TEST_F(LoaderRunsTest, ItIsEndedWhenTheTimeIsUp) {
  request_.watch_for = std::chrono::seconds(2);
  control().deaf = {kLoader};
  const Examination examination = examine();
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kTimeUp);
  EXPECT_THAT(control().sent, ElementsAre(Pair(kLoader, SIGTERM), Pair(kLoader, SIGKILL)));
  EXPECT_THAT(examination.recording.runs[0].events,
              Contains(testing::Field(&Event::kind, kEndingBegan)));
}

TEST_F(LoaderRunsTest, AnInterruptEndsItAndAllRuns) {
  loader().plans.resize(3, loader().plans[0]);
  control().on_start = [this](pid_t) { control().in(kSecond, [this] { control().come(SIGINT); }); };
  const Examination examination = examine();
  EXPECT_THAT(control().started, SizeIs(1));
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kInterrupted);
  EXPECT_FALSE(control().lives(kLoader));
}

TEST_F(LoaderRunsTest, UnderATrialItMayNotMultiply) {
  loader().trial = Trial{.most_processes = 16, .most_depth = 2};
  control().on_start = [this](pid_t pid) {
    for (int i = 0; i < 20; ++i)
      control().fork(pid);
  };
  EXPECT_THAT(end_of(examine()).text.plain(), HasSubstr("the reference loader had 21 processes"));
  EXPECT_FALSE(control().has_children());
}

TEST_F(LoaderRunsTest, AQuickGateStartsNothing) {
  loader().gate = GateRequest{.level = "quick", .deadline = std::chrono::seconds(10)};
  const Examination examination = examine();
  EXPECT_THAT(control().started, IsEmpty());
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kNotStarted);
  EXPECT_TRUE(examination.recording.runs[0].gate.has_value());
}

/// A process that runs already.
class PidTest : public testing::Test {
 protected:
  PidTest() {
    place_.control.add({.pid = 700, .ppid = 1});
    place_.files->set_stat(kItsRoot, {});
  }
  Examination examine() { return dlprobe::examine(request_, place_.surroundings()); }

  static constexpr const char* kItsRoot = "/proc/700/task/700/root/.";
  MadeUpPlace place_;
  ExamineRequest request_ = {
      .probe = "attach", .subject = PidSubject{.pid = 700}, .watch_for = std::chrono::seconds(5)};
};

TEST_F(PidTest, WhenTheTimeIsUpItGoesOn) {
  EXPECT_EQ(examine().recording.runs[0].end->reason, RunEndReason::kTimeUp);
  EXPECT_THAT(place_.control.sent, IsEmpty());
  EXPECT_TRUE(place_.control.lives(700));
}

TEST_F(PidTest, WhatRisesIsWatchedForLongerOnce) {
  const auto watched = [this] {
    const Examination examination = examine();
    const dlprobe::Run& run = examination.recording.runs.back();
    return (run.end->at - run.begin.at) / kSecond;
  };
  request_.subject = PidSubject{.pid = 700, .longer_if_unclear = std::chrono::seconds(13)};
  EXPECT_EQ(watched(), 5);
  place_.judge.rises = true;
  EXPECT_EQ(watched(), 18);
  request_.subject = PidSubject{.pid = 700};
  EXPECT_EQ(watched(), 5) << "whoever says how long to watch gets that";
}

TEST_F(PidTest, WhatIsFoundEndsTheWatch) {
  const auto watched = [this] {
    const Examination examination = examine();
    const dlprobe::Run& run = examination.recording.runs.back();
    return (run.end->at - run.begin.at) / kSecond;
  };
  request_.subject = PidSubject{.pid = 700, .longer_if_nothing_found = std::chrono::seconds(12)};
  EXPECT_EQ(watched(), 17);
  Finding finding;
  finding.severity = Severity::kWarning;
  place_.judge.verdict.findings = {finding};
  EXPECT_EQ(watched(), 17) << "it is not the job's";
  place_.judge.verdict.findings.front().processes = {ProcessKey{.pid = 700}};
  EXPECT_EQ(watched(), 5);
}

TEST_F(PidTest, ItMayEndBefore) {
  place_.control.in(kSecond, [this] { place_.control.end(700, 0); });
  const Examination examination = examine();
  EXPECT_EQ(examination.recording.runs[0].end->reason, RunEndReason::kSubjectEnded);
  EXPECT_FALSE(examination.wait_status.has_value()) << "dlprobe is not its parent";
}

TEST_F(PidTest, AnInterruptEndsTheWatchAndNotTheProcess) {
  place_.control.in(kSecond, [this] { place_.control.come(SIGINT); });
  EXPECT_EQ(examine().recording.runs[0].end->reason, RunEndReason::kInterrupted);
  EXPECT_THAT(place_.control.sent, IsEmpty());
  EXPECT_TRUE(place_.control.lives(700));
}

TEST_F(PidTest, APidThatWasGivenToAnotherIsAnEnd) {
  place_.control.in(kSecond, [this] { place_.control.give_pid_to_stranger(700); });
  const Examination examination = examine();
  EXPECT_EQ(examination.recording.runs[0].end->reason, RunEndReason::kSubjectEnded);
  for (const ProcessInfo& info : examination.recording.runs[0].processes)
    EXPECT_NE(info.comm, "sshd");
}

TEST_F(PidTest, WhoseRightsAreMissingIsIncomplete) {
  place_.files->fail(kItsRoot, EACCES);
  const Examination examination = examine();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kIncomplete);
}

}  // namespace
}  // namespace dlprobe
