#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "tools/reference_loader/fault.h"

namespace dlprobe::loader {

/// What the main process does before its workers start, so that there is something to copy: it
/// fills Growth::shared_bytes of memory of its own. Nothing for all other faults.
void fill_memory_to_share(const FaultEffects& effects);

/// What one worker does with memory while it works, by the clock: Growth::rate.
class MemoryFault {
 public:
  MemoryFault(const FaultEffects& effects, int worker, uint64_t batch_bytes)
      : effects_(effects),
        growth_(effects.as<Growth>()),
        worker_(worker),
        batch_bytes_(batch_bytes) {}

  /// Before each batch. With the first one begins a thread that writes to pages shared with the
  /// main process, or keeps new memory: evenly, however fast batches are made. For a backlog it
  /// waits, so that no more is made than asked for.
  void before_batch();

 private:
  using Clock = std::chrono::steady_clock;
  void grow(const std::stop_token& stop);
  void copy_until(uint64_t due);
  void keep_until(uint64_t due);

  const FaultEffects& effects_;
  const Growth* growth_;  ///< null: nothing grows
  int worker_;
  uint64_t batch_bytes_;
  Clock::time_point start_;
  bool has_started_ = false;
  uint64_t done_ = 0;  ///< bytes
  std::vector<std::unique_ptr<std::byte[]>> kept_;
  std::jthread thread_;
};

}  // namespace dlprobe::loader
