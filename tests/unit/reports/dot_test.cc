#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reports/format.h"
#include "tests/support/escape_lines.h"
#include "tests/unit/reports/report_json.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string dot_of(const testing::ReportCase& each) {
  return render_dot(report_of(each).report);
}

// The dot language's own rule for strings: what is left of `text` without them.
std::string outside_of_strings(std::string_view text) {
  std::string rest;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_string = !in_string;
    } else if (!in_string) {
      rest += text[i];
    }
  }
  EXPECT_FALSE(in_string) << "a string without an end";
  return rest;
}

TEST(DotReport, BoxesForThreadsEllipsesForObjectsAndTheChainInRed) {
  const std::string dot = dot_of(testing::hang_case());
  EXPECT_TRUE(dot.starts_with("digraph dlprobe {\n"));
  EXPECT_TRUE(dot.ends_with("}\n"));
  EXPECT_THAT(dot, HasSubstr("  g0n0 [shape=box, style=filled, fillcolor=white, label=\"trainer "
                             "100\\nidle\\n/srv/job/train.py:21 in main\", color=red];\n"));
  EXPECT_THAT(dot, HasSubstr("label=\"worker 101\\nstuck\\n/srv/job/data.py:14 in "
                             "Data.__getitem__\", color=red];\n"));
  EXPECT_THAT(dot, HasSubstr("  g0n3 [shape=ellipse, style=filled, fillcolor=white, label=\"thread "
                             "106 of trainer 100\\nroot cause\", color=red, penwidth=3];\n"));
  EXPECT_THAT(dot, HasSubstr("  g0n2 -> g0n3 [label=\"held by\", color=red, penwidth=2];\n"));
}

TEST(DotReport, WhatIsNotOnTheChainIsNotRed) {
  const std::string dot = dot_of(testing::hang_case());
  EXPECT_THAT(dot, HasSubstr("label=\"worker 107\\nstuck\\n/srv/job/data.py:14 in "
                             "Data.__getitem__\"];\n"));
}

TEST(DotReport, HostileNamesStayInsideTheirStrings) {
  const std::string dot = dot_of(testing::hostile_hang_case());
  EXPECT_EQ(escape_lines(dot), dot) << "something can act on a terminal";
  EXPECT_THAT(dot, HasSubstr(R"(evil\"];\\x0a\\N&amp;lt;b$(rm))"));
  EXPECT_THAT(outside_of_strings(dot), Not(HasSubstr("evil")));
  EXPECT_EQ(std::ranges::count(dot, '\n'), std::ranges::count(dot_of(testing::hang_case()), '\n'));
}

TEST(DotReport, AGraphOfEachRun) {
  testing::ReportCase each = testing::hang_case();
  each.recording.runs.push_back(each.recording.runs.front());
  WaitGraph other = each.verdict.wait_graphs.front();
  other.run = 1;
  other.chain.clear();
  other.nodes[0].label = "trainer of run 2";
  each.verdict.wait_graphs.insert(each.verdict.wait_graphs.begin(), other);
  const std::string dot = dot_of(each);
  EXPECT_THAT(dot, HasSubstr("  g1n0 [shape=box, style=filled, fillcolor=white, label=\"trainer of "
                             "run 2\\nidle\\n/srv/job/train.py:21 in main\"];\n"));
  EXPECT_THAT(dot, HasSubstr("  g0n0 -> g0n1 "));
}

TEST(DotReport, NothingToDrawIsStillAGraph) {
  EXPECT_EQ(outside_of_strings(dot_of(testing::empty_case())),
            "digraph dlprobe {\n  rankdir=LR;\n  labelloc=t;\n  node [fontname=];\n  label=;\n}\n");
}

}  // namespace
}  // namespace dlprobe
