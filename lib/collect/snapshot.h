#pragma once

#include <memory>
#include <vector>

#include "lib/collect/record_sink.h"
#include "lib/model/snapshot.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// A process to take a snapshot of.
struct SnapshotTarget {
  ProcessKey key;
  std::shared_ptr<const Directory> directory;  ///< its /proc directory
};

/// Takes snapshots of process trees: where each thread is, what it waits on, its stack.
///
/// Stops nobody: a blocked thread's stack pointer and program counter come from its syscall file,
/// its memory by process_vm_readv, and its count of timeslices before and after proves that it did
/// not move in between. Files that are mapped by several processes are read once. What cannot be
/// seen is a Gap. Not thread-safe.
class SnapshotTaker {
 public:
  /// `sink` must outlive it.
  SnapshotTaker(Machine machine, RecordSink& sink);
  ~SnapshotTaker();
  SnapshotTaker(const SnapshotTaker&) = delete;
  SnapshotTaker& operator=(const SnapshotTaker&) = delete;

  TreeSnapshot take(const std::vector<SnapshotTarget>& targets);

 private:
  struct State;

  Machine machine_;
  RecordSink* sink_;
  DeadlineReader reader_;
  std::shared_ptr<State> state_;
};

}  // namespace dlprobe
