#include "lib/subject/script_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A folder whose "python3" is a shell script.
class ScriptReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto live = live_machine();
    ASSERT_TRUE(live.has_value());
    reader.machine = *live;
    reader.path_variable = folder.path();
  }

  std::string program(const std::string& name, const std::string& text) const {
    folder.write(name, text);
    EXPECT_EQ(::chmod((folder / name).c_str(), 0755), 0);
    return folder / name;
  }

  std::string error_of(const std::string& interpreter_script) const {
    const auto reading = reader.read({program("python3", interpreter_script), "train.py"});
    return reading ? "" : to_string(reading.error());
  }

  TemporaryFolder folder;
  ScriptReader reader;
};

TEST_F(ScriptReaderTest, TheInterpreterIsAskedInIsolationAndItsLastLineIsTheAnswer) {
  const std::string python = program("python3", R"(#!/bin/sh
echo a warning
echo '{"program": "script", "python": "3.11.2", "file": "'"$1 $2 $3 $4 $5 $6 $8 $9"'"}'
)");
  const auto reading = reader.read({"env", "A=b", python, "-u", "train.py", "--epochs"});
  ASSERT_TRUE(reading.has_value()) << to_string(reading.error());
  EXPECT_EQ(reading->file, "-I -S -B -W ignore -c script train.py");
  EXPECT_EQ(reading->python, "3.11.2");
  EXPECT_GT(reading->at, 0);
}

TEST_F(ScriptReaderTest, WhatIsNoAnswerIsSaid) {
  EXPECT_THAT(error_of("#!/bin/sh\n"), HasSubstr("did not read the program; it said: nothing"));
  EXPECT_THAT(error_of("#!/bin/sh\nprintf 'no \\033[31m way\\n'\n"),
              HasSubstr(R"(no \x1b[31m way)"));
  EXPECT_THAT(error_of("#!/bin/sh\necho 'Unknown option: -I'\n"),
              HasSubstr("older than Python 3.6"));
  EXPECT_THAT(error_of("#!/bin/sh\necho '{\"python\": \"3.5.2\"}'\n"),
              HasSubstr("is Python 3.5.2; programs of 3.6"));
  EXPECT_THAT(error_of("#!/bin/sh\necho '{\"file\": \"t.py\", \"error\": \"No such file\"}'\n"),
              HasSubstr("t.py: No such file"));
  EXPECT_THAT(error_of("#!/bin/sh\necho '{\"program\": 7}'\n"), HasSubstr("makes no sense"));
  EXPECT_THAT(error_of("#!/bin/sh\necho '{['\n"), HasSubstr("makes no sense"));
}

TEST_F(ScriptReaderTest, AnInterpreterThatDoesNotAnswerIsEnded) {
  reader.limit = std::chrono::milliseconds(50);
  EXPECT_THAT(error_of("#!/bin/sh\ntail -f /dev/null & wait\n"),
              HasSubstr("did not read the program within"));
  reader.limit = std::chrono::seconds(60);
  // Nor is one that never stops talking listened to for ever.
  EXPECT_THAT(error_of("#!/bin/sh\nexec cat /dev/zero\n"), HasSubstr("did not read the program"));
}

TEST_F(ScriptReaderTest, AnInterpreterThatIsNotThereIsNotFound) {
  const auto reading = reader.read({folder / "python3.99", "train.py"});
  ASSERT_FALSE(reading.has_value());
  EXPECT_EQ(reading.error().code, ErrorCode::kNotFound);
}

TEST_F(ScriptReaderTest, AScriptIsPrecededByItsShebang) {
  const std::string script = program("train", "#!/usr/bin/env python3\nimport os\n");
  EXPECT_THAT(reader.with_interpreter({script, "-x"}),
              ElementsAre("/usr/bin/env", "python3", script, "-x"));
  EXPECT_THAT(reader.with_interpreter({"train"}), ElementsAre("/usr/bin/env", "python3", script));
  // What is not Python stays what it is.
  const std::string shell = program("job", "#!/bin/sh\npython3 train.py\n");
  EXPECT_THAT(reader.with_interpreter({shell}), ElementsAre(shell));
  EXPECT_THAT(reader.with_interpreter({"nowhere"}), ElementsAre("nowhere"));
  EXPECT_THAT(reader.with_interpreter({"python3", "train"}), ElementsAre("python3", "train"));
  // Its text would be the launcher's own.
  program("torchrun", "#!/usr/bin/env python3\n");
  EXPECT_THAT(reader.with_interpreter({"torchrun", "t.py"}), ElementsAre("torchrun", "t.py"));
}

TEST(ScriptReaderSource, EachTextFitsIntoOneArgument) {
  constexpr size_t kMaxArgStrlen = 128 * 1024;
  const ScriptReaderSource source = script_reader_source();
  for (const std::string_view text : {source.read, source.values, source.follow})
    EXPECT_LT(text.size(), kMaxArgStrlen * 3 / 4);
  EXPECT_THAT(std::string(source.read), HasSubstr("def read_program("));
  EXPECT_THAT(std::string(source.values), HasSubstr("class Loader:"));
  EXPECT_THAT(std::string(source.follow), HasSubstr("def follow_program("));
}

}  // namespace
}  // namespace dlprobe
