#include "lib/os/file_system.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::UnorderedElementsAre;

class RecordedRoot : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("machine/proc/42/stat", "stat of 42");
    folder_.write("machine/proc/42/fd/0", "");
    folder_.write("machine/dev/shm/segment", "12345");
    folder_.write("secret", "outside");
    std::filesystem::create_symlink("/", folder_ / "machine/proc/42/root");
    std::filesystem::create_symlink("../../../../secret", folder_ / "machine/proc/42/up");
    std::filesystem::create_symlink(folder_ / "secret", folder_ / "machine/proc/42/absolute");
    root_ = must(open_root(folder_ / "machine"));
  }
  TemporaryFolder folder_;
  std::shared_ptr<const Directory> root_;
};

TEST_F(RecordedRoot, NoLinkLeadsOutOfIt) {
  EXPECT_FALSE(root_->read("proc/42/up"));
  EXPECT_FALSE(root_->read("proc/42/absolute"));
  EXPECT_FALSE(root_->read("../secret"));
  EXPECT_FALSE(root_->stat("proc/42/up"));
  EXPECT_FALSE(root_->keep_file("proc/42/absolute"));
}

TEST_F(RecordedRoot, AnAbsoluteLinkStaysInside) {
  EXPECT_EQ(must(root_->stat("proc/42/root/dev/shm/segment")).size_bytes, 5U);
  EXPECT_EQ(root_->read_link("proc/42/root").value_or(""), "/");
  EXPECT_EQ(root_->read("/proc/42/stat").value_or(""), "stat of 42");
  EXPECT_TRUE(S_ISLNK(root_->stat_link("proc/42/root")->mode));
}

TEST_F(RecordedRoot, ListsAndOpensFolders) {
  EXPECT_THAT(must(root_->list("proc/42")),
              UnorderedElementsAre("stat", "fd", "root", "up", "absolute"));
  const auto process = must(root_->open_directory("proc/42"));
  EXPECT_EQ(process->path(), "/proc/42");
  EXPECT_EQ(process->read("stat").value_or(""), "stat of 42");
}

TEST_F(RecordedRoot, DoesNotPassTheHostsUseForItsOwn) {
  const auto use = root_->mount_use("dev/shm");
  ASSERT_FALSE(use);
  EXPECT_EQ(use.error().code, ErrorCode::kUnsupported);
}

TEST_F(RecordedRoot, CapsWhatItReads) {
  const auto text = root_->read("proc/42/stat", 4);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kMalformed);
}

TEST_F(RecordedRoot, AFifoDoesNotBlock) {
  ASSERT_EQ(::mkfifo((folder_ / "machine/proc/42/fifo").c_str(), 0600), 0);
  EXPECT_EQ(root_->read("proc/42/fifo").value_or("x"), "");
}

TEST_F(RecordedRoot, ErrorsNameThePathAndTheErrno) {
  const auto text = root_->read("proc/42/none");
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(to_string(text.error()), "open /proc/42/none: No such file or directory (ENOENT)");
}

TEST(LiveRoot, AKeptFileOfAReapedProcessSaysVanished) {
  const auto root = must(open_root("/"));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(pipe[1]);
    _exit(::read(pipe[0], &byte, 1) == 0 ? 0 : 1);
  }
  const auto stat = must(root->keep_file("proc/" + std::to_string(child) + "/stat"));
  std::array<char, 1024> buffer{};
  EXPECT_TRUE(stat->read(buffer));
  ::close(pipe[0]);
  ::close(pipe[1]);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  const auto gone = stat->read(buffer);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kVanished);
}

TEST(LiveRoot, NoNameLeadsOutOfTheRootOfAnother) {
  const TemporaryFolder folder;
  folder.write("secret", "outside");
  folder.write("root/inside", "text");
  std::filesystem::create_symlink(folder / "secret", folder / "root/absolute");
  std::filesystem::create_symlink("/inside", folder / "root/link");
  const auto root = must(open_root("/"));
  const auto other = must(root->open_as_root(folder / "root"));
  EXPECT_EQ(other->read("/link").value_or(""), "text");
  EXPECT_FALSE(other->read("absolute"));
  EXPECT_FALSE(other->read("../secret"));
  EXPECT_FALSE(other->stat("absolute"));
}

TEST(LiveRoot, SaysHowFullAMountIs) {
  EXPECT_EQ(must(must(open_root("/"))->mount_use("proc")).type_magic, 0x9fa0U);  // PROC_SUPER_MAGIC
}

}  // namespace
}  // namespace dlprobe
