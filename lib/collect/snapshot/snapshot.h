#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lib/collect/tree/record_sink.h"
#include "lib/model/snapshot.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// How much a snapshot may disturb.
struct SnapshotOptions {
  /// For how long a process's threads may be stopped; 0: never.
  std::chrono::nanoseconds max_pause = std::chrono::milliseconds(5);
};

/// A process to take a snapshot of.
struct SnapshotTarget {
  ProcessKey key;
  std::shared_ptr<const Directory> directory;  ///< its /proc directory
  /// A worker of a DataLoader has the variables of its rank, too, but no dump of a Flight Recorder:
  /// only one that is a member of a process group is a rank.
  bool is_worker = false;
};

/// Takes snapshots of process trees: where each thread is, what it waits on, its stack.
///
/// Stops nobody who is blocked: a blocked thread's stack pointer and program counter come from its
/// syscall file, its memory by process_vm_readv, and its count of timeslices before and after
/// proves that it did not move in between. Only running threads, and blocked ones whose walk needs
/// more registers, are stopped, for as long as it takes to copy registers and stacks
/// (stop_threads). Files that are mapped by several processes are read once. What cannot be seen is
/// a Gap. Not thread-safe.
class SnapshotTaker {
 public:
  /// `sink` must outlive it.
  SnapshotTaker(Machine machine, const SnapshotOptions& options, RecordSink& sink);
  ~SnapshotTaker();
  SnapshotTaker(const SnapshotTaker&) = delete;
  SnapshotTaker& operator=(const SnapshotTaker&) = delete;

  TreeSnapshot take(const std::vector<SnapshotTarget>& targets);

  /// Whether at the last look a thread that waited went on before all was seen, or was awake where
  /// it was not at the look before.
  bool went_on() const { return went_on_; }

  /// Which ranks the processes of the last look are, as far as their memory says so.
  const std::map<ProcessKey, JobRank>& ranks() const { return ranks_; }

 private:
  struct State;

  void note_who_waits(const TreeSnapshot& tree);

  Machine machine_;
  RecordSink* sink_;
  DeadlineReader reader_;
  std::shared_ptr<State> state_;
  std::set<int32_t> waiting_;  ///< the threads that did at the last look
  bool went_on_ = false;
  std::map<ProcessKey, JobRank> ranks_;
};

}  // namespace dlprobe
