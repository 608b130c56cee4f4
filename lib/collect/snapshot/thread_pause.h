#pragma once

#include <chrono>
#include <optional>
#include <span>

#include "lib/collect/snapshot/process_image.h"
#include "lib/collect/snapshot/thread_look.h"
#include "lib/model/snapshot.h"
#include "lib/os/thread_stop.h"
#include "lib/stacks/native/unwinder.h"

namespace dlprobe {

/// Stops threads of one process, for as long as it takes to copy registers and stacks.
class ThreadPause {
 public:
  /// All must outlive it.
  ThreadPause(ProcessImage& image, SeenThreads& seen, ThreadLook& look)
      : image_(image), seen_(seen), look_(look) {}

  /// Looks at running threads, those whose walk needs registers that only a stopped thread shows,
  /// and, with them, those that are about to run: who waits with a timeout, as for the GIL. What
  /// Python's frames need is read while they stand still, too. For no longer than `longest`.
  void stop_and_look(ProcessSnapshot& snapshot, Unwinder& unwinder,
                     std::chrono::nanoseconds longest);

  /// A right to stop its threads is missing.
  const std::optional<Error>& not_stopped() const { return not_stopped_; }

 private:
  std::chrono::nanoseconds stop_once(ProcessSnapshot& snapshot, Unwinder& unwinder,
                                     std::chrono::nanoseconds budget);
  void note_not_stopped(const NotStopped& missed, ThreadSnapshot& thread);
  void take(const StoppedThread& stopped, bool in_time, ThreadSnapshot& thread, Unwinder& unwinder);
  void take_wait(const StoppedThread& stopped, const BlockedCall& blocked, ThreadSnapshot& thread);
  void copy_stacks(std::span<const StoppedThread> threads);

  ProcessImage& image_;
  SeenThreads& seen_;
  ThreadLook& look_;
  std::optional<Error> not_stopped_;
};

}  // namespace dlprobe
