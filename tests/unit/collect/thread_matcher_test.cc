#include "lib/collect/snapshot/thread_matcher.h"

#include <gtest/gtest.h>

#include <vector>

namespace dlprobe {
namespace {

/// Two threads whose stacks are one mapping, as glibc 2.42 leaves them, and the main thread.
class ThreadMatching : public ::testing::Test {
 protected:
  static PythonThread python(uint64_t pthread_id, std::optional<int32_t> native_tid = {}) {
    return {.pthread_id = pthread_id, .native_tid = native_tid};
  }

  std::optional<int32_t> tid_of(const PythonThread& thread) const {
    return ThreadMatcher(snapshot, space, stack_pointers, all).tid_of(thread);
  }

  ProcessSnapshot snapshot{.threads = {{.tid = 10}, {.tid = 11}, {.tid = 12}}};
  AddressSpace space{{{.begin = 0x10000, .end = 0x40000, .readable = true, .writable = true},
                      {.begin = 0x70000, .end = 0x80000, .readable = true, .writable = true}}};
  std::map<int32_t, uint64_t> stack_pointers = {{10, 0x7f000}, {11, 0x1f000}, {12, 0x2f000}};
  PythonThread main = python(0x3ff00);
  PythonThread lower = python(0x1ff00);
  PythonThread upper = python(0x2ff00);
  std::vector<PythonThread> all = {upper, lower, main};
};

TEST_F(ThreadMatching, StacksInOneMappingAreToldApart) {
  EXPECT_EQ(tid_of(lower), 11);
  EXPECT_EQ(tid_of(upper), 12);
  EXPECT_EQ(tid_of(main), std::nullopt);
}

TEST_F(ThreadMatching, TheThreadsOwnWordCountsWhereThereIsSuchAThread) {
  EXPECT_EQ(tid_of(python(0x3ff00, 10)), 10);
  EXPECT_EQ(tid_of(python(0x1ff00, 4711)), 11);
  snapshot.threads[2].own_tid = 3;
  EXPECT_EQ(tid_of(python(0x1ff00, 3)), 12);
}

}  // namespace
}  // namespace dlprobe
