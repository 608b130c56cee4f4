#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/collect/shm/ledger.h"
#include "lib/collect/shm/ledger_schedule.h"
#include "lib/collect/shm/mounts.h"
#include "lib/collect/shm/segment_watch.h"
#include "lib/collect/tree/gap_log.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Every /dev/shm that a tree sees: how full it is, which segments got no room, who holds what.
/// Emits ShmMount, ShmUse, ShmLedger, Event and Gap. Not thread-safe.
class ShmWatch {
 public:
  /// What is given by reference must outlive it.
  ShmWatch(const Machine& machine, DeadlineReader& reader, RecordSink& sink, GapLog& gaps);

  /// Looks for mounts (see ShmMounts::update). Returns the devices of those that are new.
  std::vector<uint64_t> find_mounts(const ProcessTree& tree, bool again);

  /// The use of each mount now, for a sample.
  std::vector<Observed<ShmUse>> sample();
  /// Between two samples: emits the use where it has changed.
  void poll();

  void check_segments(const ProcessTree& tree);

  /// Accounts for all segments now, unless that was done a moment ago and nothing has changed.
  void take_ledger(const ProcessTree& tree);
  /// Accounts for them if LedgerSchedule says so.
  void take_ledger_if_due(const ProcessTree& tree, bool tree_ended);
  /// Between two samples: whether that is due, because the use has changed.
  bool is_ledger_due() const;

  /// How soon a mount could be full; `most` where none could before.
  BootNs time_to_fill(BootNs now, BootNs most) const;

  /// What could not be looked at since the last call.
  std::vector<Error> take_errors() { return mounts_.take_errors(); }

 private:
  /// What is kept of a mount; they stand in the order of ShmMounts::all().
  struct Watched {
    SegmentWatch segments;
    std::optional<ShmUse> last_use;
    uint64_t lowest_free = UINT64_MAX;  ///< since its segments were looked at
  };

  bool note_use(Watched& watched, const ShmUse& use);
  void take_ledgers(const ProcessTree& tree, LedgerKeeper::Scope scope);
  void note_empty_segments(const ShmLedger& ledger);
  double fullest() const;

  Machine machine_;
  DeadlineReader& reader_;
  RecordSink& sink_;
  GapLog& gaps_;
  ShmMounts mounts_;
  std::vector<Watched> watched_;
  LedgerKeeper ledgers_;
  LedgerSchedule schedule_;
  std::vector<ProcessKey> living_;  ///< at the last ledger
};

}  // namespace dlprobe
