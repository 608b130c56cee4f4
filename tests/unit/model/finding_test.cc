#include "lib/model/finding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dlprobe {
namespace {

using ::testing::MatchesRegex;

TEST(FindingRegistry, CodesAndNamesAreWellFormedAndUnique) {
  std::set<std::string_view> seen;
  for (const FindingInfo& finding : all_findings()) {
    EXPECT_THAT(std::string(finding.code), MatchesRegex("DLP[0-9][0-9][0-9][0-9]"));
    EXPECT_THAT(std::string(finding.name), MatchesRegex("[a-z][a-z0-9-]*"));
    EXPECT_FALSE(finding.title.empty());
    EXPECT_TRUE(seen.insert(finding.code).second) << finding.code;
    EXPECT_TRUE(seen.insert(finding.name).second) << finding.name;
    EXPECT_EQ(&info(finding.id), &finding);
  }
}

TEST(FindingRegistry, FindsByCodeAndByNameInAnyCase) {
  ASSERT_NE(find_finding("dlp0102"), nullptr);
  EXPECT_EQ(find_finding("dlp0102")->name, "shm-exhausted");
  EXPECT_EQ(find_finding("SHM-Exhausted"), find_finding("DLP0102"));
  EXPECT_EQ(find_finding("DLP010"), nullptr);
  EXPECT_EQ(find_finding(""), nullptr);
}

TEST(FindingRegistry, NamesOfSeveritiesGoBothWays) {
  for (const Severity severity : {Severity::kInfo, Severity::kWarning, Severity::kError}) {
    EXPECT_EQ(from_string<Severity>(to_string(severity)), severity);
  }
  EXPECT_EQ(from_string<Severity>("fatal"), std::nullopt);
}

}  // namespace
}  // namespace dlprobe
