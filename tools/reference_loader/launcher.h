#pragma once

#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"
#include "tools/reference_loader/worker.h"

namespace dlprobe::loader {

/// A worker process that has ended.
struct WorkerExit {
  pid_t pid = 0;
  int wait_status = 0;  ///< as waitpid gives it
};

/// Starts worker processes by one of Python's start methods, and learns of their end.
class Launcher {
 public:
  /// For forkserver: starts the server, a fresh program without libtorch or OpenCV in use.
  static Expected<std::unique_ptr<Launcher>> start(StartMethod method);
  virtual ~Launcher() = default;
  Launcher() = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  /// The new worker's pid. It has the state's descriptors, in whatever way; the caller keeps its
  /// own.
  virtual Expected<pid_t> start_worker(const WorkerState& state) = 0;
  /// Descriptors that become readable when a worker has ended.
  virtual void add_poll_entries(std::vector<pollfd>& entries) const = 0;
  /// The next worker that has ended, if there is one. kVanished if the fork server is gone.
  virtual Expected<std::optional<WorkerExit>> next_exit() = 0;
};

/// The first arguments of a program that the loader starts from its own executable.
inline constexpr std::string_view kRoleOption = "--internal-role";
inline constexpr std::string_view kWorkerRole = "worker";
inline constexpr std::string_view kForkServerRole = "forkserver";

/// Such a program's main function: reads what it needs from descriptor `fd`.
int run_spawned_worker(int fd);
int run_fork_server(int fd);

}  // namespace dlprobe::loader
