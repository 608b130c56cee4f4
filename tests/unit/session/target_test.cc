#include "lib/session/target.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>

#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;

TEST(ParsePid, TakesWhatAPidCanBe) {
  EXPECT_EQ(parse_pid("1"), 1);
  EXPECT_EQ(parse_pid("2147483647"), 2147483647);
}

TEST(ParsePid, RefusesEverythingElse) {
  for (const char* text : {"", "0", "-7", "+7", "7 ", "0x10", "12.5", "abc", "2147483648"}) {
    const auto pid = parse_pid(text);
    ASSERT_FALSE(pid.has_value()) << text;
    EXPECT_EQ(pid.error().code, ErrorCode::kInvalid);
    EXPECT_THAT(pid.error().context, HasSubstr("'" + std::string(text) + "' is not a process id"));
  }
}

// A process with two threads, until its pipe is closed.
class TwoThreads {
 public:
  TwoThreads() {
    std::array<int, 2> up{};
    std::array<int, 2> down{};
    EXPECT_EQ(::pipe2(up.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(down.data(), O_CLOEXEC), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(down[1]);
      std::thread([&] {
        const auto tid = static_cast<int32_t>(::syscall(SYS_gettid));
        if (::write(up[1], &tid, sizeof tid) != sizeof tid) ::_exit(1);
        char byte = 0;
        ::_exit(static_cast<int>(::read(down[0], &byte, 1)));
      }).join();
    }
    ::close(up[1]);
    ::close(down[0]);
    EXPECT_EQ(::read(up[0], &tid_, sizeof tid_), static_cast<ssize_t>(sizeof tid_));
    ::close(up[0]);
    end_ = down[1];
  }
  ~TwoThreads() {
    ::close(end_);
    ::waitpid(pid_, nullptr, 0);
  }
  TwoThreads(const TwoThreads&) = delete;
  TwoThreads& operator=(const TwoThreads&) = delete;

  int32_t pid() const { return pid_; }
  int32_t tid() const { return tid_; }

 private:
  int32_t pid_ = 0;
  int32_t tid_ = 0;
  int end_ = -1;
};

TEST(FindTarget, AThreadStandsForItsProcessAndThatIsSaid) {
  const auto machine = live_machine();
  ASSERT_TRUE(machine.has_value());
  const TwoThreads target;
  const auto found = find_target(*machine, target.tid(), Climb::kStay);
  ASSERT_TRUE(found.has_value()) << to_string(found.error());
  EXPECT_EQ(found->key.pid, target.pid());
  EXPECT_EQ(found->notice, std::to_string(target.tid()) + " is a thread of process " +
                               std::to_string(target.pid()) + ", which is taken");
  const auto process = find_target(*machine, target.pid(), Climb::kStay);
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->notice, "");
}

TEST(FindTarget, RefusesWhatCannotBeExamined) {
  const auto machine = live_machine();
  ASSERT_TRUE(machine.has_value());
  const auto own = find_target(*machine, ::getpid());
  ASSERT_FALSE(own.has_value());
  EXPECT_THAT(own.error().context, HasSubstr("dlprobe itself"));
  EXPECT_EQ(kind_of_refused_target(own.error()), Refusal::Kind::kImpossible);

  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT);
  const auto ended = find_target(*machine, zombie, Climb::kStay);
  ::waitpid(zombie, nullptr, 0);
  ASSERT_FALSE(ended.has_value());
  EXPECT_THAT(ended.error().context, HasSubstr("zombie"));
  EXPECT_EQ(kind_of_refused_target(ended.error()), Refusal::Kind::kImpossible);
}

TEST(FindTarget, TheOuterPidOfAProcessInAContainerIsNamed) {
  const auto files = std::make_shared<FakeFiles>();
  files->add(
      "/proc/4711/status",
      "Name:\tpython\nState:\tS (sleeping)\nTgid:\t4711\nPid:\t4711\nPPid:\t1\nTracerPid:\t0\n"
      "Uid:\t0\t0\t0\t0\nNSpid:\t4711\t17\nThreads:\t1\nSigCgt:\t0000000000000000\n"
      "voluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n");
  const Machine machine{.root = files,
                        .clock = std::make_shared<FakeClock>(),
                        .processes = std::make_shared<ProcessAccess>()};
  const auto inner = find_target(machine, 17);
  ASSERT_FALSE(inner.has_value());
  EXPECT_EQ(inner.error().code, ErrorCode::kVanished);
  EXPECT_EQ(inner.error().context,
            "there is no process 17 on this machine (any more); in a container it is the pid of "
            "process 4711");
  const auto unknown = find_target(machine, 18);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().context, "there is no process 18 on this machine (any more)");
}

TEST(FindTarget, AMissingRightIsIncompleteNotWrong) {
  EXPECT_EQ(kind_of_refused_target({.code = ErrorCode::kForbidden}), Refusal::Kind::kIncomplete);
}

}  // namespace
}  // namespace dlprobe
