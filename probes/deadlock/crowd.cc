// More threads of a job that compute than there are CPUs.

#include <cmath>

#include "probes/deadlock/facts.h"

namespace dlprobe::probes::deadlock {

int threads_in_excess(const Facts& facts) {
  constexpr double kMost = 0.7;
  CoreShare sum;
  for (const ThreadFacts& thread : facts.threads) {
    if (thread.looks.empty()) continue;
    const CoreShare share = core_share(thread, thread.looks.size());
    sum.run += share.run;
    sum.busy += share.busy;
  }
  const bool takes_all = facts.cpus > 0 && sum.run >= kMost * facts.cpus;
  return takes_all && sum.busy >= 2 * sum.run ? static_cast<int>(std::lround(sum.busy)) : 0;
}

}  // namespace dlprobe::probes::deadlock
