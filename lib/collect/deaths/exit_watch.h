#pragma once

#include <string>
#include <utility>

#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"

namespace dlprobe {

/// Notices the end of the members of a tree and learns how they ended, without being their parent.
///
/// Sources, best first: the parent's own waitid, if dlprobe is the parent; the exit code in stat of
/// a zombie (field 52, given the right); PIDFD_GET_INFO after the reap (Linux 6.15+).
class ExitWatch {
 public:
  ExitWatch(Machine machine, RecordSink& sink) : machine_(std::move(machine)), sink_(&sink) {}

  /// Looks at every member; emits a ProcessExit for each whose end is known, or cannot be known.
  /// True: a member has ended that had not at the last call.
  bool check(ProcessTree& tree);

  /// The owner reaped it, or is about to.
  void note(ProcessTree& tree, const ProcessKey& key, int wait_status, std::string source);

  /// Whether a process has ended by a signal or with a code other than 0 since the last call.
  bool take_failed() { return std::exchange(failed_, false); }

 private:
  void resolve(TrackedProcess& process, BootNs now);
  void emit(TrackedProcess& process, Observed<int32_t> wait_status, std::string source);

  Machine machine_;
  RecordSink* sink_;
  bool failed_ = false;
};

}  // namespace dlprobe
