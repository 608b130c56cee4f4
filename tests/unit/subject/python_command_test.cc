#include "lib/subject/python_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

using Words = std::vector<std::string>;

PythonCommand parsed(const Words& words) {
  const auto command = parse_python_command(words);
  EXPECT_TRUE(command.has_value())
      << testing::PrintToString(words) << (command ? "" : to_string(command.error()));
  return command.value_or(PythonCommand());
}

// "script train.py": the kind, the name.
std::string program_of(const Words& words) {
  const PythonCommand command = parsed(words);
  return std::string(to_string(command.program)) + " " + command.name;
}

std::string error_of(const Words& words) {
  const auto command = parse_python_command(words);
  return command ? "" : to_string(command.error());
}

TEST(PythonCommand, TheProgramIsFoundAsCPythonFindsIt) {
  EXPECT_EQ(program_of({"python", "train.py"}), "script train.py");
  EXPECT_EQ(program_of({"/opt/python3.11", "-u", "-O", "my-train", "-c", "x"}), "script my-train");
  EXPECT_EQ(program_of({"python3", "-W", "ignore", "-Xdev", "-X", "utf8", "t.py"}), "script t.py");
  EXPECT_EQ(program_of({"python3", "-m", "pkg.mod", "--epochs", "1"}), "module pkg.mod");
  EXPECT_EQ(program_of({"python3", "-mpkg", "-m", "other"}), "module pkg");
  EXPECT_EQ(program_of({"python3", "-uc", "import os"}), "code import os");
  EXPECT_EQ(program_of({"python3", "-ucpass"}), "code pass");
  EXPECT_EQ(program_of({"python3", "-", "t.py"}), "stdin ");
  EXPECT_EQ(program_of({"python3", "--", "-odd.py"}), "script -odd.py");
  EXPECT_EQ(program_of({"python3", "--check-hash-based-pycs", "always", "t.py"}), "script t.py");
  EXPECT_EQ(program_of({"python3"}), "interactive ");
  EXPECT_EQ(program_of({"python3", "-iu"}), "interactive ");
  EXPECT_EQ(program_of({"python3", "-i", "t.py"}), "script t.py");
  EXPECT_EQ(program_of({"python3", "-VV", "t.py"}), "none ");
  EXPECT_EQ(program_of({"python3", "--version"}), "none ");
}

TEST(PythonCommand, OptionsThatKeepTheShimOutAreSeenInAnyCluster) {
  EXPECT_FALSE(parsed({"python3", "-u", "t.py", "-I", "-S"}).isolated);
  const PythonCommand isolated = parsed({"python3", "-uIB", "t.py"});
  EXPECT_TRUE(isolated.isolated);
  EXPECT_TRUE(isolated.ignores_environment);
  EXPECT_FALSE(isolated.no_site);
  EXPECT_TRUE(parsed({"python3", "-S", "t.py"}).no_site);
  EXPECT_TRUE(parsed({"python3", "-E", "t.py"}).ignores_environment);
  EXPECT_FALSE(parsed({"python3", "-E", "t.py"}).isolated);
  // The value of -X is no cluster of options.
  EXPECT_FALSE(parsed({"python3", "-XISE", "t.py"}).no_site);
}

TEST(PythonCommand, WrappersThatBecomeTheInterpreterAreSkipped) {
  const Words words = {"/usr/bin/env", "-u", "PYTHONPATH", "A=b=c", "B=", "python3.11", "t.py"};
  const PythonCommand command = parsed(words);
  EXPECT_EQ(command.interpreter, 5);
  EXPECT_EQ(command.name, "t.py");
  EXPECT_THAT(command.unsets, ElementsAre("PYTHONPATH"));
  EXPECT_THAT(command.assigns, ElementsAre(Pair("A", "b=c"), Pair("B", "")));
  EXPECT_FALSE(command.clears_environment);
  EXPECT_TRUE(parsed({"env", "-i", "A=b", "python", "t.py"}).clears_environment);
  EXPECT_EQ(parsed({"env", "-C", "/tmp", "python", "t.py"}).interpreter, 3);
  EXPECT_EQ(parsed({"nice", "-n", "5", "python", "t.py"}).interpreter, 3);
  EXPECT_EQ(parsed({"nice", "-n5", "env", "A=b", "python", "t.py"}).interpreter, 4);
  EXPECT_EQ(parsed({"timeout", "-k", "5s", "10m", "python", "t.py"}).interpreter, 4);
  EXPECT_EQ(parsed({"taskset", "-c", "0,1", "python", "t.py"}).interpreter, 3);
}

TEST(PythonCommand, ALaterWordOfEnvWins) {
  const PythonCommand command = parsed({"env", "-u", "A", "A=1", "A=2", "python", "t.py"});
  EXPECT_THAT(command.unsets, IsEmpty());
  EXPECT_THAT(command.assigns, ElementsAre(Pair("A", "2")));
}

TEST(PythonCommand, WhatIsNotPythonIsSaid) {
  EXPECT_THAT(error_of({"ls", "-l"}), HasSubstr("ls is not a Python interpreter"));
  EXPECT_THAT(error_of({"./train.py"}), HasSubstr("./train.py is not a Python interpreter"));
  EXPECT_THAT(error_of({"/usr/bin/torchrun", "train.py"}), HasSubstr("starts the interpreters"));
  EXPECT_THAT(error_of({"accelerate", "launch", "train.py"}), HasSubstr("python train.py"));
  EXPECT_THAT(error_of({"bash", "-c", "python t.py"}), HasSubstr("bash is not"));
  EXPECT_THAT(error_of({"env", "A=b"}), HasSubstr("no Python interpreter"));
  EXPECT_THAT(error_of({"nice", "-n"}), HasSubstr("no Python interpreter"));
  EXPECT_THAT(error_of({}), HasSubstr("no Python interpreter"));
}

TEST(PythonCommand, WhatTheInterpreterRefusesIsInvalid) {
  EXPECT_THAT(error_of({"python3", "-m"}), HasSubstr("-m has no value"));
  EXPECT_THAT(error_of({"python3", "-uc"}), HasSubstr("-c has no value"));
  EXPECT_THAT(error_of({"python3", "-Z", "t.py"}), HasSubstr("no option -Z"));
}

TEST(PythonCommand, AnInterpreterIsKnownByItsName) {
  for (const char* name : {"python", "python3", "python3.11", "/a/b/python3.13t", "python3.11-dbg",
                           "pypy3", "pypy", "python3.14td"})
    EXPECT_TRUE(is_python_name(name)) << name;
  for (const char* name :
       {"pythonw", "ipython", "python3-config", "python.exe", "bpython", "", "/"})
    EXPECT_FALSE(is_python_name(name)) << name;
}

}  // namespace
}  // namespace dlprobe
