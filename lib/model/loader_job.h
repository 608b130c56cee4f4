#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/names.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// What the main threads of a job's trainers and workers did at one look. That they all wait is no
/// proof of a hang: a job that is well waits most of the time.
enum class JobState {
  kComputes,         ///< one of them is on a CPU, or ready to be
  kWaits,            ///< all of them sleep
  kWaitsForStorage,  ///< one waits inside the kernel (state D), and none computes
  kStopped,          ///< one is stopped by a signal or a debugger
};
template <>
struct Names<JobState> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"computes", "waits", "waits for storage", "stopped"});
};

/// A job of this machine that loads data by worker processes, or has several ranks.
struct LoaderJob {
  ProcessKey root;  ///< of the trainer, or of the launcher of several ranks: what is attached to
  std::string user;
  BootNs age_ns = 0;     ///< of the root
  size_t ranks = 0;      ///< on this machine; 0: it is no distributed job
  size_t workers = 0;    ///< of all ranks
  bool is_pool = false;  /**< its workers are processes of multiprocessing that need not load data,
                              and it has no ranks */
  bool may_look = true;  ///< this user may look into it
  std::optional<uint64_t> shm_bytes; /**< of /dev/shm, what its processes have open or mapped;
                                          nothing where that cannot be read of each */
  JobState state = JobState::kWaits;
  /// The longest that a main thread of these has not run; 0: under 10 s, not known, or of a pool,
  /// whose workers may well have nothing to do. An idle worker of torch looks about each 5 s.
  BootNs longest_wait_ns = 0;
  std::vector<std::string> command;          ///< of the root; secrets masked; hostile text
  std::vector<std::string> trainer_command;  ///< of the first trainer; as `command`
  std::vector<std::string> job_ids;          ///< as a scheduler or torchrun names it; hostile text
};

/// A data worker that still runs although its trainer has ended.
struct OrphanedWorker {
  ProcessKey key;
  std::string user;
  BootNs age_ns = 0;  ///< since it was started
};

/// What one look at the machine's processes shows.
struct LoaderJobs {
  std::vector<LoaderJob> jobs;          ///< those that surely load data first, then by pid
  std::vector<OrphanedWorker> orphans;  ///< by pid
  size_t unseen = 0;  ///< processes that may be trainers, and that this user may not look into
};

}  // namespace dlprobe
