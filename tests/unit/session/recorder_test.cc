#include "lib/session/recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

#include "tests/support/decode_recording.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

RecordingHeader header() {
  RecordingHeader header;
  header.recording_id = "0123456789abcdef0123456789abcdef";
  header.host.page_size = 4096;
  return header;
}

Event note(BootNs at) {
  return {.at = at, .kind = "note", .text = "something", .process = {}};
}

class RecorderTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = folder_ / "recorder_test.dlrec";
};

TEST_F(RecorderTest, TheFileHoldsWhatMemoryHolds) {
  auto opened = Recorder::open(header(), path_);
  ASSERT_TRUE(opened.has_value());
  const auto& recorder = *opened;
  recorder->add(RunBegin{.at = 1});
  recorder->add(note(2));
  recorder->add(RunEnd{.at = 3});
  const auto bytes = read_whole_file(path_, 1 << 20);
  ASSERT_TRUE(bytes.has_value());
  const auto recording = decode_recording(*bytes);
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->header, header());
  ASSERT_EQ(recording->runs.size(), 1U);
  EXPECT_EQ(recording->runs[0].events, recorder->recording().runs[0].events);
  EXPECT_FALSE(recording->truncated);
}

TEST_F(RecorderTest, AFileThatIsWrittenAnewHoldsTheNewestRecord) {
  auto opened = Recorder::open(header(), path_, 600);
  ASSERT_TRUE(opened.has_value());
  const auto& recorder = *opened;
  recorder->add(RunBegin{.at = 1});
  for (int i = 0; i < 100; ++i)
    recorder->add(note(i + 2));
  recorder->add(RunEnd{.at = 200});
  const auto recording = decode_recording(read_whole_file(path_, 1 << 20).value());
  ASSERT_TRUE(recording.has_value());
  EXPECT_EQ(recording->runs[0].events, recorder->recording().runs[0].events);
}

TEST_F(RecorderTest, WithoutAPathItStaysInMemory) {
  auto opened = Recorder::open(header(), "");
  ASSERT_TRUE(opened.has_value());
  const auto& recorder = *opened;
  recorder->add(RunBegin{.at = 1});
  EXPECT_EQ(recorder->recording().runs.size(), 1U);
  EXPECT_EQ(recorder->ended_early(), "");
}

TEST_F(RecorderTest, AFolderThatIsNotThereIsAnError) {
  const auto recorder = Recorder::open(header(), "/no/such/folder/x.dlrec");
  ASSERT_FALSE(recorder.has_value());
  EXPECT_THAT(to_string(recorder.error()), HasSubstr("/no/such/folder/x.dlrec"));
}

TEST_F(RecorderTest, AFullDiskEndsTheFileAndNotTheExamination) {
  auto opened = Recorder::open(header(), path_);
  ASSERT_TRUE(opened.has_value());
  const auto& recorder = *opened;
  recorder->add(RunBegin{.at = 1});
  // RLIMIT_FSIZE makes write(2) fail as a full disk does, on this process's files alone.
  auto* old_action = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit = {.rlim_cur = 600, .rlim_max = old_limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  for (int i = 0; i < 100; ++i)
    recorder->add(note(i + 2));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_action);

  const auto& run = recorder->recording().runs[0];
  EXPECT_EQ(run.events.size(), 100U);
  ASSERT_EQ(run.gaps.size(), 1U);
  EXPECT_THAT(run.gaps[0].what.plain(), HasSubstr(path_));
  const auto bytes = read_whole_file(path_, 1 << 20);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_TRUE(decode_recording(*bytes).has_value()) << "what was written is no longer readable";
}

TEST_F(RecorderTest, ADiskThatIsFullFromTheBeginningIsTold) {
  auto* old_action = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old_limit = {};
  ::getrlimit(RLIMIT_FSIZE, &old_limit);
  const rlimit limit = {.rlim_cur = 10, .rlim_max = old_limit.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &limit);
  auto opened = Recorder::open(header(), path_);
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_action);

  ASSERT_TRUE(opened.has_value()) << to_string(opened.error());
  const auto& recorder = *opened;
  recorder->add(RunBegin{.at = 1});
  recorder->add(note(2));
  const auto& run = recorder->recording().runs[0];
  EXPECT_EQ(run.events.size(), 1U);
  ASSERT_EQ(run.gaps.size(), 1U);
  EXPECT_THAT(run.gaps[0].what.plain(), HasSubstr(path_ + " ended early"));
  EXPECT_THAT(recorder->ended_early(), HasSubstr(path_));
}

}  // namespace
}  // namespace dlprobe
