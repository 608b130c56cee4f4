#include "lib/os/host_facts.h"

#include <gtest/gtest.h>

#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

class HostFactsTest : public testing::Test {
 protected:
  HostFacts read(const EnvironmentLookup& environment = [](std::string_view) {
    return std::nullopt;
  }) {
    return read_host_facts({.root = files_, .clock = nullptr, .processes = nullptr}, environment);
  }
  std::shared_ptr<FakeFiles> files_ = std::make_shared<FakeFiles>();
};

TEST_F(HostFactsTest, TakesThePrettyName) {
  files_->add("/etc/os-release", "NAME=\"Debian\"\nPRETTY_NAME=\"A \\\"quoted\\\" system\"\n");
  const HostFacts facts = read();
  EXPECT_EQ(facts.os, "A \"quoted\" system");
  EXPECT_GT(facts.cpus, 0);
  EXPECT_GE(facts.page_size, 4096U);
  EXPECT_FALSE(facts.kernel.empty());
}

TEST_F(HostFactsTest, FallsBackToTheVendorsFile) {
  files_->add("/usr/lib/os-release", "PRETTY_NAME='Other 1'\n");
  EXPECT_EQ(read().os, "Other 1");
}

TEST_F(HostFactsTest, KnowsContainersByWhatTheyLeave) {
  EXPECT_EQ(read().container, "");
  files_->add("/run/.containerenv", "");
  EXPECT_EQ(read().container, "podman");
  files_->add("/.dockerenv", "");
  EXPECT_EQ(read().container, "docker");
  files_->add("/proc/self/cgroup", "0::/kubepods.slice/pod1\n");
  EXPECT_EQ(read().container, "kubernetes");
}

TEST_F(HostFactsTest, AMarkInTheMachinesOwnNamespacesIsARelicOfItsDisk) {
  files_->add("/.dockerenv", "");
  files_->add_link("/proc/self/ns/pid", "pid:[4026531836]");
  files_->add_link("/proc/self/ns/cgroup", "cgroup:[4026532000]");
  EXPECT_EQ(read().container, "docker") << "of one with the pids of its host";
  files_->add_link("/proc/self/ns/cgroup", "cgroup:[4026531835]");
  EXPECT_EQ(read().container, "");
  files_->add("/proc/self/cgroup", "4:memory:/docker/0123\n");
  EXPECT_EQ(read().container, "docker") << "of one with all namespaces of its host";
}

TEST_F(HostFactsTest, KnowsSlurmByTheEnvironment) {
  const HostFacts facts = read([](std::string_view name) -> std::optional<std::string> {
    if (name == "SLURM_JOB_ID") return "12";
    return std::nullopt;
  });
  EXPECT_EQ(facts.container, "slurm");
}

TEST_F(HostFactsTest, CpusThatRunAreListedByRanges) {
  EXPECT_FALSE(online_cpus(*files_));
  files_->add("/sys/devices/system/cpu/online", "0-2,8\n");
  EXPECT_EQ(online_cpus(*files_).value(), (std::vector<int>{0, 1, 2, 8}));
  files_->add("/sys/devices/system/cpu/online", "0-2-4\n");
  EXPECT_FALSE(online_cpus(*files_));
}

}  // namespace
}  // namespace dlprobe
