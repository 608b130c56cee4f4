#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/base/units.h"
#include "lib/collect/log_watch.h"
#include "lib/collect/record_sink.h"
#include "lib/collect/tree_collector.h"
#include "lib/model/recording.h"
#include "tools/dlprobe/progress_line.h"
#include "tools/dlprobe/signals.h"

namespace dlprobe {

/// What is done about a loader that does not move. It moves whenever a progress line comes or
/// TreeCollector::last_motion() does.
struct StandstillPolicy {
  BootNs quiet_after = 0;          ///< from then on a snapshot is taken every second ...
  BootNs judge_after = 0;          ///< ... and from then on each is judged
  std::function<bool()> is_stuck;  ///< whether what was recorded so far shows that it is stuck
  /// Called once for each standstill, when it is judged to be one; or none.
  std::function<void()> when_stuck;
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
  /// Called every 10 s while the root lives, and soon after a process failed; or none.
  std::function<void()> now_and_then;
  /// Called whenever the tree has been looked at, and once more at the end; or none.
  std::function<void()> each_round;
  /// To be polled for reading: each_round is worth calling; or -1.
  int wakes_round = -1;
  /// Called after each round: a text says why the whole tree is to be killed at once; or none.
  std::function<std::optional<std::string>(size_t living)> break_off;
  std::optional<StandstillPolicy> standstill;
  CollectOptions collect;  ///< what is sampled, and how often
  SnapshotTimes snapshots = SnapshotTimes::kNever;
  bool shared_files = false;  ///< now and then: who moves the position of which file
  /// How long helpers may outlive the root: torch_shm_manager stays 2 s after its last client
  /// (SHUTDOWN_TIMEOUT); what it leaves then is left for good.
  BootNs linger = 3 * kSecond;
  bool ends_with_watch = false;   ///< dlprobe's own program: ended when the watch ends
  bool ends_at_deadline = false;  ///< a command that is tried: killed when the time is up
  /// Asked at every look; of what ends with the watch: it is ended when this is true. Or none.
  std::function<bool()> is_enough;
};

/// What a watch saw of its own doings.
struct WatchResult {
  RunEnd end;
  bool interrupted = false;              ///< the user asked dlprobe to stop
  std::optional<int> child_wait_status;  ///< of WatchTarget::child
  std::vector<ProcessKey> left;          ///< of the tree, when the watch ended
};

/// Watches `target`. Records go to `sink`. Everything that dlprobe started has ended when this
/// returns, except a command whose time was up: --for ends the watch, not the command.
WatchResult watch(const Machine& machine, WatchTarget target, RecordSink& sink,
                  const SignalFd& signals, ProgressLine& progress);

}  // namespace dlprobe
