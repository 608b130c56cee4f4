#include "tools/dlprobe/config/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ConfigFile read(std::string_view text) {
  auto file = parse_config(text, "f.toml");
  EXPECT_TRUE(file) << file.error().context;
  return file ? std::move(*file) : ConfigFile();
}

std::string refusal(std::string_view text) {
  const auto file = parse_config(text, "f.toml");
  return file ? "" : file.error().context;
}

TEST(ConfigFile, KeysWithTheirTablesKindsAndPlaces) {
  const ConfigFile file = read(
      "fail_on = \"info\"\n[gate]\nworkers = 8\n[report.merge]\nformat = [\"json=a\", "
      "\"html=b\"]\n");
  ASSERT_EQ(file.entries.size(), 3U);
  const auto find = [&](std::string_view key) {
    return *std::ranges::find(file.entries, key, &ConfigEntry::key);
  };
  EXPECT_TRUE(find("fail-on").table.empty());
  EXPECT_THAT(find("workers").values, ElementsAre("8"));
  EXPECT_EQ(find("workers").kind, ConfigKind::kNumber);
  EXPECT_EQ(find("workers").place, "f.toml:3:1");
  EXPECT_THAT(find("format").table, ElementsAre("report", "merge"));
  EXPECT_THAT(find("format").values, ElementsAre("json=a", "html=b"));
}

TEST(ConfigFile, RulesOfFindings) {
  const ConfigFile file = read(R"(
[findings.DLP0104]
severity = "info"
at-least = { leaked_bytes = "64 MiB", stalled_for = "5s", leaked_files = 3 }
[findings.shm-too-small]
severity = "warning"
[[suppress]]
code = "shm-leak"
reason = "known"
until = 2027-01-31
[[suppress]]
code = "DLP0101"
reason = "known, too"
until = "never"
node = "login*"
)");
  ASSERT_EQ(file.policy.severities.size(), 2U);
  ASSERT_EQ(file.policy.thresholds.size(), 3U);
  std::vector<double> values;
  for (const auto& each : file.policy.thresholds)
    values.push_back(each.value);
  EXPECT_THAT(values, ::testing::UnorderedElementsAre(64.0 * (1 << 20), 5.0, 3.0));
  ASSERT_EQ(file.policy.suppressions.size(), 2U);
  EXPECT_EQ(file.policy.suppressions[0].until, "2027-01-31");
  EXPECT_EQ(file.policy.suppressions[1].until, "");
  EXPECT_EQ(file.policy.suppressions[1].node, "login*");
}

TEST(ConfigFile, WhatDoesNotFitIsNamedWithItsPlace) {
  std::string deep = "a";
  for (int i = 0; i < 400'000; ++i)
    deep += ".a";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a = \n", "f.toml:1:"},
      {"a = 1\na = 2\n", "f.toml:2:"},
      {"[)gate]\n", "f.toml:1:2: Error while parsing key: expected bare key"},
      {"[findings.DLP9999]\nseverity=\"info\"\n", "there is no finding 'DLP9999'"},
      {"[findings.shm-too-smal]\n", "did you mean 'shm-too-small'"},
      {"[findings.DLP0101]\nseverity = \"bad\"\n", "f.toml:2:12: severity is"},
      {"[findings.DLP0101]\nseverty = \"info\"\n", "did you mean 'severity'"},
      {"[findings.DLP0101]\nat-least = { needed = \"many\" }\n", "f.toml:2:23: not a number"},
      {"[findings.DLP0104]\nat-most = { leaked_byte = 1 }\n",
       "f.toml:2:13: no finding has the evidence 'leaked_byte' (did you mean "
       "'leaked_bytes'?)"},
      {"findings = 3\n", "'findings' is a table"},
      {"suppress = 3\n", "list of tables"},
      {"[[suppress]]\ncode=\"DLP0101\"\nuntil=\"never\"\n", "needs a reason"},
      {"[[suppress]]\ncode=\"DLP0101\"\nreason=\"r\"\n", "needs its last day"},
      {"[[suppress]]\nreason=\"r\"\nuntil=\"never\"\n", "needs the code"},
      {"[[suppress]]\ncode=\"DLP0101\"\nreason=\" \"\nuntil=\"never\"\n", "not empty"},
      {"[[suppress]]\ncode=\"DLP0101\"\nreason=\"r\"\nuntil=\"2027-02-30\"\n", "no such day"},
      {"[[suppress]]\ncode=\"DLP0101\"\nreason=\"r\"\nuntil=\"soon\"\n", "until must be a day"},
      {"[[suppress]]\ncode=\"DLP0101\"\nreason=\"r\"\nuntill=\"never\"\n", "did you mean 'until'"},
      {"[gate]\nx = [[1]]\n", "a list may hold"},
      {"[gate]\nx = 2027-01-01\n", "not a text"},
      {"a.b.c.d.e.f = 1\n", "nest too deeply"},
      {"[" + deep + "]\n", "f.toml:1: more than 100 points"},
      {"\nx = {" + deep + " = 1}\n", "f.toml:2: more than 100 points"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_THAT(refusal(text), StartsWith("f.toml:")) << text;
    EXPECT_THAT(refusal(text), HasSubstr(why)) << text;
  }
}

}  // namespace
}  // namespace dlprobe
