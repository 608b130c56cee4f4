#include "lib/os/atomic_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <thread>

#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

/// Files of this process may not grow beyond `bytes` as long as it lives: a full disk, nearly.
class SmallFilesOnly {
 public:
  explicit SmallFilesOnly(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = old_.rlim_max};
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  SmallFilesOnly(const SmallFilesOnly&) = delete;
  SmallFilesOnly& operator=(const SmallFilesOnly&) = delete;
  ~SmallFilesOnly() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

mode_t mode_of(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

TEST(AtomicFile, WritesWholeAndForTheOwnerAlone) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "report", "old"));
  ASSERT_TRUE(write_file_atomically(folder / "report", "new"));
  EXPECT_EQ(folder.text_of("report"), "new");
  EXPECT_EQ(mode_of(folder / "report"), 0600U);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(AtomicFile, AFullDiskLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "report", "old"));
  {
    const SmallFilesOnly small(4096);
    EXPECT_FALSE(write_file_atomically(folder / "report", std::string(10000, 'x')));
  }
  EXPECT_EQ(folder.text_of("report"), "old");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(AtomicFile, AWriterThatIsKilledLeavesTheOldFileAndNothingElse) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "report", "old"));
  const pid_t writer = ::fork();
  if (writer == 0) {
    const rlimit small{.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::signal(SIGXFSZ, SIG_DFL);  // which kills it in the middle
    (void)write_file_atomically(folder / "report", std::string(10000, 'x'));
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(writer, &status, 0), writer);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(folder.text_of("report"), "old");
  EXPECT_EQ(folder.entries(), 1U);
}

constexpr uid_t kSomebodyElse = 12345;

/// Gives the file itself, link or not, to somebody else.
void give_away(const std::string& path) {
  ASSERT_EQ(::lchown(path.c_str(), kSomebodyElse, kSomebodyElse), 0);
}

#define NEEDS_ROOT_TO_GIVE_FILES_AWAY() \
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files to somebody else: run as root"

TEST(AtomicFile, FollowsALinkOfOnesOwn) {
  const TemporaryFolder folder;
  folder.write("below/target", "old");
  std::filesystem::create_symlink("below/second", folder / "report");
  std::filesystem::create_symlink("target", folder / "below/second");
  ASSERT_TRUE(check_writable(folder / "report"));
  ASSERT_TRUE(write_file_atomically(folder / "report", "new"));
  EXPECT_EQ(folder.text_of("below/target"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "report"));
  std::filesystem::remove(folder / "below/target");
  ASSERT_TRUE(write_file_atomically(folder / "report", "again"));
  EXPECT_EQ(folder.text_of("below/target"), "again");
}

TEST(AtomicFile, RefusesACircleOfLinks) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("report", folder / "report");
  EXPECT_FALSE(write_file_atomically(folder / "report", "new"));
}

TEST(AtomicFile, ReplacesALinkOfSomebodyElse) {
  NEEDS_ROOT_TO_GIVE_FILES_AWAY();
  const TemporaryFolder folder;
  folder.write("victim", "precious");
  for (const std::string target : {"victim", "/dev/full", "/dev/loop0"}) {
    std::filesystem::create_symlink(target, folder / "report");
    give_away(folder / "report");
    EXPECT_TRUE(write_file_atomically(folder / "report", "new")) << target;
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "report"));
    EXPECT_EQ(folder.text_of("report"), "new");
    std::filesystem::remove(folder / "report");
  }
  EXPECT_EQ(folder.text_of("victim"), "precious");
}

TEST(AtomicFile, APipeThatNobodyReadsIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto unread = write_file_atomically(folder / "pipe", "text");
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().os_errno, ENXIO);
  const UniqueFd reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(write_file_atomically(folder / "pipe", "text"));
  std::string text(4, ' ');
  EXPECT_EQ(::read(reader.get(), text.data(), text.size()), 4);
  EXPECT_EQ(text, "text");
}

TEST(AtomicFile, MoreThanAPipeHoldsWaitsForItsReader) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const UniqueFd reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_EQ(::fcntl(reader.get(), F_SETFL, 0), 0);
  std::jthread reading([&reader] {
    // Before a writer is there a read would say that the pipe has ended.
    pollfd wanted{.fd = reader.get(), .events = POLLIN, .revents = 0};
    ::poll(&wanted, 1, -1);
    std::array<char, 4096> buffer{};
    while (::read(reader.get(), buffer.data(), buffer.size()) > 0) {
    }
  });
  EXPECT_TRUE(write_file_atomically(folder / "pipe", std::string(1 << 20, 'x')));
}

TEST(AtomicFile, RefusesAPipeOfSomebodyElse) {
  NEEDS_ROOT_TO_GIVE_FILES_AWAY();
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0666), 0);
  give_away(folder / "pipe");
  const UniqueFd reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  for (const Status& refused :
       {check_writable(folder / "pipe"), write_file_atomically(folder / "pipe", "text")}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
    EXPECT_NE(refused.error().context.find("belongs to uid 12345"), std::string::npos);
  }
  char byte = 0;
  EXPECT_EQ(::read(reader.get(), &byte, 1), 0);
}

TEST(AtomicFile, RefusesABlockDevice) {
  const TemporaryFolder folder;
  if (::mknod((folder / "disk").c_str(), S_IFBLK | 0600, makedev(7, 250)) != 0)
    GTEST_SKIP() << "needs the right to make devices: run as root";
  std::filesystem::create_symlink("disk", folder / "report");
  for (const char* name : {"disk", "report"}) {
    const auto refused = write_file_atomically(folder / name, "text");
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().context.find("it is a block device"), std::string::npos);
  }
}

TEST(AtomicFile, WritesToAnOpenFileThroughProc) {
  const TemporaryFolder folder;
  folder.write("open", "before ");
  const UniqueFd fd(::open((folder / "open").c_str(), O_WRONLY | O_CLOEXEC));
  std::filesystem::create_symlink("/proc/self/fd/" + std::to_string(fd.get()), folder / "stdout");
  ASSERT_TRUE(write_file_atomically(folder / "stdout", "after"));
  EXPECT_EQ(folder.text_of("open"), "before after");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "stdout"));
}

TEST(AtomicFile, WritesToADeviceDirectly) {
  EXPECT_TRUE(write_file_atomically("/dev/null", "text"));
  EXPECT_FALSE(write_file_atomically("/dev/full", "text"));
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(AtomicFile, SaysWhichFolderIsMissing) {
  const auto status = write_file_atomically("/nonexistent/report", "text");
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
}

TEST(AppendFile, TakesBackWhatDidNotFit) {
  const TemporaryFolder folder;
  auto file = must(AppendFile::create(folder / "recording"));
  ASSERT_TRUE(file.append("first"));
  {
    const SmallFilesOnly small(4096);
    EXPECT_FALSE(file.append(std::string(10000, 'x')));
  }
  ASSERT_TRUE(file.append("second"));
  EXPECT_EQ(folder.text_of("recording"), "firstsecond");
  EXPECT_EQ(mode_of(folder / "recording"), 0600U);
}

TEST(AppendFile, LeavesAFileOfSomebodyElseAsItIs) {
  NEEDS_ROOT_TO_GIVE_FILES_AWAY();
  const TemporaryFolder folder;
  folder.write("recording", "theirs");
  give_away(folder / "recording");
  const auto refused = AppendFile::create(folder / "recording");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalid);
  EXPECT_NE(refused.error().context.find("belongs to uid 12345"), std::string::npos);
  EXPECT_EQ(folder.text_of("recording"), "theirs");
}

TEST(AppendFile, BeginsAnOldFileAnewAndForTheOwnerAlone) {
  const TemporaryFolder folder;
  folder.write("recording", "something older and longer");
  ASSERT_EQ(::chmod((folder / "recording").c_str(), 0644), 0);
  auto file = must(AppendFile::create(folder / "recording"));
  ASSERT_TRUE(file.append("new"));
  EXPECT_EQ(folder.text_of("recording"), "new");
  EXPECT_EQ(mode_of(folder / "recording"), 0600U);
}

TEST(AppendFile, GoesOnWithTheFileThatItRewrote) {
  const TemporaryFolder folder;
  auto file = AppendFile::create(folder / "recording");
  ASSERT_TRUE(file->append("first, second, "));
  ASSERT_TRUE(file->rewrite("both, "));
  EXPECT_EQ(file->size(), 6U);
  ASSERT_TRUE(file->append("third"));
  EXPECT_EQ(folder.text_of("recording"), "both, third");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(AppendFile, IsWrittenByOneProcessAlone) {
  const TemporaryFolder folder;
  const auto create_in_child = [&] {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(AppendFile::create(folder / "recording") ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0;
  };
  {
    auto file = AppendFile::create(folder / "recording");
    ASSERT_TRUE(file->append("first"));
    EXPECT_FALSE(create_in_child());
    EXPECT_EQ(folder.text_of("recording"), "first");
    ASSERT_TRUE(file->rewrite("again"));
    EXPECT_FALSE(create_in_child());
  }
  EXPECT_TRUE(create_in_child());
}

TEST(ReadWholeFile, ADeviceThatHasNothingToSayIsNotWaitedFor) {
  const UniqueFd log(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!log) GTEST_SKIP() << "needs the right to read /dev/kmsg: run as root";
  EXPECT_FALSE(read_whole_file("/dev/kmsg", uint64_t{1} << 30));
}

TEST(ReadWholeFile, ADeviceThatNeverEndsIsRefusedAtOnce) {
  EXPECT_THAT(read_whole_file("/dev/zero", uint64_t{1} << 40).error().context,
              testing::HasSubstr("it is a device"));
  EXPECT_EQ(read_whole_file("/dev/null", 1).value(), "");
}

TEST(AppendFile, RefusesALinkAndADevice) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("victim", folder / "recording");
  const auto link = AppendFile::create(folder / "recording");
  ASSERT_FALSE(link);
  EXPECT_EQ(link.error().code, ErrorCode::kInvalid);
  EXPECT_FALSE(AppendFile::create("/dev/null"));
}

}  // namespace
}  // namespace dlprobe
