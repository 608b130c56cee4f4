#include "lib/collect/tree/log_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "lib/model/log_text.h"
#include "lib/os/atomic_file.h"
#include "tests/support/record_list.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

constexpr std::string_view kKnown =
    "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
    "shared "
    "memory (shm).";

class LogWatchTest : public testing::Test {
 protected:
  void print(const std::string& text) { ASSERT_TRUE(write_all(log_.get(), text, "log")); }
  std::vector<Event> read() {
    records_.clear();
    watch_.read(records_, 7);
    return records_.all<Event>();
  }

  TemporaryFolder folder_;
  UniqueFd log_{::open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600)};
  LogWatch watch_{*GrowingFile::behind(log_.get())};
  RecordList records_;
};

TEST_F(LogWatchTest, KeepsTheLinesThatAreKnown) {
  print("epoch 1\n" + std::string(kKnown.substr(0, 20)));
  EXPECT_TRUE(read().empty()) << "the line has not ended";
  print(std::string(kKnown.substr(20)) + "\nepoch 2\n");
  const auto events = read();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, as_text(kKnown));
  EXPECT_EQ(events[0].kind, kLogLine);
  EXPECT_EQ(events[0].at, 7);
  EXPECT_TRUE(read().empty());
}

TEST_F(LogWatchTest, KeepsAFewOfThemAndNoLongOnes) {
  for (int i = 0; i < 100; ++i)
    print(std::string(kKnown) + std::string(10'000, 'x') + "\n");
  const auto events = read();
  EXPECT_EQ(events.size(), 50U);
  EXPECT_EQ(events[0].text.plain().size(), 300U);
}

}  // namespace
}  // namespace dlprobe
