#include "lib/os/atomic_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

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

TEST(AtomicFile, ReplacesALinkAndDoesNotFollowIt) {
  const TemporaryFolder folder;
  folder.write("victim", "precious");
  std::filesystem::create_symlink("victim", folder / "report");
  ASSERT_TRUE(write_file_atomically(folder / "report", "new"));
  EXPECT_EQ(folder.text_of("victim"), "precious");
  EXPECT_FALSE(std::filesystem::is_symlink(folder / "report"));
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
  auto file = AppendFile::create(folder / "recording");
  ASSERT_TRUE(file) << to_string(file.error());
  ASSERT_TRUE(file->append("first"));
  {
    const SmallFilesOnly small(4096);
    EXPECT_FALSE(file->append(std::string(10000, 'x')));
  }
  ASSERT_TRUE(file->append("second"));
  EXPECT_EQ(folder.text_of("recording"), "firstsecond");
  EXPECT_EQ(mode_of(folder / "recording"), 0600U);
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
