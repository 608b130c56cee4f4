#pragma once

#include <poll.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "tools/reference_loader/image_source.h"
#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/launcher.h"
#include "tools/reference_loader/options.h"
#include "tools/reference_loader/result_queue.h"
#include "tools/reference_loader/shm_manager.h"
#include "tools/reference_loader/start_fault.h"

namespace dlprobe::loader {

/// A loader that is about to begin: the user's, or the same once more in a worker.
struct Program {
  const LoaderOptions& options;
  const FaultEffects& effects;
  const std::vector<std::string>& args;  ///< the command line, for workers that start afresh
  Progress& progress;
  StartChain chain;
  int dead_lock = -1;  ///< see FaultScene::dead_lock()
};

/// What all workers of a loader have in common. Everything outlives the loader.
struct LoaderSetup : Program {
  const ImageSource& images;
  ShmManager* manager = nullptr;  ///< only under file_system
  uint32_t random = 0;            ///< of the segments' names
};

/// A set of worker processes with their queues: one index queue each, one result queue for all.
class WorkerGroup {
 public:
  /// `where`: the line that starts workers, which a process may be refused.
  static Expected<std::unique_ptr<WorkerGroup>> start(
      const LoaderSetup& setup, std::source_location where = std::source_location::current());
  /// Kills what is still there, and removes what it left in /dev/shm.
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Puts a task into the worker's index queue.
  Status send_task(int worker, const TaskHeader& task, const std::vector<uint32_t>& images);

  /// The result queue's read end.
  int results() const { return results_.read_end.get(); }
  Expected<ResultMessage> read_result() const;
  /// How many results wait in the queue.
  size_t waiting_results() const;
  /// The descriptors of a batch, from the worker's sharer. kTimeout when a stop was asked for.
  Expected<std::vector<UniqueFd>> fetch_fds(int worker, uint64_t key) const;

  void add_poll_entries(std::vector<pollfd>& entries) const;
  /// An error that names the worker, if one has ended without having been asked to.
  Status check() const;
  /// Why a queue broke: the end of a worker, if that becomes known within a second, else `error`.
  Error explain(const Error& error) const;

  /// Ends the index queues and waits for the workers; after `grace` they are killed.
  void stop(std::chrono::milliseconds grace);
  /// Kills one worker with SIGKILL (for a fault). It is gone on return.
  Status kill_worker(int worker);
  /// Stops one worker with SIGSTOP (for a fault). It is killed with the others.
  void stop_worker(int worker) const;
  /// Nothing if it has ended.
  std::optional<pid_t> worker_pid(int worker) const;
  /// What the workers left in /dev/shm stays there (for a fault).
  void leave_segments() { leave_segments_ = true; }

 private:
  struct Member {
    pid_t pid = -1;
    UniqueFd tasks;
    UniqueFd sharer;
    bool ended = false;
  };

  explicit WorkerGroup(const LoaderSetup& setup) : setup_(setup) {}
  Status start_member(int worker);
  Expected<pid_t> start_process(const WorkerState& state);
  std::string describe(const WorkerExit& ended) const;
  /// Notes every worker that has ended; returns the first.
  Expected<std::optional<WorkerExit>> collect_exits() const;
  bool all_ended() const;

  LoaderSetup setup_;
  Pipe results_;
  std::unique_ptr<std::mutex> dataset_lock_;  ///< see WorkerState::lock
  UniqueFd lock_file_;
  std::unique_ptr<Launcher> launcher_;
  mutable std::vector<Member> members_;
  bool leave_segments_ = false;
};

}  // namespace dlprobe::loader
