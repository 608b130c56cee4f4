// How much of the CPUs threads take, and whether a job has more that compute than there are CPUs.

#include <cmath>

#include "probes/deadlock/facts.h"
#include "probes/deadlock/rules.h"

namespace dlprobe::probes::deadlock {

CoreShare core_share(const ThreadFacts& thread, size_t count) {
  const Look& last = thread.looks.front();
  const Look& first = thread.looks[std::max<size_t>(count, 1) - 1];
  if (first.at >= last.at || last.thread->cpu_ns < first.thread->cpu_ns) return {};
  const auto span = static_cast<double>(last.at - first.at);
  const double run = static_cast<double>(last.thread->cpu_ns - first.thread->cpu_ns) / span;
  const uint64_t queued =
      last.thread->queued_ns - std::min(first.thread->queued_ns, last.thread->queued_ns);
  return {.run = run, .busy = run + static_cast<double>(queued) / span};
}

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

void add_crowd(Finding& finding, const Facts& facts) {
  const int threads = threads_in_excess(facts);
  if (threads == 0) return;
  finding.message +=
      "; " + own(threads) + " threads of the job were ready to run on " + own(facts.cpus) + " CPUs";
  finding.advise("Let each worker compute with one thread",
                 {"torch.set_num_threads(1)  # in worker_init_fn", "OMP_NUM_THREADS=1"},
                 "dlprobe deadlock --pid PID");
}

}  // namespace dlprobe::probes::deadlock
