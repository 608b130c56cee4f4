#include "lib/os/private_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

/// In a TMPDIR of its own.
class PrivateFolderTest : public testing::Test {
 protected:
  PrivateFolderTest() { ::setenv("TMPDIR", folder_.path().c_str(), 1); }
  ~PrivateFolderTest() override { ::unsetenv("TMPDIR"); }

  /// Made by a process that ends without taking it away; `age` seconds old.
  std::string leftover(time_t age) const {
    const pid_t child = ::fork();
    if (child == 0) {
      auto made = PrivateFolder::make("left");
      ::_exit(made && made->write("file", "x") ? 0 : 1);  // no destructor runs
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    const std::string path = std::filesystem::directory_iterator(folder_.path())->path();
    make_old(path, age);
    return path;
  }
  static void make_old(const std::string& path, time_t age) {
    const timespec then{.tv_sec = ::time(nullptr) - age, .tv_nsec = 0};
    const std::array times = {then, then};
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times.data(), 0), 0);
  }
  static void make_another() { EXPECT_TRUE(PrivateFolder::make("left")); }

  TemporaryFolder folder_;
};

TEST_F(PrivateFolderTest, OfAKilledProcessIsTakenAwayByTheNext) {
  const std::string path = leftover(3600);
  make_another();
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(PrivateFolderTest, ANewOneStays) {
  const std::string path = leftover(0);
  make_another();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(PrivateFolderTest, OneThatAProcessHoldsStays) {
  const auto held = PrivateFolder::make("left");
  const std::string path = std::filesystem::directory_iterator(folder_.path())->path();
  make_old(path, 3600);
  make_another();
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(PrivateFolderTest, OneInTheEnvironmentOfAJobStays) {
  const std::string path = leftover(3600);
  std::array<int, 2> ask{};
  std::array<int, 2> answer{};
  ASSERT_EQ(::pipe2(ask.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(answer.data(), O_CLOEXEC), 0);
  const pid_t job = ::fork();
  if (job == 0) {
    ::dup2(ask[0], STDIN_FILENO);
    ::dup2(answer[1], STDOUT_FILENO);
    ::setenv("PYTHONPATH", (path + "/inner").c_str(), 1);
    ::execlp("cat", "cat", nullptr);
    ::_exit(1);
  }
  // Within execve(2) a process has its new file before it has an environment: one that answers has
  // both.
  char byte = 'x';
  ASSERT_EQ(::write(ask[1], &byte, 1), 1);
  ASSERT_EQ(::read(answer[0], &byte, 1), 1);
  make_another();
  EXPECT_TRUE(std::filesystem::exists(path));
  ::close(ask[1]);
  ::waitpid(job, nullptr, 0);
  make_another();
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace dlprobe
