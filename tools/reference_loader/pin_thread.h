#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "lib/base/error.h"
#include "tools/reference_loader/tensors.h"
#include "tools/reference_loader/worker_group.h"

namespace dlprobe::loader {

/// A batch in the main process.
struct LoadedBatch {
  BatchHandle tensors;
  int epoch = 0;
  int index = 0;
  int worker = 0;
  int samples = 0;
  uint64_t bytes = 0;  ///< of its tensors
  double fetch_s = 0;  ///< the worker made it
  double pin_s = 0;    ///< the pin-memory thread copied it
};

/// What came out of the result queue.
struct Arrival {
  LoadedBatch batch;
  std::optional<uint32_t> broken_image;  ///< then this is no batch
  std::string why;                       ///< of a broken image
  Status status;                         ///< the batch could not be made, or not be taken over
};

/// Reads one result and attaches its tensors. An error means that the queue itself is broken.
Expected<Arrival> receive(const WorkerGroup& group, const LoaderSetup& setup);

/// The pin-memory thread: takes each batch out of shared memory as soon as it comes.
class PinThread {
 public:
  /// `pinned` false: it copies to ordinary memory, which costs the same without a CUDA device.
  PinThread(const WorkerGroup& group, const LoaderSetup& setup, bool pinned);
  ~PinThread();
  PinThread(const PinThread&) = delete;
  PinThread& operator=(const PinThread&) = delete;

  /// Waits until there is something to take; false if there is nothing within `limit`.
  bool wait(std::chrono::milliseconds limit);
  /// The next one; wait() has said that there is one.
  Expected<Arrival> take();

 private:
  void run();
  Expected<Arrival> pin_one();

  const WorkerGroup& group_;
  const LoaderSetup& setup_;
  bool pinned_;
  std::atomic<bool> stops_ = false;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Expected<Arrival>> queue_;
  std::thread thread_;
};

}  // namespace dlprobe::loader
