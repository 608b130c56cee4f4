#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reports/model/report.h"

namespace dlprobe {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(FindingPages, EveryCodeHasOneWithTheFourHeadings) {
  for (const FindingInfo& finding : all_findings()) {
    const std::string page(finding_page(finding.id));
    EXPECT_THAT(page,
                StartsWith("# " + std::string(finding.code) + " " + std::string(finding.name)));
    for (const char* heading : {"\n## What it means\n", "\n## How dlprobe knows\n",
                                "\n## What to do\n", "\n## When it is wrong\n"}) {
      EXPECT_THAT(page, HasSubstr(heading)) << finding.name;
    }
  }
}

}  // namespace
}  // namespace dlprobe
