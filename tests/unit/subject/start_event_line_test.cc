#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/subject/told_lines.h"
#include "tests/support/must.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StartEventLine, IsReadWhole) {
  const auto event = must(parse_start_event(
      R"({"cause":"unpicklable","message":"TypeError: no","method":"spawn","path":"dataset.fn",)"
      R"("type":"lambda","file":"/a/train.py","line":7,"function":"main","main":true,)"
      R"("kind":"refused","at":12,"pid":42,"start_ticks":99})"));
  EXPECT_EQ(event.kind, StartEventKind::kRefused);
  EXPECT_EQ(event.cause, StartRefusal::kUnpicklable);
  EXPECT_EQ(event.process, (ProcessKey{.pid = 42, .start_ticks = 99}));
  EXPECT_EQ(event.at, 12);
  EXPECT_EQ(event.path, "dataset.fn");
  EXPECT_EQ(event.line, 7);
  EXPECT_TRUE(event.is_main);
  EXPECT_FALSE(event.child_pid);
}

TEST(StartEventLine, ANumberThatItsPlaceCannotHoldIsNone) {
  const std::string head = R"({"kind":"started","start_ticks":99,)";
  EXPECT_TRUE(parse_start_event(head + R"("at":12,"pid":42})"));
  for (const std::string rest :
       {R"("at":1e308,"pid":42})", R"("at":12,"pid":-1e300})", R"("at":12,"pid":4294967297})",
        R"("at":18446744073709551615,"pid":42})", R"("at":true,"pid":42})",
        R"("at":12,"pid":42,"line":1e300})"}) {
    EXPECT_FALSE(parse_start_event(head + rest)) << rest;
  }
  const auto event =
      must(parse_start_event(head + R"("at":12,"pid":42,"child":4294967297,"bytes":-1})"));
  EXPECT_FALSE(event.child_pid);
  EXPECT_FALSE(event.bytes);
  EXPECT_FALSE(parse_progress_line(
      R"({"event":"done","at":1e99,"images":2,"seconds":3,"first_batch":4,"broken":0})"));
}

TEST(StartEventLine, AnExceptionHasItsChain) {
  const auto event = must(parse_start_event(
      R"({"kind":"failed","ended":"worker","message":"OSError: no","type":"OSError","error_number":24,"limit":64,)"
      R"("raised_in":"/lib/mmap.py:3 open","chain":["KeyError: 'a' at /a/train.py:7"],)"
      R"("at":12,"pid":42,"start_ticks":99})"));
  EXPECT_EQ(event.ended, Ended::kWorker);
  EXPECT_EQ(event.error_number, 24);
  EXPECT_EQ(event.limit, 64);
  EXPECT_EQ(event.raised_in, "/lib/mmap.py:3 open");
  EXPECT_EQ(event.chain, (std::vector<std::string>{"KeyError: 'a' at /a/train.py:7"}));
}

TEST(StartEventLine, ASecretIsMasked) {
  const auto event = must(parse_start_event(
      R"({"kind":"refused","message":"no https://me:hunter2@host/x","at":1,"pid":4,"start_ticks":9})"));
  EXPECT_THAT(event.message, Not(HasSubstr("hunter2")));
}

TEST(StartEventLine, ASecretInACommandLineIsMasked) {
  const auto event = must(parse_start_event(
      R"({"kind":"failed","ended":"process","path":"serve\u0000--token\u0000hunter2\u0000--port\u000080",)"
      R"("at":1,"pid":4,"start_ticks":9})"));
  EXPECT_THAT(event.path, testing::StartsWith("serve --token "));
  EXPECT_THAT(event.path, testing::EndsWith(" --port 80"));
  EXPECT_THAT(event.path, Not(HasSubstr("hunter2")));
}

TEST(StartEventLine, WhatIsNoneIsRefused) {
  for (const char* text : {"", "{", "[]", "null", R"({"kind":"started"})",
                           R"({"kind":1,"at":1,"pid":1,"start_ticks":1})",
                           R"({"kind":"started","at":"x","pid":1,"start_ticks":1})",
                           R"({"kind":"failed","at":1,"pid":1,"start_ticks":1,"ended":"job"})",
                           R"({"kind":"failed","at":1,"pid":1,"start_ticks":1,"chain":[1]})",
                           R"({"kind":"started","at":1,"pid":1,"start_ticks":1,"line":"7"})"}) {
    EXPECT_FALSE(parse_start_event(text)) << text;
  }
}

}  // namespace
}  // namespace dlprobe
