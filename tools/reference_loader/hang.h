#pragma once

#include <atomic>
#include <thread>

#include "lib/base/error.h"
#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {

/// What the main process does before its workers start, so that they hang (Hang).
///
/// For fork-inherited-lock one of its threads takes a lock and keeps it while this object lives;
/// for fork-lost-thread-pool OpenMP's threads have work. Nothing else happens for all other faults.
class HangPreparation {
 public:
  explicit HangPreparation(const FaultEffects& effects);
  ~HangPreparation();
  HangPreparation(const HangPreparation&) = delete;
  HangPreparation& operator=(const HangPreparation&) = delete;

 private:
  std::atomic<bool> ends_ = false;
  std::thread holder_;
};

/// What a worker does in its first batch from FaultEffects::after on, if it is the one.
/// Returns where the fault cannot happen, as that of a fork in a worker that was not forked from
/// the main process. `dead_lock` is the descriptor of WorkerFd::kDeadLock.
Status hang_in_worker(const FaultEffects& effects, int dead_lock);

/// The same of the main process's training loop: returns when a stop was asked for.
void hang_in_training_loop();

}  // namespace dlprobe::loader
