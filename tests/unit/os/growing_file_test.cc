#include "lib/os/growing_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "lib/os/atomic_file.h"
#include "tests/support/must.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

TEST(GrowingFile, GivesWhatIsAppendedFromThenOn) {
  const TemporaryFolder folder;
  const UniqueFd log(::open((folder / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600));
  ASSERT_TRUE(write_all(log.get(), "before", "log"));
  auto file = must(GrowingFile::behind(log.get()));
  EXPECT_EQ(file.read_new(100), "");
  ASSERT_TRUE(write_all(log.get(), "one two", "log"));
  EXPECT_EQ(file.read_new(3), "one");
  EXPECT_EQ(file.read_new(100), " two");
  EXPECT_EQ(file.read_new(100), "");
  ASSERT_EQ(::ftruncate(log.get(), 0), 0);
  ASSERT_TRUE(write_all(log.get(), "anew", "log"));
  EXPECT_EQ(file.read_new(100), "anew");
}

TEST(GrowingFile, APipeIsNoFile) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  EXPECT_FALSE(GrowingFile::behind(write_end.get()));
  EXPECT_FALSE(GrowingFile::behind(-1));
}

}  // namespace
}  // namespace dlprobe
