#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <utility>

#include "lib/session/examination.h"
#include "tests/unit/session/fakes.h"

namespace dlprobe {
namespace {

using testing::Contains;
using testing::Each;
using testing::Ge;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Pair;
using testing::SizeIs;

constexpr int kExit3 = 3 << 8;  // as wait(2) encodes it
constexpr pid_t kFirst = 100;   // what is started first

/// A command that is started, watched and ended, on a machine where nothing is real.
class CommandRunsTest : public testing::Test {
 protected:
  CommandRunsTest() {
    request_.probe = "run";
    command().argv = {"python3", "train.py"};
  }

  CommandSubject& command() { return std::get<CommandSubject>(request_.subject); }
  Examination examine() { return dlprobe::examine(request_, place_.surroundings()); }

  FakeControl& control() { return place_.control; }
  /// So long after its start the command does that.
  void after_start(BootNs time, std::function<void(pid_t)> what) {
    control().on_start = [this, time, what = std::move(what)](pid_t pid) {
      control().in(time, [what, pid] { what(pid); });
    };
  }
  static const RunEnd& end_of(const Examination& examination, size_t run = 0) {
    return examination.recording.runs.at(run).end.value();
  }
  static std::vector<std::string> texts_of(const dlprobe::Run& run) {
    std::vector<std::string> texts;
    for (const Event& event : run.events)
      texts.push_back(event.text.plain());
    return texts;
  }
  void expect_nothing_lives() {
    for (pid_t pid = kFirst; pid < kFirst + 200; ++pid)
      EXPECT_FALSE(control().lives(pid)) << pid;
    EXPECT_EQ(control().guards, 0);
  }

  MadeUpPlace place_;
  ExamineRequest request_ = {.subject = CommandSubject()};
};

TEST_F(CommandRunsTest, ACommandThatCannotStartIsRefusedForItsReason) {
  const std::pair<ErrorCode, Refusal::Kind> kinds[] = {
      {ErrorCode::kNotFound, Refusal::Kind::kNotFound},
      {ErrorCode::kForbidden, Refusal::Kind::kNotExecutable},
      {ErrorCode::kUnsupported, Refusal::Kind::kImpossible}};
  for (const auto& [code, kind] : kinds) {
    control().start_error = Error{.code = code, .os_errno = 0, .context = "run python3"};
    const Examination examination = examine();
    ASSERT_TRUE(examination.refusal.has_value());
    EXPECT_EQ(examination.refusal->kind, kind);
    EXPECT_FALSE(examination.wait_status.has_value());
  }
}

TEST_F(CommandRunsTest, WhoItIsThatStartedMustBeKnown) {
  control().on_start = [this](pid_t pid) {
    place_.files->fail("/proc/" + std::to_string(pid) + "/stat", EACCES);
  };
  const Examination examination = examine();
  ASSERT_TRUE(examination.refusal.has_value());
  EXPECT_EQ(examination.refusal->kind, Refusal::Kind::kIncomplete);
  EXPECT_THAT(control().sent, Contains(Pair(kFirst, SIGKILL))) << "nobody watches it";
}

TEST_F(CommandRunsTest, ACommandThatEndsAtOnceIsSeenToEnd) {
  control().on_start = [this](pid_t pid) { control().end(pid, kExit3); };
  const BootNs began = place_.clock->now();
  const Examination examination = examine();
  EXPECT_FALSE(examination.refusal.has_value());
  EXPECT_EQ(examination.wait_status, kExit3);
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kSubjectEnded);
  EXPECT_EQ(end_of(examination).wait_status, kExit3);
  EXPECT_THAT(examination.left, IsEmpty());
  EXPECT_LT(place_.clock->now() - began, kSecond);
  EXPECT_THAT(control().sent, IsEmpty());
}

TEST_F(CommandRunsTest, AProcessThatTellsItsRankHasIt) {
  after_start(kSecond, [this](pid_t pid) {
    const auto& started = control().started.back().environment;
    const auto path =
        std::ranges::find(started, "PYTHONPATH", [](auto& each) { return each.first; });
    ASSERT_NE(path, started.end());
    std::ofstream events(path->second.substr(0, path->second.find(':')) + "/events");
    events << fmt::format(R"({{"kind":"joined-group","at":1,"pid":{},"start_ticks":{},)"
                          R"("count":1,"workers":4}})",
                          pid, MadeUpProcess{.pid = pid}.key().start_ticks)
           << std::endl;
  });
  request_.watch_for = std::chrono::seconds(2);
  const Examination examination = examine();
  const auto& processes = examination.recording.runs[0].processes;
  ASSERT_FALSE(processes.empty());
  ASSERT_TRUE(processes.back().rank);
  EXPECT_EQ(processes.back().rank->rank, 1);
  EXPECT_EQ(processes.back().rank->world_size, 4);
}

TEST_F(CommandRunsTest, ACommandKilledBySomebodyElseIsRecordedSo) {
  after_start(2 * kSecond, [this](pid_t pid) { control().end(pid, SIGKILL); });
  const Examination examination = examine();
  EXPECT_EQ(examination.wait_status, SIGKILL);
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kSubjectEnded);
  const auto& exits = examination.recording.runs[0].exits;
  ASSERT_THAT(exits, SizeIs(1));
  EXPECT_EQ(exits[0].source, "waitid");
}

TEST_F(CommandRunsTest, AfterTheTimeTheCommandGoesOnAndThatIsTold) {
  request_.watch_for = std::chrono::seconds(2);
  EXPECT_EQ(end_of(examine()).reason, RunEndReason::kTimeUp);
  EXPECT_TRUE(control().lives(kFirst));
  EXPECT_THAT(control().sent, IsEmpty());
  EXPECT_THAT(place_.notices.told, Contains(HasSubstr("(pid 100) continues")));
}

TEST_F(CommandRunsTest, ACommandThatHangsIsToldAndGoesOn) {
  int told = 0;
  place_.judge.stuck = true;
  command().watch =
      CommandWatch{.hang_after = std::chrono::seconds(5), .when_hung = [&](const Recording&) {
                     ++told;
                     control().in(5 * kSecond, [this] { control().end(kFirst, 0); });
                   }};
  const Examination examination = examine();
  EXPECT_EQ(told, 1) << "once for each standstill";
  EXPECT_THAT(control().sent, IsEmpty());
  EXPECT_EQ(end_of(examination).text.plain(), "");
}

/// One that hangs, moves after 3 s, and ends so long after that.
class MovingAgainTest : public CommandRunsTest {
 protected:
  std::optional<std::chrono::nanoseconds> stood_if_it_ends_after(BootNs time) {
    std::optional<std::chrono::nanoseconds> stood;
    bool is_told = false;
    place_.judge.stuck = true;
    CommandWatch watch{.hang_after = std::chrono::seconds(5)};
    watch.when_hung = [&, time](const Recording&) {
      if (std::exchange(is_told, true)) return;
      control().in(3 * kSecond,
                   [this] { place_.files->add("/proc/100/io", "syscr: 9\nsyscw: 0\n"); });
      control().in(3 * kSecond + time, [this] { control().end(kFirst, 0); });
    };
    watch.when_moving_again = [&](std::chrono::nanoseconds so_long) { stood = so_long; };
    command().watch = std::move(watch);
    examine();
    return stood;
  }
};

TEST_F(MovingAgainTest, IsTold) {
  const auto stood = stood_if_it_ends_after(8 * kSecond);
  ASSERT_TRUE(stood);
  EXPECT_GT(*stood, std::chrono::seconds(7));
}

TEST_F(MovingAgainTest, AnEndMovesToo) {
  EXPECT_FALSE(stood_if_it_ends_after(kSecond));
}

TEST_F(CommandRunsTest, ACommandThatStandsStillForAReasonIsLeftAlone) {
  command().watch = CommandWatch{.hang_after = std::chrono::seconds(5), .end_when_hung = true};
  after_start(15 * kSecond, [this](pid_t pid) { control().end(pid, 0); });
  examine();
  EXPECT_THAT(control().sent, IsEmpty()) << "the judge found nothing stuck";
}

/// One that hangs, and is ended for it.
class HungCommandTest : public CommandRunsTest {
 protected:
  HungCommandTest() {
    place_.judge.stuck = true;
    command().watch = CommandWatch{.hang_after = std::chrono::seconds(5), .end_when_hung = true};
  }
};

TEST_F(HungCommandTest, ItIsAskedToEnd) {
  const Examination examination = examine();
  EXPECT_THAT(control().sent, testing::ElementsAre(Pair(kFirst, SIGTERM)));
  EXPECT_EQ(examination.wait_status, SIGTERM);
  EXPECT_THAT(end_of(examination).text.plain(),
              HasSubstr("made no progress for 7.0 s; dlprobe ended"));
}

TEST_F(HungCommandTest, WhoAsksAPersonIsToldOnceAndLives) {
  place_.judge.stuck = false;
  place_.judge.asked = "trainer 10 waits for input on its standard input";
  control().on_start = [this](pid_t pid) {
    control().in(40 * kSecond, [this, pid] { control().end(pid, 0); });
  };
  EXPECT_EQ(examine().wait_status, 0);
  EXPECT_EQ(std::ranges::count_if(place_.notices.told,
                                  [](const std::string& each) {
                                    return each.starts_with("trainer 10 waits for input");
                                  }),
            1);
}

TEST_F(HungCommandTest, WhatFailsWithoutEndIsNoProgress) {
  place_.judge.stuck = false;
  place_.judge.in_vain = place_.clock->now() + kSecond;
  control().on_start = [this](pid_t pid) {
    for (int i = 1; i < 20; ++i) {
      control().in(i * kSecond, [this, pid] {
        if (control().lives(pid)) control().end(control().fork(pid), kExit3);
      });
    }
  };
  EXPECT_THAT(end_of(examine()).text.plain(),
              HasSubstr("made no progress for 7.0 s; dlprobe ended"));
}

TEST_F(HungCommandTest, ItIsKilledWhereItDoesNotListen) {
  control().deaf = {kFirst};
  const BootNs began = place_.clock->now();
  const Examination examination = examine();
  EXPECT_THAT(control().sent, testing::ElementsAre(Pair(kFirst, SIGTERM), Pair(kFirst, SIGKILL)));
  EXPECT_EQ(examination.wait_status, SIGKILL);
  EXPECT_GT(place_.clock->now() - began, 37 * kSecond) << "it had 30 s to save its state";
}

TEST_F(HungCommandTest, ItsWorkersDoNotOutliveIt) {
  control().on_start = [this](pid_t pid) { control().deaf.insert(control().fork(pid)); };
  const Examination examination = examine();
  EXPECT_THAT(control().sent, Contains(Pair(kFirst + 1, SIGKILL)));
  expect_nothing_lives();
  EXPECT_THAT(examination.left, IsEmpty());
}

TEST_F(HungCommandTest, AnInterruptWhileItIsEndedIsGivenOn) {
  control().deaf = {kFirst};
  after_start(12 * kSecond, [this](pid_t) { control().come(SIGINT); });
  EXPECT_EQ(end_of(examine()).reason, RunEndReason::kInterrupted);
  EXPECT_THAT(control().sent, Contains(Pair(kFirst, SIGINT)));
  expect_nothing_lives();
}

TEST_F(HungCommandTest, APidThatWasGivenToAnotherIsNotSignalled) {
  control().on_start = [this](pid_t pid) {
    const pid_t worker = control().fork(pid);
    control().in(kSecond, [this, worker] { control().give_pid_to_stranger(worker); });
  };
  examine();
  EXPECT_TRUE(control().lives(kFirst + 1));
  EXPECT_THAT(control().sent, Not(Contains(Pair(kFirst + 1, testing::_))));
}

TEST_F(CommandRunsTest, AnInterruptThatCameBeforeTheStartEndsIt) {
  control().come(SIGINT);
  EXPECT_EQ(end_of(examine()).reason, RunEndReason::kInterrupted);
  EXPECT_THAT(control().sent, testing::ElementsAre(Pair(kFirst, SIGINT)));
  expect_nothing_lives();
}

TEST_F(CommandRunsTest, AnInterruptWhileItIsWatchedIsGivenOn) {
  after_start(2 * kSecond, [this](pid_t) { control().come(SIGTERM); });
  const Examination examination = examine();
  EXPECT_EQ(end_of(examination).reason, RunEndReason::kInterrupted);
  EXPECT_EQ(examination.wait_status, SIGTERM);
}

TEST_F(CommandRunsTest, SignalsOfTheUsersOwnAreForTheCommandAlone) {
  after_start(kSecond, [this](pid_t pid) {
    control().come(SIGUSR1);
    control().in(kSecond, [this, pid] { control().end(pid, 0); });
  });
  EXPECT_EQ(end_of(examine()).reason, RunEndReason::kSubjectEnded);
  EXPECT_THAT(control().sent, testing::ElementsAre(Pair(kFirst, SIGUSR1)));
}

TEST_F(CommandRunsTest, RightsThatAreLostHalfwayAreToldAndTheWatchGoesOn) {
  after_start(2 * kSecond, [this](pid_t pid) {
    const std::string folder = "/proc/" + std::to_string(pid);
    for (const char* file : {"/io", "/fd", "/smaps_rollup", "/limits", "/status"})
      place_.files->fail(folder + file, EACCES);
    control().in(3 * kSecond, [this, pid] { control().end(pid, kExit3); });
  });
  const Examination examination = examine();
  EXPECT_EQ(examination.wait_status, kExit3);
  const auto& samples = examination.recording.runs[0].samples;
  ASSERT_FALSE(samples.empty());
  EXPECT_TRUE(samples.front().processes.at(0).fd_count->has_value());
  const auto is_forbidden = [](const Sample& sample) {
    if (sample.processes.empty() || !sample.processes[0].fd_count) return false;
    const auto& count = *sample.processes[0].fd_count;
    return !count && count.error().code == ErrorCode::kForbidden;
  };
  EXPECT_TRUE(std::ranges::any_of(samples, is_forbidden)) << "a reason, not a zero";
}

/// A command under a trial, whose tree may have 16 processes.
class TrialTest : public CommandRunsTest {
 protected:
  TrialTest() {
    command().trials = {
        Trial{.start_method = StartMethod::kSpawn, .most_processes = 16, .most_depth = 2}};
  }

  /// A tree that grows by one each 10 ms, at its newest process.
  void grow(pid_t newest) {
    if (!control().lives(newest)) return;
    const pid_t child = control().fork(newest);
    control().in(10 * kMillisecond, [this, child] { grow(child); });
  }
};

TEST_F(TrialTest, ATreeThatForksForEverIsKilledWhole) {
  control().on_start = [this](pid_t pid) { grow(pid); };
  const Examination examination = examine();
  EXPECT_THAT(texts_of(examination.recording.runs[0]), Contains(HasSubstr("had 17 processes")));
  EXPECT_THAT(end_of(examination).text.plain(), HasSubstr("; dlprobe ended it"));
  expect_nothing_lives();
}

TEST_F(TrialTest, EveryoneIsStoppedBeforeAnyoneIsKilled) {
  control().on_start = [this](pid_t pid) { grow(pid); };
  examine();
  const auto first_kill =
      std::ranges::find(control().sent, SIGKILL, &std::pair<pid_t, int>::second);
  EXPECT_THAT((std::vector<std::pair<pid_t, int>>(control().sent.begin(), first_kill)),
              Each(Pair(testing::_, SIGSTOP)));
  EXPECT_THAT((std::vector<std::pair<pid_t, int>>(first_kill, control().sent.end())),
              Each(Pair(testing::_, SIGKILL)));
  EXPECT_THAT(control().sent, SizeIs(Ge(32)));
}

TEST_F(TrialTest, ATreeThatIsTooDeepIsKilled) {
  place_.judge.deepest = 4;
  EXPECT_THAT(texts_of(examine().recording.runs[0]), Contains(HasSubstr("had 4 generations")));
  expect_nothing_lives();
}

TEST_F(TrialTest, WhatGoesOnForLongIsKilledWhenItsTimeIsUp) {
  const BootNs began = place_.clock->now();
  EXPECT_THAT(end_of(examine()).text.plain(), HasSubstr("ran as long as allowed"));
  EXPECT_GE(place_.clock->now() - began, 60 * kSecond);
  expect_nothing_lives();
}

TEST_F(TrialTest, WhatItLeavesBehindIsKilled) {
  control().on_start = [this](pid_t pid) {
    control().fork(pid);
    control().in(kSecond, [this, pid] { control().end(pid, 0); });
  };
  EXPECT_EQ(examine().wait_status, 0);
  expect_nothing_lives();
}

TEST_F(TrialTest, AnInterruptedTrialIsTheLast) {
  command().trials.push_back(command().trials.front());
  after_start(kSecond, [this](pid_t) { control().come(SIGINT); });
  EXPECT_THAT(examine().recording.runs, SizeIs(1));
  expect_nothing_lives();
}

/// A command that fails, and may run again with what would mend it.
class ConfirmTest : public CommandRunsTest {
 protected:
  ConfirmTest() {
    command().confirm = ConfirmWish{.times = 2, .saves_time = false};
    place_.judge.plan = {
        {.attempt = {.settings = {{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}},
                     .of_run = 0},
         .findings = {0}}};
    control().on_start = [this](pid_t pid) {
      control().in(kSecond, [this, pid] { control().end(pid, kExit3); });
    };
  }
};

TEST_F(ConfirmTest, EachRemedyIsTriedByAnotherStart) {
  const Examination examination = examine();
  EXPECT_THAT(examination.recording.runs, SizeIs(1));
  EXPECT_THAT(examination.recording.attempts, SizeIs(4)) << "with it and without, twice";
  ASSERT_THAT(control().started, SizeIs(5));
  EXPECT_THAT(control().started[1].environment, Contains(Pair("OMP_NUM_THREADS", "1")));
  EXPECT_THAT(control().started[2].environment, Not(Contains(Pair("OMP_NUM_THREADS", "1"))));
  EXPECT_EQ(examination.wait_status, kExit3) << "of the first run";
}

TEST_F(ConfirmTest, AnInterruptWhileRemediesAreTriedIsTheEnd) {
  control().on_start = [this](pid_t pid) {
    const bool is_second = control().started.size() == 2;
    control().in(kSecond, [this, pid, is_second] {
      if (is_second) return control().come(SIGINT);
      control().end(pid, kExit3);
    });
  };
  const Examination examination = examine();
  EXPECT_THAT(control().started, SizeIs(2));
  ASSERT_THAT(examination.recording.attempts, SizeIs(1));
  EXPECT_EQ(examination.recording.attempts[0].end->reason, RunEndReason::kInterrupted);
  expect_nothing_lives();
}

TEST_F(ConfirmTest, AnAttemptThatCannotStartIsRecordedAsNotStarted) {
  place_.judge.helps = false;
  control().on_start = [this](pid_t pid) {
    control().in(kSecond, [this, pid] { control().end(pid, kExit3); });
    control().start_error = Error{.code = ErrorCode::kForbidden, .os_errno = 0, .context = "no"};
  };
  const Examination examination = examine();
  ASSERT_THAT(examination.recording.attempts, SizeIs(1));
  EXPECT_EQ(examination.recording.attempts[0].end->reason, RunEndReason::kNotStarted);
}

TEST_F(ConfirmTest, WhatIsToRunAgainDoesNotGoOnBesideItself) {
  control().on_start = [](pid_t) {};
  request_.watch_for = std::chrono::seconds(2);
  place_.judge.plan.clear();
  examine();
  expect_nothing_lives();
  EXPECT_THAT(place_.notices.told, Not(Contains(HasSubstr("goes on"))));
}

}  // namespace
}  // namespace dlprobe
