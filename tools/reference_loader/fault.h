#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "lib/base/error.h"
#include "lib/model/loader_fault.h"
#include "lib/model/loader_plan.h"
#include "lib/os/private_shm.h"

namespace dlprobe::loader {

/// What another job, or a killed one, has left in /dev/shm before the loader starts.
struct Litter {
  uint64_t files = 0;       ///< named segments that a killed process left
  uint64_t bytes = 0;       ///< of all of them
  uint64_t semaphores = 0;  ///< sem.mp-* that a killed process left
  uint64_t held_bytes = 0;  ///< segments of a live process outside of this one's tree
};

/// What the training loop does otherwise.
struct LoopFault {
  int stall_after = -1;   ///< batches, after which it waits for full prefetch
  bool ramp_up = false;   ///< one task less is outstanding until then
  int keep_batches = 0;   ///< how many batches it keeps for ever
  int abandon_every = 0;  ///< batches, after each of which a worker dies and a new set starts
  int abandon_times = 0;
  std::chrono::seconds lost_batch_limit{0};  ///< how long it waits for one batch; 0: for ever
};

/// A worker opens descriptors and does not close them.
struct DescriptorLeak {
  uint64_t per_batch = 0;
  std::string kind;  ///< "file", "socket", "pipe"
};

/// The loader stands still, for ever or for `sample_time`; see hang.h.
struct Hang {
  bool spins = false;  ///< threads of OpenMP turn round where they would sleep
  std::chrono::seconds sample_time{0};
};

/// A worker ends; see death.h.
struct Death {
  int signal = 0;           ///< that it crashes with, or is sent
  int exit_code = 0;        ///< that it ends with
  uint64_t grow_bytes = 0;  ///< memory that it takes
};

/// Memory grows; see memory_fault.h.
struct Growth {
  uint64_t rate = 0;                        ///< bytes a second, of each worker
  uint64_t shared_bytes = 0;                ///< that the main process has before its workers start
  int ahead = 0;                            ///< tasks outstanding in all; 0: as the plan says
  std::chrono::milliseconds step_pause{0};  ///< of the training loop, after each batch
  std::chrono::seconds lasts{0};            ///< after which the training loop ends
};

/// Each worker has a team of threads; see thread_team.h.
struct ThreadTeams {
  int threads = 0;
};

/// Something is wrong with how workers come to be; see start_fault.h.
struct StartFault {
  std::chrono::seconds own_work{0};  ///< that the program does before it starts workers
  uint64_t own_memory = 0;           ///< that this work takes, bytes
};

/// What a fault means for one plan: plain numbers, nothing done yet.
struct FaultEffects {
  FaultKind kind = FaultKind::kNone;
  int needs_batches = 0;  ///< per epoch, so that it happens at all
  int after = 0;          ///< the first batch that it may happen in, where a worker does it
  int worker = 0;         ///< the worker that it happens to
  /// A tmpfs of its own on /dev/shm, in a mount namespace of its own.
  std::optional<PrivateShm> shm;
  Litter litter;
  LoopFault loop;
  bool sparse_segments = false;  ///< see SegmentPolicy::reserve
  uint64_t open_files = 0;       ///< soft limit of descriptors of each process; 0: as it is
  std::variant<std::monostate, DescriptorLeak, Hang, Death, Growth, ThreadTeams, StartFault> doing;

  /// Null: the fault is of another kind.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&doing);
  }
};

/// kInvalid if the fault cannot happen to this plan (says why).
Expected<FaultEffects> effects_of(const Fault& fault, const LoaderPlan& plan);

}  // namespace dlprobe::loader
