#include "reports/document/frame_text.h"

#include <gtest/gtest.h>

namespace dlprobe {
namespace {

report::Frame python(const char* file) {
  return {.kind = report::FrameKind::kPython, .function = "f", .file = file, .line = 7};
}

TEST(FrameText, PythonFilesAreShownFromTheirPackageOn) {
  EXPECT_EQ(frame_text(python("/opt/v/lib/python3.11/site-packages/torch/a.py")),
            "f (torch/a.py:7)");
  EXPECT_EQ(frame_text(python("/usr/lib/python3/dist-packages/numpy/b.py")), "f (numpy/b.py:7)");
  EXPECT_EQ(frame_text(python("/usr/lib/python3.11/multiprocessing/queues.py")),
            "f (multiprocessing/queues.py:7)");
  EXPECT_EQ(frame_text(python("/srv/job/train.py")), "f (/srv/job/train.py:7)");
  EXPECT_EQ(frame_text(python("/usr/lib/python3.11/x.py"), /*whole=*/true),
            "f (/usr/lib/python3.11/x.py:7)");
  EXPECT_EQ(place_text(python("/srv/job/train.py")), "/srv/job/train.py:7 in f");
}

TEST(FrameText, NativeFramesHaveTheirModuleAndWithoutANameTheirOffset) {
  report::Frame frame = {.kind = report::FrameKind::kNative,
                         .function = "poll",
                         .file = "/lib/libc.so.6",
                         .offset = 32};
  EXPECT_EQ(frame_text(frame), "poll (libc.so.6)");
  EXPECT_EQ(frame_text(frame, true), "poll (/lib/libc.so.6+0x20)");
  frame.name = "poll it";
  EXPECT_EQ(frame_text(frame), "poll it (libc.so.6)");
  frame.function = "";
  frame.name = "";
  EXPECT_EQ(frame_text(frame), "?? (libc.so.6+0x20)");
  frame.file = "";
  EXPECT_EQ(frame_text(frame), "?? (0x20)");
}

TEST(FrameText, WhatIsNoFrameIsNoText) {
  EXPECT_EQ(frame_text({}), "");
  EXPECT_EQ(place_text({}), "");
}

TEST(FrameText, AlikeButForNumbers) {
  EXPECT_EQ(without_numbers("mutex 0x7f6b18000ba0, held by thread 30432"),
            without_numbers("mutex 0x7fee, held by thread 3"));
  EXPECT_NE(without_numbers("mutex 0x7f, held by thread 3"), without_numbers("mutex 0x7f"));
  EXPECT_EQ(without_numbers("face"), "face");
}

}  // namespace
}  // namespace dlprobe
