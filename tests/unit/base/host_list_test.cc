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

TEST(HostList, WhatIsNoListOrTooLargeAOneIsRefused) {
  std::string deep = "n";
  for (int i = 0; i < 100'000; ++i)
    deep += "[1]";
  const std::string longest(255, 'h');
  EXPECT_EQ(expand_hosts(longest).value().size(), 1U);
  EXPECT_EQ(expand_hosts("n[1-100000]").value().size(), 100'000U);
  for (const std::string& list :
       {std::string("n[1-3"), std::string("n1]"), std::string("n[3-1]"), std::string("n[a-b]"),
        std::string("n[]"), std::string("n[1-100001]"), std::string("n[1-999]m[1-999]"),
        std::string("n[1234567890123]"), longest + "h", longest + "h[1-9]", deep}) {
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
