#include <gtest/gtest.h>

#include <vector>

#include "lib/base/units.h"
#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

/// So many threads on four CPUs, each of which ran for 1 s of ten and waited so long for a CPU.
int excess_of(int count, uint64_t queued_s) {
  const ThreadSnapshot before;
  ThreadSnapshot after;
  after.cpu_ns = kSecond;
  after.queued_ns = queued_s * static_cast<uint64_t>(kSecond);
  ThreadFacts thread;
  thread.looks.resize(2);
  thread.looks[0].at = 10 * kSecond;
  thread.looks[0].thread = &after;
  thread.looks[1].thread = &before;
  Facts facts;
  facts.cpus = 4;
  facts.threads.assign(static_cast<size_t>(count), thread);
  return threads_in_excess(facts);
}

TEST(Crowd, ThreadsThatWaitForCpusThatTheirOwnJobHas) {
  EXPECT_EQ(excess_of(30, 8), 27);
  EXPECT_EQ(excess_of(30, 0), 0) << "each has its CPU";
  EXPECT_EQ(excess_of(8, 8), 0) << "others have the CPUs";
}

}  // namespace
}  // namespace dlprobe::probes::deadlock
