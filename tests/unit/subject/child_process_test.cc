#include "lib/subject/child_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string>

#include "lib/base/unique_fd.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;
using testing::Not;

// Waits for that child and reaps it.
int wait_status_of(pid_t pid) {
  siginfo_t info = {};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
  const auto ended = next_ended_child();
  if (!ended || ended->pid != pid) return -1;
  reap(*ended);
  return ended->wait_status;
}

// What `command` (a shell script) prints on the descriptor that it is given as 3.
std::string output_of(const std::string& command, const LaunchLimits& limits = {},
                      int cgroup_procs = -1) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const auto child = start_child({.argv = {"sh", "-c", command},
                                  .descriptors = {{write_end.get(), 3}},
                                  .dies_with_us = true,
                                  .limits = limits,
                                  .cgroup_procs = cgroup_procs});
  write_end.reset();
  EXPECT_TRUE(child.has_value());
  if (!child) return to_string(child.error());
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = ::read(read_end.get(), buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<size_t>(n));
  }
  EXPECT_EQ(wait_status_of(*child), 0);
  return text;
}

TEST(ChildProcess, TellsAMissingCommandFromOneThatCannotBeRun) {
  const auto missing = start_child({.argv = {"no-such-command-anywhere"}, .descriptors = {}});
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(to_string(missing.error()), HasSubstr("no-such-command-anywhere"));

  const auto folder = start_child({.argv = {"/"}, .descriptors = {}});
  ASSERT_FALSE(folder.has_value());
  EXPECT_EQ(folder.error().code, ErrorCode::kForbidden);
}

TEST(ChildProcess, ReportsExitCodesAndSignals) {
  const auto exits = start_child({.argv = {"sh", "-c", "exit 7"}, .descriptors = {}});
  ASSERT_TRUE(exits.has_value());
  EXPECT_EQ(WEXITSTATUS(wait_status_of(*exits)), 7);

  const auto dies = start_child({.argv = {"sh", "-c", "kill -BUS $$"}, .descriptors = {}});
  ASSERT_TRUE(dies.has_value());
  const int status = wait_status_of(*dies);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

TEST(ChildProcess, GetsTheDescriptorsItIsGivenAndNoneOfOurs) {
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd ours(::fcntl(null.get(), F_DUPFD_CLOEXEC, 700));
  const std::string listed = output_of("ls /proc/self/fd >&3");
  EXPECT_THAT(listed, HasSubstr("3\n"));
  EXPECT_THAT(listed, Not(HasSubstr(std::to_string(ours.get()))));
}

TEST(ChildProcess, GetsTheSignalStateThatDlprobeWasStartedWith) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  remember_inherited_state();
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  auto* old_pipe = std::signal(SIGPIPE, SIG_IGN);
  auto* old_file_size = std::signal(SIGXFSZ, SIG_IGN);
  const std::string text = output_of("grep -E 'Sig(Blk|Ign)' /proc/self/status >&3");
  std::signal(SIGPIPE, old_pipe);
  std::signal(SIGXFSZ, old_file_size);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_THAT(text, HasSubstr("SigBlk:\t0000000000000000"));
  EXPECT_THAT(text, HasSubstr("SigIgn:\t0000000000000000"));
}

TEST(ChildProcess, OpenFilesAreLimitedSoftAndHard) {
  EXPECT_EQ(output_of("ulimit -Sn >&3; ulimit -Hn >&3", {.open_files = 33}), "33\n33\n");
}

TEST(ChildProcess, ALimitThatCannotBeHadIsToldApartFromACommandThatCannotBeRun) {
  const UniqueFd no_group(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto child =
      start_child({.argv = {"no-such-command-anywhere"}, .cgroup_procs = no_group.get()});
  ASSERT_FALSE(child.has_value());
  EXPECT_EQ(child.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(to_string(child.error()), HasSubstr("--limit-memory: join the cgroup"));
}

TEST(ChildProcess, JoinsItsCgroupBeforeAnythingElse) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd procs(ends[1]);
  EXPECT_EQ(output_of("echo started >&3", {}, procs.get()), "started\n");
  std::array<char, 8> written{};
  EXPECT_EQ(::read(read_end.get(), written.data(), written.size()), 1);
  EXPECT_EQ(written[0], '0') << "the kernel takes it for the process that writes";
}

// A file name of /dev/shm that nobody else has.
std::string own_shm_file() {
  return "/dev/shm/dlprobe-test-" + std::to_string(::getpid());
}

TEST(ChildProcess, ADevShmOfItsOwnHasThatSizeAndIsNotOurs) {
  const std::string file = own_shm_file();
  const auto child =
      start_child({.argv = {"sh", "-c", "exit 0"}, .limits = {.shm_bytes = 1 << 20}});
  if (!child) GTEST_SKIP() << to_string(child.error());
  EXPECT_EQ(wait_status_of(*child), 0);
  const std::string text = output_of(
      "stat -f -c '%b %S' /dev/shm >&3; echo x >" + file + "; id -u >&3", {.shm_bytes = 1 << 20});
  EXPECT_EQ(text, "256 4096\n" + std::to_string(::geteuid()) + "\n");
  EXPECT_NE(::access(file.c_str(), F_OK), 0) << "it was written to the machine's /dev/shm";
}

TEST(ChildProcess, IsShownBeforeItBecomesTheCommand) {
  pid_t shown = 0;
  std::string program(64, '\0');
  const auto look = [&](pid_t pid) {
    shown = pid;
    const std::string link = "/proc/" + std::to_string(pid) + "/exe";
    program.resize(static_cast<size_t>(::readlink(link.c_str(), program.data(), program.size())));
  };
  std::string own(64, '\0');
  own.resize(static_cast<size_t>(::readlink("/proc/self/exe", own.data(), own.size())));
  const auto child = start_child({.argv = {"sh", "-c", "exit 0"}, .before_exec = look});
  ASSERT_TRUE(child.has_value());
  EXPECT_EQ(wait_status_of(*child), 0);
  EXPECT_EQ(shown, *child);
  EXPECT_EQ(program, own);
}

TEST(ChildProcess, OrphansOfTheCommandComeToUs) {
  // The shell ends at once; its background child is then ours to reap.
  const auto child = start_child({.argv = {"sh", "-c", "(exit 3) & exit 0"}, .descriptors = {}});
  ASSERT_TRUE(child.has_value());
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(*child), &info, WEXITED), 0);
  // Either the shell had reaped it, or it is ours; nobody else's.
  while (::waitid(P_ALL, 0, &info, WEXITED) == 0)
    EXPECT_EQ(info.si_status, 3);
  EXPECT_EQ(errno, ECHILD);
}

}  // namespace
}  // namespace dlprobe
