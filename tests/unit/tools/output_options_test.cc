#include "tools/dlprobe/options/output_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::HasSubstr;

OutputOptions with(std::vector<std::string> formats, bool json = false) {
  OutputOptions options;
  options.formats = std::move(formats);
  options.json = json;
  return options;
}

TEST(OutputOptions, HumanOnStdoutIsTheDefault) {
  const auto outputs = planned_outputs({});
  ASSERT_TRUE(outputs.has_value());
  ASSERT_EQ(outputs->size(), 1U);
  EXPECT_EQ(outputs->front().format->name, "human");
  EXPECT_EQ(outputs->front().path, "");
}

TEST(OutputOptions, AFileStillTellsThePersonAtTheTerminal) {
  const std::string path = testing::TempDir() + "report.json";
  const auto outputs = planned_outputs(with({"json=" + path}));
  ASSERT_TRUE(outputs.has_value());
  ASSERT_EQ(outputs->size(), 2U);
  EXPECT_EQ(outputs->at(0).path, path);
  EXPECT_EQ(outputs->at(1).format->name, "human");
}

TEST(OutputOptions, JsonAloneReplacesTheText) {
  const auto outputs = planned_outputs(with({}, true));
  ASSERT_TRUE(outputs.has_value());
  ASSERT_EQ(outputs->size(), 1U);
  EXPECT_EQ(outputs->front().format->name, "json");
}

TEST(OutputOptions, ADashIsStdout) {
  OutputOptions options = with({"json=-"});
  options.output_path = testing::TempDir() + "report.txt";  // -o is for what has no path of its own
  const auto outputs = planned_outputs(options);
  ASSERT_TRUE(outputs.has_value());
  ASSERT_EQ(outputs->size(), 1U);
  EXPECT_EQ(outputs->front().format->name, "json");
  EXPECT_EQ(outputs->front().path, "");
}

TEST(OutputOptions, RefusesWhatCannotBeDone) {
  const auto refusal = [](const OutputOptions& options) {
    const auto outputs = planned_outputs(options);
    return outputs ? std::string("accepted") : to_string(outputs.error());
  };
  EXPECT_THAT(refusal(with({"pdf"})), HasSubstr("there is no format 'pdf'"));
  EXPECT_THAT(refusal(with({"jsno"})), HasSubstr("did you mean 'json'?"));
  EXPECT_THAT(refusal(with({"json=%x.json"})), HasSubstr("%x"));
  EXPECT_THAT(refusal(with({"json="})), HasSubstr("a path has to follow"));
  EXPECT_THAT(refusal(with({"json", "human"})), HasSubstr("two reports would go to stdout"));
  EXPECT_THAT(refusal(with({"json=-", "human=-"})), HasSubstr("two reports would go to stdout"));
  EXPECT_THAT(refusal(with({"json=-", "human"})), HasSubstr("two reports would go to stdout"));
  EXPECT_THAT(refusal(with({"json=/nowhere/at/all.json"})), HasSubstr("/nowhere/at"));
}

TEST(OutputOptions, TextIsAnotherNameForHuman) {
  const auto outputs = planned_outputs(with({"text"}));
  ASSERT_TRUE(outputs.has_value());
  EXPECT_EQ(outputs->front().format->name, "human");
}

TEST(OutputOptions, ACommandTakesTheFormatsThatItHas) {
  EXPECT_TRUE(planned_outputs(with({"dot"})).has_value());
  const auto stacks = planned_outputs(with({"dot"}), stacks_formats());
  ASSERT_FALSE(stacks.has_value());
  EXPECT_THAT(to_string(stacks.error()), HasSubstr("there is no format 'dot' (human, json)"));
}

}  // namespace
}  // namespace dlprobe
