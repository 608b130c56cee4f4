#include "lib/stacks/python/merge_stacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kEval = "_PyEval_EvalFrameDefault";

std::vector<StackFrame> native(const std::vector<std::string>& functions) {
  std::vector<StackFrame> frames;
  for (const std::string& function : functions)
    frames.push_back({.function = function, .file = "/lib/x.so"});
  return frames;
}

PythonFrame python(const std::string& function, bool is_entry) {
  return {.file = "a.py", .function = function, .line = 1, .is_entry = is_entry};
}

std::vector<std::string> names(const MergedStack& merged) {
  std::vector<std::string> found;
  for (const StackFrame& frame : merged.frames)
    found.push_back((frame.python ? "py " : "") + frame.function);
  return found;
}

TEST(MergeStacks, EachCallGivesWayToItsFrames) {
  const auto merged = merge_stacks(
      native({"read", kEval, "list_sort", "_PyEval_EvalFrameDefault.cold", "main"}),
      std::vector{python("key", true), python("inner", false), python("module", true)});
  EXPECT_THAT(names(merged),
              ElementsAre("read", "py key", "list_sort", "py inner", "py module", "main"));
  EXPECT_EQ(merged.note, "");
}

TEST(MergeStacks, KeepsBothWhereTheyDoNotMatch) {
  const auto merged = merge_stacks(native({"read", kEval, "main"}),
                                   std::vector{python("a", true), python("b", true)});
  EXPECT_THAT(names(merged), ElementsAre("read", kEval, "main", "py a", "py b"));
  EXPECT_THAT(merged.note, HasSubstr("1 native calls of Python code, but 2 Python frames"));
}

TEST(MergeStacks, ACallThatHasJustBegunHasNoFrameYet) {
  const auto merged =
      merge_stacks(native({kEval, "call", kEval, "main"}), std::vector{python("module", true)});
  EXPECT_THAT(names(merged), ElementsAre(kEval, "call", "py module", "main"));
  EXPECT_EQ(merged.note, "");
}

TEST(MergeStacks, ACallWhoseResultIsCheckedHasNoFrameAnyMore) {
  const auto merged = merge_stacks(native({"_Py_CheckFunctionResult", kEval, kEval, "main"}),
                                   std::vector{python("module", true)});
  EXPECT_THAT(names(merged), ElementsAre("_Py_CheckFunctionResult", kEval, "py module", "main"));
  EXPECT_EQ(merged.note, "");
}

TEST(MergeStacks, NeedsNoNativeFrames) {
  const auto merged = merge_stacks({}, std::vector{python("module", true)});
  EXPECT_THAT(names(merged), ElementsAre("py module"));
  EXPECT_EQ(merged.note, "");
}

TEST(MergeStacks, NeedsNoPython) {
  EXPECT_THAT(names(merge_stacks(native({"read", "main"}), {})), ElementsAre("read", "main"));
}

}  // namespace
}  // namespace dlprobe
