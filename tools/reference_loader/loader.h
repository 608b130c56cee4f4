#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tools/reference_loader/pin_thread.h"
#include "tools/reference_loader/progress.h"
#include "tools/reference_loader/transform.h"
#include "tools/reference_loader/worker_group.h"

namespace dlprobe::loader {

/// The order in which an epoch goes through the images: shuffled, and again for each further pass.
class Sampler {
 public:
  Sampler(uint32_t images, uint64_t seed) : images_(images), seed_(seed) {}
  void begin_epoch(int epoch);
  uint32_t next();

 private:
  void shuffle();
  uint32_t images_;
  uint64_t seed_;
  int epoch_ = 0;
  uint64_t pass_ = 0;
  size_t taken_ = 0;
  std::vector<uint32_t> order_;
};

/// What Loader::next() did.
enum class Taken { kBatch, kEndOfEpoch };

/// The loader of the main process: hands out tasks, puts what comes back into order.
///
/// As torch.utils.data.DataLoader: prefetch_factor tasks per worker are outstanding; a new one is
/// sent when a batch is taken; batches are taken in the order of their indices.
class Loader {
 public:
  /// `pinned`: the pin-memory thread makes pinned memory, not just a copy.
  Loader(const LoaderSetup& setup, bool pinned);

  /// `more`: there would be further epochs, or a longer one: tasks are sent up to the last batch
  /// taken, so that prefetching goes on to its end (see wait_for_full_prefetch).
  Status begin_epoch(int epoch, bool more);
  /// Puts the next batch in the place of `batch`. As with the variable of `for batch in loader`,
  /// the old one lives until the new one is there. kTimeout when a stop was asked for.
  Expected<Taken> next(LoadedBatch& batch);
  /// Ends workers and threads: in peace, or at once.
  void stop(std::chrono::milliseconds grace);

  int batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t broken_images() const { return broken_.size(); }
  /// When the workers were first started, on monotonic_seconds(); 0: not yet.
  double started_at() const { return started_at_; }

  /// Waits, taking nothing, until every outstanding task is done, or nothing moves: what a long
  /// training step, an evaluation or a checkpoint does to a loader.
  Status wait_for_full_prefetch();
  /// For a fault: stops a worker with SIGSTOP.
  void stop_worker(int worker) const {
    if (group_) group_->stop_worker(worker);
  }
  /// For a fault: nothing if there is no such worker (any more).
  std::optional<pid_t> worker_pid(int worker) const {
    return group_ ? group_->worker_pid(worker) : std::nullopt;
  }
  /// For faults: a worker is killed with its finished batches untaken, and a new set of workers
  /// goes on in its place, as when a script catches the error and makes itself a new iterator.
  Status abandon_workers();

 private:
  struct Task {
    TaskHeader header;
    std::vector<uint32_t> images;
  };

  Status start_workers();
  std::optional<Task> make_task();
  Status send_next_task();
  Status send(const Task& task);
  Expected<LoadedBatch> load_here(const Task& task);
  /// Waits for a result and takes it in; `moved` is false if none came within `limit`.
  Status wait(std::chrono::milliseconds limit, bool& moved);
  Status take_arrival();
  Status check_others() const;
  void note_broken(uint32_t image, const std::string& why);

  LoaderSetup setup_;
  bool pinned_;
  Sampler sampler_;
  SampleMaker own_samples_;
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<PinThread> pin_thread_;  // ends before the group that it reads from
  std::map<int, Arrival> arrived_;         ///< by index
  std::map<int, Task> outstanding_;        ///< by index; those that have arrived included
  std::set<uint32_t> broken_;
  int batches_per_epoch_ = 0;
  int epoch_ = 0;
  int next_task_ = 0;
  int last_task_ = 0;
  int next_batch_ = 0;
  uint64_t next_position_ = 0;
  double started_at_ = 0;
};

}  // namespace dlprobe::loader
