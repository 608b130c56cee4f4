#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/model/recording.h"
#include "probes/facts/starts.h"

namespace dlprobe {

/// How one process of a run ended. Points into the recording.
struct Death {
  const ProcessInfo* process = nullptr;
  const ProcessExit* exit = nullptr;
  int signal = 0;     ///< that ended it; 0: it exited
  int exit_code = 0;  ///< of one that exited; 0 where it tells nothing
  /// The first signal of that kind that was sent to it; null: none was seen. A handler that raises
  /// the signal again makes a second one, which hides where the first was from.
  const SignalSent* sent = nullptr;
  std::vector<const KernelLogLine*> log;  ///< what the kernel's log says of it

  bool failed() const { return signal != 0 || exit_code != 0; }
  BootNs at() const { return sent != nullptr ? sent->at : exit->at; }
  /// The path of its cgroup; empty: not known.
  std::string cgroup() const { return process->cgroup.value_or(""); }
};

/// What a run tells of the ends of its processes. Points into the recording.
struct ExitFacts {
  const RecordingHeader* header = nullptr;
  const Run* run = nullptr;
  std::vector<Death> deaths;      ///< in time order; only those whose exit status is known
  std::optional<Ending> ending;   ///< of the command, where it failed
  bool then_stood_still = false;  ///< by another probe: a wait that nobody ends
  bool signals_traced = true;     ///< all signals sent were to be seen
  Message why_signals_hidden;     ///< where they were not
};

ExitFacts exit_facts(const RecordingHeader& header, const Run& run);

/// The trainer that a worker works for; null if it is not known.
const ProcessInfo* trainer_of(const Run& run, const ProcessInfo& worker);
const ProcessInfo* trainer_of(const ExitFacts& facts, const ProcessInfo& worker);

/// The end of that process; null: it lives, or is not known to have ended.
const Death* death_of(const ExitFacts& facts, const ProcessKey& key);

/// Whether the process is known to live at `at`.
bool lives_at(const ExitFacts& facts, const ProcessInfo& process, BootNs at);

/// PyTorch's workers have handlers of fatal signals, and at SIGTERM by their trainer exit with code
/// 0 (torch/csrc/DataLoader.cpp).
bool has_handlers_of_torch(const ProcessInfo& process);

/// Whether the job has a DataLoader: an interpreter told so, a worker has torch's
/// handlers, or it is the reference loader.
bool has_data_loader(const Run& run);

/// The process that sent the signal, where it belongs to the tree; null otherwise.
const ProcessInfo* sender_in_tree(const ExitFacts& facts, const SignalSent& signal);

/// Nobody sent the signal: the kernel did (SI_KERNEL), or the receiver's own fault.
bool is_from_kernel(const SignalSent& signal);
/// The receiver made the fault by what it did: SIGSEGV at an address and the like.
bool is_own_fault(const SignalSent& signal);

/// "SIGKILL".
OwnWords signal_name(int signal);

/// "process 4242 (slurmstepd)" and the like: who sent it.
Message describe_sender(const ExitFacts& facts, const SignalSent& signal);

/// How far a counter moved around a death.
struct CounterMove {
  uint64_t before = 0;
  uint64_t after = 0;
  uint64_t by() const { return after - before; }
};

/// What the counters of one group say of the time around a death.
struct OomMoves {
  std::string cgroup;  ///< empty: the host
  CounterMove kills;
  std::optional<CounterMove> limit_hits;
  std::optional<CounterMove> limit_meets;
  std::optional<CounterMove> group_kills;
  std::optional<uint64_t> limit_bytes;
};

/// Of the host; nothing if it was not read before and after.
std::optional<OomMoves> host_oom_moves(const ExitFacts& facts, const Death& death);
/// Of the process's own group and those above it, its own first; empty if they were not read.
std::vector<OomMoves> cgroup_oom_moves(const ExitFacts& facts, const Death& death);

/// The last sample of the process that has its memory; null: none.
const ProcessSample* last_memory_of(const ExitFacts& facts, const Death& death);
/// The last sample at or before the death; null: none.
const Sample* last_sample_before(const ExitFacts& facts, BootNs at);

}  // namespace dlprobe
