#include "lib/collect/snapshot/access_gap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/fake_files.h"

namespace dlprobe {
namespace {

using testing::HasSubstr;

constexpr const char* kNoRights = "0000000000000000";
constexpr const char* kTrace = "0000000000080000";

class AccessGaps : public testing::Test {
 protected:
  void own(int uid, const char* capabilities) {
    files_.add("/proc/self/status", status(uid, capabilities));
  }
  void target(int uid, uint32_t owner) {
    files_.add("/proc/42/status", status(uid, kNoRights));
    files_.set_stat("/proc/42/status", {.uid = owner});
  }
  void yama(const char* scope) { files_.add("/proc/sys/kernel/yama/ptrace_scope", scope); }
  Gap gap() const {
    return access_gap(files_, **files_.open_directory("proc/42"), 42,
                      os_error("read /proc/42/syscall", EPERM));
  }

 private:
  static std::string status(int uid, const char* capabilities) {
    const std::string text = std::to_string(uid);
    return "Name:\tx\nUid:\t" + text + "\t" + text + "\t" + text + "\t" + text + "\nCapEff:\t" +
           capabilities + "\n";
  }
  FakeFiles files_;
};

TEST_F(AccessGaps, NameTheOtherUser) {
  own(1000, kNoRights);
  target(1001, 1001);
  EXPECT_THAT(gap().why.plain(),
              HasSubstr("belongs to user id 1001, dlprobe runs as user id 1000"));
  EXPECT_EQ(gap().remedy.plain(), "sudo dlprobe attach 42");
}

TEST_F(AccessGaps, NameAProcessThatIsNotDumpable) {
  own(1000, kNoRights);
  target(1000, 0);
  yama("1\n");
  EXPECT_THAT(gap().why.plain(), HasSubstr("not dumpable"));
}

TEST_F(AccessGaps, NameYamaAndTheLineThatHelps) {
  own(1000, kNoRights);
  target(1000, 1000);
  yama("1\n");
  EXPECT_THAT(gap().why.plain(), HasSubstr("kernel.yama.ptrace_scope is 1"));
  EXPECT_THAT(gap().remedy.plain(), HasSubstr("dlprobe deadlock -- COMMAND"));
  EXPECT_THAT(gap().remedy.plain(), HasSubstr("sudo sysctl kernel.yama.ptrace_scope=0"));
  yama("2\n");
  EXPECT_THAT(gap().remedy.plain(), HasSubstr("root"));
  yama("3\n");
  EXPECT_THAT(gap().remedy.plain(), HasSubstr("boot"));
  yama("0\n");
  EXPECT_THAT(gap().why.plain(), HasSubstr("security module"));
}

TEST_F(AccessGaps, NameAContainerWithoutTheCapability) {
  own(0, kNoRights);
  target(0, 0);
  EXPECT_THAT(gap().remedy.plain(), HasSubstr("docker run --cap-add SYS_PTRACE"));
}

TEST_F(AccessGaps, NameNoMissingRightWhereDlprobeHasThemAll) {
  own(0, kTrace);
  target(1000, 1000);
  EXPECT_THAT(gap().why.plain(), HasSubstr("although dlprobe has CAP_SYS_PTRACE"));
}

TEST_F(AccessGaps, KeepTheKernelsWords) {
  own(1000, kNoRights);
  target(1001, 1001);
  EXPECT_THAT(gap().why.plain(),
              HasSubstr("read /proc/42/syscall: Operation not permitted (EPERM)"));
  const Gap other = access_gap(FakeFiles(), FakeFiles(), 42,
                               {.code = ErrorCode::kTimeout, .context = "read /proc/42/maps"});
  EXPECT_EQ(other.remedy, "");
}

}  // namespace
}  // namespace dlprobe
