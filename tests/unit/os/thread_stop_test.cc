#include "lib/os/thread_stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <span>
#include <string>

namespace dlprobe {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr auto kBudget = std::chrono::seconds(5);

/// A child that runs for ever; a SIGUSR1 makes it write a byte.
class Spinner {
 public:
  Spinner() {
    if (::pipe(ends_.data()) != 0) return;
    pid_ = ::fork();
    if (pid_ != 0) return;
    out_ = ends_[1];
    ::signal(SIGUSR1, [](int) {
      if (::write(out_, "u", 1) < 0) ::_exit(1);
    });
    if (::write(out_, "r", 1) < 0) ::_exit(1);
    for (std::atomic<unsigned> turns = 0;;)
      ++turns;
  }
  ~Spinner() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Spinner(const Spinner&) = delete;
  Spinner& operator=(const Spinner&) = delete;

  pid_t pid() const { return pid_; }
  char next() const {
    char byte = 0;
    return ::read(ends_[0], &byte, 1) == 1 ? byte : '\0';
  }

 private:
  static int out_;
  std::array<int, 2> ends_{};
  pid_t pid_ = -1;
};
int Spinner::out_ = -1;

std::string status_line(pid_t pid, const std::string& key) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":\t")) return line.substr(key.size() + 2);
  }
  return "";
}

/// Again where a busy machine gave the threads no CPU to stop on.
ThreadStop stop_when_on_a_cpu(std::span<const int32_t> tids, std::chrono::nanoseconds budget,
                              const std::function<void(std::span<const StoppedThread>)>& seen) {
  const auto is_late = [](const NotStopped& each) { return each.why.code == ErrorCode::kTimeout; };
  while (true) {
    ThreadStop stop = stop_threads(tids, budget, seen);
    if (std::ranges::none_of(stop.not_stopped, is_late)) return stop;
  }
}

TEST(ThreadStop, ShowsRegistersAndLetsGo) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  const std::array tids = {spinner.pid()};
  std::string state;
  const ThreadStop stop =
      stop_when_on_a_cpu(tids, kBudget, [&](std::span<const StoppedThread> threads) {
        ASSERT_THAT(threads, SizeIs(1));
        state = status_line(spinner.pid(), "State");
      });
  EXPECT_EQ(state, "t (tracing stop)");
  ASSERT_THAT(stop.threads, SizeIs(1));
  EXPECT_NE(stop.threads[0].program_counter, 0U);
  EXPECT_NE(stop.threads[0].stack_pointer, 0U);
  EXPECT_TRUE(stop.in_time);
  EXPECT_GT(stop.pause.count(), 0);
  EXPECT_THAT(stop.not_stopped, IsEmpty());
  EXPECT_EQ(status_line(spinner.pid(), "TracerPid"), "0");
  EXPECT_EQ(status_line(spinner.pid(), "State"), "R (running)");
}

TEST(ThreadStop, AThreadThatHasEndedIsNotOneThatIsForbidden) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const std::array tids = {child};
  const ThreadStop stop = stop_threads(tids, kBudget, [](std::span<const StoppedThread>) {});
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  ASSERT_THAT(stop.not_stopped, SizeIs(1));
  EXPECT_EQ(stop.not_stopped[0].why.code, ErrorCode::kVanished);
}

TEST(ThreadStop, SaysInWhichCallAThreadWaitedAndThatOneThatRanWaitedInNone) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t reader = ::fork();
  if (reader == 0) {
    char byte = 0;
    ::_exit(::read(ends[0], &byte, 1) == 1 ? 0 : 1);
  }
  while (!status_line(reader, "State").starts_with("S")) {
  }
  const std::array reads = {reader};
  const std::array spins = {spinner.pid()};
  const ThreadStop waits =
      stop_when_on_a_cpu(reads, kBudget, [](std::span<const StoppedThread>) {});
  const ThreadStop runs = stop_when_on_a_cpu(spins, kBudget, [](std::span<const StoppedThread>) {});
  EXPECT_EQ(::write(ends[1], "x", 1), 1);  // its read goes on
  int status = 0;
  ::waitpid(reader, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ::close(ends[0]);
  ::close(ends[1]);
  ASSERT_THAT(waits.threads, SizeIs(1));
  ASSERT_TRUE(waits.threads[0].blocked_in);
  EXPECT_EQ(waits.threads[0].blocked_in->number, SYS_read);
  EXPECT_EQ(waits.threads[0].blocked_in->args[0], static_cast<uint64_t>(ends[0]));
  ASSERT_THAT(runs.threads, SizeIs(1));
  EXPECT_FALSE(runs.threads[0].blocked_in);
}

TEST(ThreadStop, LetsGoWhenItsTimeIsOverThoughTheCallerIsNotDone) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  const std::array tids = {spinner.pid()};
  const ThreadStop stop =
      stop_when_on_a_cpu(tids, std::chrono::milliseconds(50), [&](std::span<const StoppedThread>) {
        while (status_line(spinner.pid(), "State") != "R (running)") {
        }
      });
  EXPECT_THAT(stop.threads, SizeIs(1));
  EXPECT_FALSE(stop.in_time);
}

TEST(ThreadStop, CtrlZWaitsUntilTheThreadsGoOn) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  const pid_t stopper = ::fork();
  if (stopper == 0) {
    ::setpgid(0, 0);  // an orphaned group is not stopped by SIGTSTP; this one has its parent
    ::signal(SIGTSTP, SIG_DFL);
    const std::array tids = {spinner.pid()};
    bool called = false;
    while (!called) {
      stop_threads(tids, kBudget, [&](std::span<const StoppedThread>) {
        called = true;
        ::kill(::getpid(), SIGTSTP);
      });
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(stopper, &status, WUNTRACED), stopper);
  EXPECT_TRUE(WIFSTOPPED(status)) << "it is stopped, but later";
  EXPECT_EQ(status_line(spinner.pid(), "State"), "R (running)");
  EXPECT_EQ(status_line(spinner.pid(), "TracerPid"), "0");
  ::kill(stopper, SIGCONT);
  ASSERT_EQ(::waitpid(stopper, &status, 0), stopper);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(ThreadStop, OfAThreadThatIsNotThereSaysSo) {
  const std::array tids = {0x3FFFFFFF};  // beyond PID_MAX_LIMIT
  bool called = false;
  const ThreadStop stop =
      stop_threads(tids, kBudget, [&](std::span<const StoppedThread>) { called = true; });
  EXPECT_FALSE(called);
  ASSERT_THAT(stop.not_stopped, SizeIs(1));
  EXPECT_EQ(stop.not_stopped[0].why.code, ErrorCode::kVanished);
  EXPECT_EQ(stop.pause.count(), 0);
}

TEST(ThreadStop, LeavesTheExitStatusOfAChildToItsParent) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  const std::array tids = {spinner.pid()};
  stop_when_on_a_cpu(tids, kBudget, [&](std::span<const StoppedThread>) {
    ::kill(spinner.pid(), SIGKILL);
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(spinner.pid()), &info, WEXITED | WNOWAIT);
  });
  stop_threads(tids, std::chrono::milliseconds(20), [](std::span<const StoppedThread>) {});
  int status = 0;
  ASSERT_EQ(::waitpid(spinner.pid(), &status, 0), spinner.pid());
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST(ThreadStop, PassesOnASignalThatArrivesMeanwhile) {
  const Spinner spinner;
  ASSERT_EQ(spinner.next(), 'r');
  const std::array tids = {spinner.pid()};
  stop_when_on_a_cpu(tids, kBudget,
                     [&](std::span<const StoppedThread>) { ::kill(spinner.pid(), SIGUSR1); });
  EXPECT_EQ(spinner.next(), 'u');
}

}  // namespace
}  // namespace dlprobe
