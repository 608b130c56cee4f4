#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lib/collect/deaths/end_watch.h"
#include "lib/collect/growth/container_watch.h"
#include "lib/collect/shm/shm_watch.h"
#include "lib/collect/snapshot/shared_files.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/collect/tree/descriptor_watch.h"
#include "lib/collect/tree/gap_log.h"
#include "lib/collect/tree/loader_motion.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/collect/tree/second_tier.h"
#include "lib/collect/tree/tree_cgroup.h"
#include "lib/model/ids.h"
#include "lib/os/machine.h"

namespace dlprobe {

struct CollectOptions {
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  bool waits = true;          ///< look where blocked threads wait, once a second
  bool ledgers = true;        ///< account for the segments in /dev/shm
  bool deaths = false;        ///< listen to who kills whom, and to the OOM killer
  bool pss = true;            ///< read smaps_rollup, within 0.2 % of a core
  bool containers = false;    ///< look which containers of Python grow, within 0.5 % of a core
  bool shared_files = false;  ///< look who moves the position of which file, within 0.2 % of a core
  /// How often new children are looked for while the loader starts.
  std::chrono::nanoseconds discover_every = std::chrono::milliseconds(5);
  SnapshotOptions snapshot;
  /// The pid of a subreaper (dlprobe itself) whose children that are younger than the root belong
  /// to the tree; 0: none.
  int32_t adopter = 0;
};

/// Samples one process tree and emits what it sees as records.
///
/// Reads only; never signals or writes to a process. take_snapshot() alone stops threads
/// (SnapshotTaker); nothing else blocks for longer than a read's deadline (DeadlineReader). What
/// cannot be read becomes an Error in its field, or one Gap; a process that ends while it is looked
/// at is neither. Not thread-safe.
///
/// Keeps every /dev/shm of the tree pinned, and with it that tmpfs and its files in memory, until
/// it is destroyed: destroy it soon after the tree has ended.
class TreeCollector {
 public:
  /// `sink` must outlive the collector.
  TreeCollector(Machine machine, const ProcessKey& root, const CollectOptions& options,
                RecordSink& sink);
  ~TreeCollector() = default;
  TreeCollector(const TreeCollector&) = delete;
  TreeCollector& operator=(const TreeCollector&) = delete;
  TreeCollector(TreeCollector&&) = delete;
  TreeCollector& operator=(TreeCollector&&) = delete;

  /// Does what is due and says when the next call is: after `interval`, or sooner (down to 10 ms)
  /// when /dev/shm, or the descriptors of a process, could be used up before that. Calling early is
  /// harmless: between two samples only these are looked at, and who has ended.
  BootNs tick();

  /// Accounts for all segments now, with every process that can be looked at. tick() does so by its
  /// own schedule: at the start, when /dev/shm is half full, and while segments change.
  void take_ledger() { shm_.take_ledger(tree_); }

  /// Where every thread of the tree is now, and what it waits on: a TreeSnapshot record. Returns
  /// whether a thread that waited went on before all was seen, or since the look before: of what it
  /// waits for next the record says nothing for sure.
  bool take_snapshot();

  /// The owner (the parent) knows by waitid how a process ended. Before it is reaped, if possible.
  void note_exit(const ProcessKey& key, int wait_status, std::string source);

  /// Which rank of a job a process has told that it is.
  void note_rank(const ProcessKey& key, const JobRank& rank) { tree_.note_rank(key, rank); }

  /// Whether a process of the tree has ended by a signal or with a code other than 0 since the last
  /// call.
  bool take_failed_exit() { return ends_.take_failed(); }

  /// When something of the loader last moved; see LoaderMotion.
  BootNs last_motion() const { return motion_.last_moved(); }
  BootNs rank_idle_since() const { return motion_.rank_idle_since(); }

  /// When that was looked at last. Soon after each take_snapshot() it is looked at again: what has
  /// moved meanwhile was torn.
  BootNs looked_for_motion_at() const { return motion_.looked_at(); }

  /// Whether it cleans up after the others: a resource tracker, torch_shm_manager.
  bool is_helper(const ProcessKey& key) const;

  /// The processes of the tree that live; zombies do not.
  std::vector<ProcessKey> living() const { return tree_.living(); }

  /// To be polled for reading: tick() is worth calling early, a process of the tree has ended or
  /// was sent a fatal signal. -1: nothing to poll, or it woke the caller too often for now.
  int wake_descriptor() const { return ends_.wake_descriptor(); }

  /// Any process of the tree lives; zombies do not.
  bool alive() const;

  /// The root or a trainer lives: false when only helpers linger (torch_shm_manager goes 2 s after
  /// its last client) or workers are orphaned.
  bool trainer_alive() const;

 private:
  /// What is looked at within a budget of time.
  struct CloserLooks {
    SharedFileWatch files;
    ContainerWatch containers;
  };
  struct Times {
    BootNs next_sample = 0;
    BootNs next_second = 0;  ///< what is looked at once a second
    BootNs next_discovery = 0;
    BootNs last_new_member = 0;
  };

  void sample(BootNs now);
  void look_between_samples(BootNs now);
  void discover(BootNs now);
  bool is_starting(BootNs now) const;
  void take_ledger_if_due();
  void emit_infos();
  void emit_descriptor_looks();
  void emit_sample(BootNs now, bool second_due);
  void emit_gaps();
  void add_gap(const OwnWords& what, const Error& error);

  Machine machine_;
  CollectOptions options_;
  RecordSink& sink_;
  GapLog gaps_;
  DeadlineReader reader_;
  ProcessTree tree_;
  EndWatch ends_;
  ShmWatch shm_;
  SecondTier second_tier_;
  LoaderMotion motion_;
  DescriptorWatch descriptors_;
  CloserLooks closer_;
  TreeCgroup cgroup_;
  std::optional<SnapshotTaker> snapshots_;
  Times times_;
};

}  // namespace dlprobe
