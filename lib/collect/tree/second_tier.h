#pragma once

#include <vector>

#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/time_budget.h"

namespace dlprobe {

/// What is read once a second of each process: swap, page tables, signals caught, I/O calls, where
/// threads of the loader wait, and, under a budget of CPU time, PSS.
class SecondTier {
 public:
  /// `reader` must outlive it.
  SecondTier(Machine machine, bool waits, bool pss, DeadlineReader& reader)
      : machine_(std::move(machine)), waits_(waits), pss_(pss), reader_(&reader) {}

  /// Fills in the samples of the members.
  void read(ProcessTree& tree, BootNs now);

 private:
  void read_waits(ProcessTree& tree);
  void read_pss(ProcessTree& tree, BootNs now);
  void read_pss_of(const std::vector<TrackedProcess*>& processes, BootNs expected, BootNs now);

  Machine machine_;
  bool waits_;
  bool pss_;
  DeadlineReader* reader_;
  TimeBudget budget_{0.002, 100'000'000};  ///< CPU time that may be spent on PSS
};

}  // namespace dlprobe
