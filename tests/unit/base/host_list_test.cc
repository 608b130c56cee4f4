#include "lib/base/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dlprobe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HostList, BracketsAreRangesWithTheirZeros) {
  EXPECT_THAT(expand_hosts("n[01-03,7],gpu1").value(),
              ElementsAre("n01", "n02", "n03", "n7", "gpu1"));
  EXPECT_THAT(expand_hosts("a\nb c,,d\n").value(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(expand_hosts("r[1-2]n[8-9]x").value(),
              ElementsAre("r1n8x", "r1n9x", "r2n8x", "r2n9x"));
  EXPECT_TRUE(expand_hosts("").value().empty());
}

TEST(HostList, WhatIsNoListIsRefused) {
  for (const char* list : {"n[1-3", "n1]", "n[3-1]", "n[a-b]", "n[]", "n[1-99999999]",
                           "n[1-999999]m[1-999999]", "n[1234567890123]"}) {
    const auto hosts = expand_hosts(list);
    ASSERT_FALSE(hosts) << list;
    EXPECT_THAT(hosts.error().context, HasSubstr("host list")) << list;
  }
}

TEST(HostList, FoldedAndBack) {
  EXPECT_EQ(fold_hosts({"n10", "n9", "n8", "n1", "gpu", "n9"}), "gpu,n[1,8-10]");
  EXPECT_EQ(fold_hosts({"n01", "n02", "n10"}), "n[01-02,10]");
  EXPECT_EQ(fold_hosts({"n7"}), "n7");
  EXPECT_EQ(fold_hosts({}), "");
  const std::vector<std::string> hosts = {"a1", "a2", "a3", "b05", "c"};
  EXPECT_THAT(expand_hosts(fold_hosts(hosts)).value(), testing::UnorderedElementsAreArray(hosts));
}

}  // namespace
}  // namespace dlprobe
