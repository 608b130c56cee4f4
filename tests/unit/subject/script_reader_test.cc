#include "lib/subject/script_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/subject/python_shim/sources.h"
#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

/// A folder whose "python3" is a shell script.
class ScriptReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto live = live_machine();
    ASSERT_TRUE(live.has_value());
    machine = *live;
  }

  std::string python(const std::string& text) const {
    folder.write("python3", text);
    EXPECT_EQ(::chmod((folder / "python3").c_str(), 0755), 0);
    return folder / "python3";
  }

  std::string error_of(const std::string& interpreter_script) const {
    const auto events = read_script({python(interpreter_script), "train.py"}, machine);
    return events ? "" : to_string(events.error());
  }

  TemporaryFolder folder;
  Machine machine;
};

TEST_F(ScriptReaderTest, TheInterpreterIsAskedInIsolationAndItsEventsAreTheAnswer) {
  const std::string path = python(R"(#!/bin/sh
echo a warning
echo '{"kind": "read", "at": 0, "pid": 0, "start_ticks": 0, "file": "'"$1 $2 $3 $4 $5 $6 $8 $9"'"}'
echo '{"kind": "foreseen", "at": 0, "pid": 0, "start_ticks": 0, "cause": "daemonic", "line": 3}'
)");
  const auto events = read_script({"env", "A=b", path, "-u", "train.py", "--epochs"}, machine);
  ASSERT_TRUE(events.has_value()) << to_string(events.error());
  ASSERT_EQ(events->size(), 2);
  EXPECT_EQ(events->front().kind, StartEventKind::kRead);
  EXPECT_EQ(events->front().file, "-I -S -B -W ignore -c script train.py");
  EXPECT_GT(events->front().at, 0);
  EXPECT_EQ(events->back().cause, StartRefusal::kDaemonic);
  EXPECT_EQ(events->back().line, 3);
}

TEST_F(ScriptReaderTest, WhatIsNoAnswerIsSaid) {
  EXPECT_THAT(error_of("#!/bin/sh\n"),
              HasSubstr("could not read the program; it printed: nothing"));
  EXPECT_THAT(error_of("#!/bin/sh\nprintf 'no \\033[31m way\\n'\n"),
              HasSubstr(R"(no \x1b[31m way)"));
  EXPECT_THAT(error_of(R"(#!/bin/sh
echo '{"kind": "hook-failed", "at": 0, "pid": 0, "start_ticks": 0, "file": "t.py",' \
  '"message": ": No such file"}'
)"),
              HasSubstr("t.py: No such file"));
  EXPECT_THAT(error_of("#!/bin/sh\necho '{['\n"), HasSubstr("it printed: {["));
}

TEST_F(ScriptReaderTest, AnInterpreterThatIsNotThereIsNotFound) {
  const auto events = read_script({folder / "python3.99", "train.py"}, machine);
  ASSERT_FALSE(events.has_value());
  EXPECT_EQ(events.error().code, ErrorCode::kNotFound);
}

TEST(ReadScriptSource, ItFitsIntoOneArgument) {
  constexpr size_t kMaxArgStrlen = 128 * 1024;
  EXPECT_LT(read_script_source().size(), kMaxArgStrlen);
  EXPECT_THAT(std::string(read_script_source()), HasSubstr("class Program:"));
}

}  // namespace
}  // namespace dlprobe
