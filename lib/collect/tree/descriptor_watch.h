#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/time_budget.h"
#include "lib/model/descriptors.h"

namespace dlprobe {

/// How many descriptors and mappings the processes of a tree have, and what they lead to.
///
/// The number is read at each sample, but of those that rest (of a tree of more than 256 processes
/// only that of those that take part in the loader, and of the others once a second); what they
/// lead to at most once a second, where the number has changed, within 0.2 % of a core; a closer
/// look is taken where it grows or comes near the limit. Not thread-safe.
class DescriptorWatch {
 public:
  /// `reader` must outlive it.
  DescriptorWatch(Machine machine, DeadlineReader& reader)
      : machine_(std::move(machine)), reader_(&reader) {}

  /// A /dev/shm that the tree sees, by its st_dev: its files are told apart from others.
  void know_mount(uint64_t device) { shm_devices_.insert(device); }

  /// Fills in `fd_count` of the samples: of all members if `of_all`.
  void count(ProcessTree& tree, BootNs now, bool of_all);

  /// Fills in `fds` and `map_count` of the samples, and reads limits anew that a process may have
  /// changed. Once a second.
  void look(ProcessTree& tree, BootNs now);

  /// Between two samples: counts those that grow, or `of_all` all that were counted before. A count
  /// takes 2 us where the kernel gives the number as the size of /proc/PID/fd (Linux 6.2).
  void poll(ProcessTree& tree, BootNs now, bool of_all);

  /// How soon one that grows could be at its limit, as it grew over the last sample; `most` where
  /// none could.
  BootNs time_to_limit(const ProcessTree& tree, BootNs most) const;

  /// The closer looks since the last call.
  std::vector<FdLook> take_looks() { return std::exchange(looks_, {}); }

 private:
  struct State {
    uint64_t count = 0;        ///< now
    uint64_t highest = 0;      ///< since the last sample
    double per_ns = 0;         ///< growth over the last two counts
    BootNs counted_at = 0;     ///< 0: never
    uint64_t kinds_count = 0;  ///< when the kinds were read last
    BootNs kinds_at = 0;       ///< 0: never
    uint64_t look_count = 0;   ///< when a closer look was taken last
    BootNs look_at = 0;        ///< 0: never
    bool look_was_at_limit = false;
    uint64_t vm_bytes = 0;  ///< when the mappings were counted last
    BootNs maps_at = 0;     ///< 0: never
    BootNs maps_cost = 0;
  };
  Expected<uint64_t> count_one(TrackedProcess& process, BootNs now, bool may_list);
  void note_limit(TrackedProcess& process, State& state, BootNs now);
  void read_kinds(TrackedProcess& process, State& state, BootNs now);
  void read_maps(ProcessTree& tree, BootNs now);
  static bool has_other_kinds(const TrackedProcess& process, const State& state, BootNs now);
  bool look_closer(const TrackedProcess& process, State& state, BootNs now);

  Machine machine_;
  DeadlineReader* reader_;
  std::set<uint64_t> shm_devices_;
  std::map<ProcessKey, State> states_;
  std::vector<FdLook> looks_;
  static constexpr BootNs kKindsBudget = 50'000'000;
  static constexpr BootNs kMapsBudget = 100'000'000;
  TimeBudget kinds_budget_{0.002, kKindsBudget};
  TimeBudget maps_budget_{0.001, kMapsBudget};
};

}  // namespace dlprobe
