#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "lib/base/unique_fd.h"
#include "lib/collect/record_sink.h"
#include "lib/collect/tree_collector.h"
#include "lib/model/recording.h"
#include "tools/dlprobe/progress_line.h"
#include "tools/dlprobe/signals.h"

namespace dlprobe {

/// One process tree to watch until it ends, the time is up, or the user has had enough.
struct WatchTarget {
  ProcessKey root;
  std::optional<pid_t>
      child;          ///< the root, if dlprobe started it: it is reaped, signals are forwarded
  UniqueFd progress;  ///< the reference loader's progress lines, non-blocking; or none
  std::optional<BootNs> deadline;      ///< when --for runs out
  std::function<void()> now_and_then;  ///< called every 10 s while the root lives; or none
  /// Of dlprobe's own program: whether what was recorded so far shows that it cannot go on, or
  /// takes very long. Asked after a snapshot while no progress line comes; or none.
  std::function<bool()> is_stuck;
  CollectOptions collect;        ///< what is sampled, and how often
  bool snapshots = false;        ///< of stacks and locks: at the start, now and then, at the end
  bool ends_with_watch = false;  ///< dlprobe's own program: ended when the watch ends
};

/// What a watch saw of its own doings.
struct WatchResult {
  RunEnd end;
  bool interrupted = false;              ///< the user asked dlprobe to stop
  std::optional<int> child_wait_status;  ///< of WatchTarget::child
};

/// Watches `target`. Records go to `sink`. Everything that dlprobe started has ended when this
/// returns, except a command whose time was up: --for ends the watch, not the command.
WatchResult watch(const Machine& machine, WatchTarget target, RecordSink& sink,
                  const SignalFd& signals, ProgressLine& progress);

}  // namespace dlprobe
