#include "lib/subject/crash_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/must.h"

namespace dlprobe {
namespace {

constexpr const char* kWho = "123 456\n";
const std::string kAbort =
    "Fatal Python error: Aborted\n\n"
    "Current thread 0x00007f189927c154 (most recent call first):\n"
    "  File \"/usr/lib/python3.11/site-packages/numpy/core.py\", line 5 in dot\n"
    "  File \"/job/pack.py\", line 4 in Packer.pack\n"
    "  File \"/usr/lib/python3.11/multiprocessing/process.py\", line 108 in run\n";

TEST(CrashText, TellsTheUsersLine) {
  const auto event =
      must(parse_crash(kWho + kAbort + "\nExtension modules: numpy.core (total: 1)\n"));
  EXPECT_EQ(event.kind, StartEventKind::kCrashed);
  EXPECT_EQ(event.process, (ProcessKey{.pid = 123, .start_ticks = 456}));
  EXPECT_EQ(event.message, "Aborted");
  EXPECT_EQ(event.file, "/job/pack.py");
  EXPECT_EQ(event.line, 4);
  EXPECT_EQ(event.function, "Packer.pack");
  EXPECT_EQ(event.raised_in, "/usr/lib/python3.11/site-packages/numpy/core.py:5 dot");
  EXPECT_EQ(event.count, 3);
  EXPECT_EQ(event.type, "");
}

TEST(CrashText, AProcessThatLivesSaysNothing) {
  EXPECT_FALSE(parse_crash(""));
  EXPECT_FALSE(parse_crash("12"));
  EXPECT_FALSE(parse_crash(kWho));
  EXPECT_FALSE(parse_crash(kAbort)) << "nobody says whose it is";
  EXPECT_FALSE(parse_crash("x y\n" + kAbort));
}

TEST(CrashText, AThreadThatRunsNoPythonCrashedElsewhere) {
  const auto event =
      must(parse_crash(kWho + std::string("Fatal Python error: Segmentation fault\n\n"
                                          "Thread 0x00007f1 (most recent call first):\n"
                                          "  File \"/job/reader.py\", line 9 in wait\n\n"
                                          "Thread 0x00007f0 (most recent call first):\n"
                                          "  File \"/job/train.py\", line 7 in main\n")));
  EXPECT_EQ(event.type, "elsewhere");
  EXPECT_EQ(event.file, "/job/train.py");
}

TEST(CrashText, OfTooManyThreadsTheOneThatCrashedMayBeLeftOut) {
  const std::string others =
      "Thread 0x00007f1 (most recent call first):\n"
      "  File \"/job/reader.py\", line 9 in wait\n\n...\n";
  const auto left_out =
      parse_crash(kWho + std::string("Fatal Python error: Segmentation fault\n\n") + others);
  ASSERT_TRUE(left_out);
  EXPECT_EQ(left_out->file, "");
  EXPECT_EQ(left_out->type, "");
  EXPECT_EQ(must(parse_crash(kWho + kAbort + "\n" + others)).file, "/job/pack.py");
}

TEST(CrashText, OfSeveralThreadsTheOneThatCrashed) {
  const auto event =
      parse_crash(kWho + std::string("Fatal Python error: Segmentation fault\n\n"
                                     "Thread 0x00007f1 (most recent call first):\n"
                                     "  File \"/job/reader.py\", line 9 in wait\n\n"
                                     "Current thread 0x00007f2 [loader] (most recent call first):\n"
                                     "  File \"/job/data.py\", line 3 in load\n\n"
                                     "Thread 0x00007f0 (most recent call first):\n"
                                     "  File \"/job/train.py\", line 7 in main\n"));
  ASSERT_TRUE(event);
  EXPECT_EQ(event->file, "/job/data.py");
  EXPECT_EQ(event->count, 1);
}

TEST(CrashText, AFunctionThatFillsTheStackCallsItself) {
  std::string text = kWho;
  text +=
      "Fatal Python error: Segmentation fault\n\n"
      "Current thread 0x00007f2 (most recent call first):\n";
  for (int i = 0; i < 100; ++i)
    text += i % 2 == 0 ? "  File \"/job/tree.py\", line 6 in __len__\n"
                       : "  File \"/job/tree.py\", line 9 in size\n";
  EXPECT_EQ(parse_crash(text + "  ...\n")->type, "recursion");
  const std::string shorter = text.substr(0, text.size() - 40);
  EXPECT_EQ(parse_crash(shorter)->type, "");
}

}  // namespace
}  // namespace dlprobe
