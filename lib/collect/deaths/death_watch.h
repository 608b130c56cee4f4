#pragma once

#include <memory>
#include <vector>

#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/model/death.h"
#include "lib/os/deadline.h"
#include "lib/os/machine.h"
#include "lib/proc/tracepoint_format.h"
#include "lib/stacks/native/address_space.h"

namespace dlprobe {

/// Whether the kernel's tracepoints and its log say the pids that dlprobe sees: those are of the
/// initial pid namespace. kUnsupported: dlprobe runs in another.
Status check_pid_namespace(const Machine& machine);

/// Listens to what the kernel says of fatal signals and of deaths, and records what is about the
/// members of a tree: SignalSent and KernelLogLine. What may not be listened to becomes an Event
/// "signals-not-traced" or "kernel-log-not-read", whose text says why.
class DeathWatch {
 public:
  /// `reader` must outlive it.
  DeathWatch(Machine machine, DeadlineReader& reader, RecordSink& sink);

  /// Takes what was said since the last call. Members that ended must still be in the tree.
  void read(const ProcessTree& tree);

  /// To be polled for reading: a fatal signal was sent to some process of the machine.
  std::vector<int> descriptors() const;

 private:
  template <class T>
  struct Pending {
    int32_t pid = 0;
    T record;
  };

  void open_signals();
  void open_log();
  void note_missing(const char* kind, const Error& error);
  void read_signals(const ProcessTree& tree);
  void read_log();
  SignalSent decode(const TracepointRecord& record, int32_t target_pid) const;
  void note_sender(const ProcessTree& tree, SignalSent& signal,
                   const TracepointRecord& record) const;
  void note_code(const ProcessTree& tree, SignalSent& signal,
                 std::optional<uint64_t> stack_pointer) const;
  void note_library(const AddressSpace& space, const SignalSent& signal) const;
  void note_files(const ProcessTree& tree, const TrackedProcess& process, const AddressSpace& space,
                  const SignalSent& signal) const;
  template <class T>
  void file(const ProcessTree& tree, std::vector<Pending<T>>& pending);

  Machine machine_;
  DeadlineReader* reader_;
  RecordSink* sink_;
  std::unique_ptr<Tracepoint> signals_;
  TracepointFormat format_;
  std::unique_ptr<KernelLog> log_;
  // Of processes that are no members, or not yet: a worker may die before it was found.
  std::vector<Pending<SignalSent>> pending_signals_;
  std::vector<Pending<KernelLogLine>> pending_lines_;
  std::optional<uint64_t> met_limit_;  ///< bytes, of the OOM kill that the log tells of next
};

}  // namespace dlprobe
