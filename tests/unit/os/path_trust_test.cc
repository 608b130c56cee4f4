#include "lib/os/path_trust.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "lib/os/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

constexpr uid_t kStrangerUid = 12345;
constexpr uint64_t kLimit = 1000;

/// A file that is its owner's alone, in a folder that goes with the test.
class TrustedFile : public testing::Test {
 protected:
  TrustedFile() {
    folder_.write("dlprobe.toml", "ours");
    ::chmod((folder_ / "dlprobe.toml").c_str(), 0644);
  }
  Expected<std::string> text_at(const std::string& name) const {
    DLP_TRY(const UniqueFd found, find_trusted_file(folder_ / name));
    return read_trusted_file(found, name, kLimit);
  }
  std::string refusal_of(const std::string& name) const {
    const auto text = text_at(name);
    if (text) return "none";
    return text.error().code == ErrorCode::kInvalid ? text.error().context
                                                    : to_string(text.error());
  }
  void give_away(const std::string& name) const {
    ASSERT_EQ(::lchown((folder_ / name).c_str(), kStrangerUid, kStrangerUid), 0);
  }

  TemporaryFolder folder_;
};

class TrustedFileOfTwoUsers : public TrustedFile {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to give files to somebody else: run as root";
  }
};

TEST_F(TrustedFile, OfOnesOwnIsRead) {
  EXPECT_EQ(text_at("dlprobe.toml"), "ours");
  EXPECT_EQ(text_at("no.toml").error().code, ErrorCode::kNotFound);
}

TEST_F(TrustedFile, ThatOthersMayWriteIsRefused) {
  ::chmod((folder_ / "dlprobe.toml").c_str(), 0664);
  EXPECT_EQ(refusal_of("dlprobe.toml"), "its group may write to it");
  ::chmod((folder_ / "dlprobe.toml").c_str(), 0646);
  EXPECT_EQ(refusal_of("dlprobe.toml"), "everybody may write to it");
}

TEST_F(TrustedFile, NotARegularFileIsRefusedAndNotOpened) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refusal_of("pipe"), "it is not a regular file");
  std::filesystem::create_symlink("/dev/null", folder_ / "link");
  EXPECT_EQ(refusal_of("link"), "it leads to /dev/null: it is not a regular file");
}

TEST_F(TrustedFile, ALinkOfOnesOwnIsFollowed) {
  std::filesystem::create_symlink("dlprobe.toml", folder_ / "second");
  std::filesystem::create_symlink(folder_ / "second", folder_ / "first");
  EXPECT_EQ(text_at("first"), "ours");
  std::filesystem::create_symlink("circle", folder_ / "circle");
  EXPECT_FALSE(text_at("circle"));
}

TEST_F(TrustedFileOfTwoUsers, AFileOfSomebodyElseIsRefused) {
  give_away("dlprobe.toml");
  EXPECT_EQ(refusal_of("dlprobe.toml"), "it belongs to uid 12345, and dlprobe runs as uid 0");
}

TEST_F(TrustedFileOfTwoUsers, ALinkOfSomebodyElseIsRefused) {
  std::filesystem::create_symlink("dlprobe.toml", folder_ / "link");
  give_away("link");
  EXPECT_EQ(refusal_of("link"), "it belongs to uid 12345, and dlprobe runs as uid 0");
}

TEST_F(TrustedFileOfTwoUsers, OurFileInAFolderOfSomebodyElseIsRefused) {
  folder_.write("theirs/dlprobe.toml", "ours");
  give_away("theirs");
  EXPECT_EQ(refusal_of("theirs/dlprobe.toml"),
            "its folder belongs to uid 12345, and dlprobe runs as uid 0");
  std::filesystem::create_symlink("theirs/dlprobe.toml", folder_ / "link");
  EXPECT_NE(refusal_of("link").find("its folder belongs to uid 12345"), std::string::npos);
}

// Somebody who may write to the folder swaps a link to our own file with a file of theirs: the one
// is never judged and the other read.
TEST_F(TrustedFileOfTwoUsers, WhatIsSwappedMeanwhileIsNeverObeyed) {
  folder_.write("other", "theirs");
  give_away("other");
  const std::string one = folder_ / "dlprobe.toml";
  const std::string two = folder_ / "other";
  std::atomic<bool> is_over = false;
  std::jthread swapping([&] {
    while (!is_over)
      ::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, two.c_str(), RENAME_EXCHANGE);
  });
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto text = text_at("dlprobe.toml");
    if (!text) continue;
    ++read;
    EXPECT_EQ(*text, "ours");
  }
  is_over = true;
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace dlprobe
