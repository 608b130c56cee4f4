#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "lib/base/error.h"
#include "lib/model/loader_fault.h"
#include "lib/model/loader_plan.h"

namespace dlprobe::loader {

/// What a fault means for one plan: plain numbers, nothing done yet.
struct FaultEffects {
  bool private_mount = false;  ///< a tmpfs of its own on /dev/shm, in a mount namespace of its own
  uint64_t mount_bytes = 0;
  uint64_t mount_inodes = 0;      ///< 0: no limit
  uint64_t stale_files = 0;       ///< named segments that a killed process left
  uint64_t stale_bytes = 0;       ///< of all of them
  uint64_t stale_semaphores = 0;  ///< sem.mp-* that a killed process left
  uint64_t held_bytes = 0;        ///< segments of a live process outside of this one's tree
  bool sparse_segments = false;   ///< see SegmentPolicy::reserve
  bool share_in_feeder = false;  ///< batches are private until the worker's send thread shares them
  int stall_after = -1;          ///< batches, after which the training loop waits for full prefetch
  bool ramp_up = false;          ///< one task less is outstanding until then
  int keep_batches = 0;          ///< how many batches the training loop keeps for ever
  int abandon_every = 0;  ///< batches, after each of which a worker dies and a new set starts
  int abandon_times = 0;
  std::chrono::seconds lost_batch_limit{
      0};                 ///< how long the training loop waits for one batch; 0: for ever
  int needs_batches = 0;  ///< per epoch, so that it happens at all

  uint64_t open_files = 0;         ///< soft limit of descriptors of each process; 0: as it is
  uint64_t leak_per_batch = 0;     ///< descriptors that a worker opens and does not close
  std::string leak_kind = "file";  ///< "file", "socket", "pipe"
  int leak_after = 0;              ///< the first batch that it may happen in
  int leak_worker = 0;             ///< the worker that it happens to

  /// The loader stands still, for ever or for `sample_time`: its kind, else kNone; see hang.h.
  FaultKind hang = FaultKind::kNone;
  int hang_after = 0;   ///< the first batch that it, or a death, may happen in
  int hang_worker = 0;  ///< the worker that it, or a death, happens to
  bool spins = false;   ///< threads of OpenMP turn round where they would sleep
  std::chrono::seconds sample_time{0};

  /// A worker ends: its kind, else kNone; see death.h.
  FaultKind death = FaultKind::kNone;
  int death_signal = 0;     ///< that it crashes with, or is sent
  int exit_code = 0;        ///< that it ends with
  uint64_t grow_bytes = 0;  ///< memory that it takes
  /// Memory grows: its kind, else kNone; see memory_fault.h.
  FaultKind memory = FaultKind::kNone;
  int memory_worker = 0;                    ///< of a leak
  uint64_t memory_rate = 0;                 ///< bytes a second, of each worker
  uint64_t shared_bytes = 0;                ///< that the main process has before its workers start
  int ahead = 0;                            ///< tasks outstanding in all; 0: as the plan says
  std::chrono::milliseconds step_pause{0};  ///< of the training loop, after each batch
  std::chrono::seconds lasts{0};            ///< after which the training loop ends; 0: by batches

  int worker_threads = 0;  ///< of the team in each worker (see thread_team.h); 0: there is none
  /// What is wrong with how workers come to be: its kind, else kNone; see start_fault.h.
  FaultKind start = FaultKind::kNone;
  std::chrono::seconds own_work{0};  ///< that the program does before it starts workers
  uint64_t own_memory = 0;           ///< that this work takes, bytes
};

/// kInvalid if the fault cannot happen to this plan (says why).
Expected<FaultEffects> effects_of(const Fault& fault, const LoaderPlan& plan);

}  // namespace dlprobe::loader
