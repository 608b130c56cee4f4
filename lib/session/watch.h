#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/base/units.h"
#include "lib/collect/tree/log_watch.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/collect/tree_collector.h"
#include "lib/model/recording.h"
#include "lib/session/notices.h"
#include "lib/session/process_control.h"

namespace dlprobe {

/// What is done about a loader that does not move. It moves whenever a progress line comes or
/// TreeCollector::last_motion() does.
struct StandstillPolicy {
  /// From then on a few snapshots are taken now and then, for whoever does not wait longer; 0:
  /// none.
  BootNs early_after = 0;
  BootNs quiet_after = 0;  ///< from then on a snapshot is taken every second ...
  BootNs judge_after = 0;  ///< ... and from then on each is judged (WatchGuide::is_stuck)
  /// The root is asked to end then (SIGTERM), and killed `kill_after` later; what is left of the
  /// tree 3 s after the root has ended is killed, too.
  bool end_tree = false;
  BootNs kill_after = 3 * kSecond;
};

/// When stacks and locks are looked at.
enum class SnapshotTimes {
  kNever,
  kAlways,     ///< at the start, now and then, at the end
  kWhenQuiet,  ///< while the loader does not move, for half a minute at a time
};

/// One process tree to watch until it ends, the time is up, or the user has had enough.
struct WatchTarget {
  ProcessKey root;
  std::optional<pid_t>
      child;  ///< the root, if dlprobe started it: it is reaped, signals are forwarded
  std::optional<LogWatch> log;     ///< what the command prints, where it can be read; or none
  UniqueFd progress;               ///< the reference loader's progress lines, non-blocking; or none
  std::optional<BootNs> deadline;  ///< when --for runs out
  int news = -1;  ///< to be polled for reading: WatchGuide::take_news has something to take
  std::optional<StandstillPolicy> standstill;
  CollectOptions collect;  ///< what is sampled, and how often
  SnapshotTimes snapshots = SnapshotTimes::kNever;
  /// How long helpers may outlive the root: torch_shm_manager stays 2 s after its last client
  /// (SHUTDOWN_TIMEOUT); what it leaves then is left for good.
  BootNs linger = 3 * kSecond;
  bool ends_with_watch = false;   ///< dlprobe's own program: ended when the watch ends
  bool ends_at_deadline = false;  ///< a command that is tried: killed when the time is up
};

/// Whom a watch tells what it sees, and asks what to do. By default nothing is done.
class WatchGuide {
 public:
  virtual ~WatchGuide() = default;
  WatchGuide() = default;
  WatchGuide(const WatchGuide&) = delete;
  WatchGuide& operator=(const WatchGuide&) = delete;

  /// The tree has been looked at, or WatchTarget::news can be read; once more at the end.
  virtual void take_news() {}
  /// Which ranks of a job processes have told that they are, since the last call.
  virtual std::map<ProcessKey, JobRank> take_ranks() { return {}; }
  /// Called every 10 s while the root lives, and soon after a process failed.
  virtual void look_now_and_then() {}
  /// After each look: why the whole tree, of which so many live, is to be killed at once.
  virtual std::optional<OwnWords> why_break_off(size_t /*living*/) { return std::nullopt; }
  /// At each look, of what ends with the watch, and of what ran already: whether that has come far
  /// enough.
  virtual bool is_enough() { return false; }
  /// Whether stacks and locks are to be looked at now, once a second, although
  /// WatchTarget::snapshots does not have it so.
  virtual bool wants_snapshots() { return false; }
  /// After how long without a batch, or without other ranks, it gives up by itself, as far as that
  /// is known; 0: never. It is looked at before.
  virtual BootNs gives_up_after() { return 0; }
  /// Since when what moves gets nowhere: processes that fail and are started again, without end.
  virtual std::optional<BootNs> in_vain_since() { return std::nullopt; }
  /// Whether what was recorded so far shows that the loader, which does not move, is stuck.
  virtual bool is_stuck() { return false; }
  /// It is; told once for each standstill.
  virtual void tell_stuck() {}
  /// What was told to be stuck moves again, after it has stood for so long.
  virtual void tell_moves_again(BootNs /*stood*/) {}
  /// At the deadline, once: for how much longer it is worth to watch.
  virtual BootNs prolong() { return 0; }
};

/// What a watch saw of its own doings.
struct WatchResult {
  RunEnd end;
  int interrupted_by = 0;                ///< the signal that asked dlprobe to stop
  std::optional<int> child_wait_status;  ///< of WatchTarget::child
  std::vector<ProcessKey> left;          ///< of the tree, when the watch ended
};

/// What a watch works with. All of it outlives the watch.
struct WatchTools {
  const Machine& machine;
  ProcessControl& control;
  const HeldSignals& signals;
  RecordSink& sink;
  Notices& notices;
};

/// Watches `target`. Records go to the sink. Everything that dlprobe started has ended when this
/// returns, except a command whose time was up: --for ends the watch, not the command.
WatchResult watch(const WatchTools& tools, WatchTarget target, WatchGuide& guide);

}  // namespace dlprobe
