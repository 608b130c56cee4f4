#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/collect/snapshot/frame_places.h"
#include "lib/collect/snapshot/process_image.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/collect/snapshot/thread_look.h"
#include "lib/collect/snapshot/thread_pause.h"
#include "lib/model/recording.h"
#include "lib/stacks/locks/python_locks.h"
#include "lib/stacks/native/process_group.h"
#include "lib/stacks/native/symbol_source.h"

namespace dlprobe {

/// One process's part of a snapshot of its tree, in the order of these functions.
class ProcessLook {
 public:
  /// What is given by reference must outlive it.
  ProcessLook(const Machine& machine, const SnapshotTarget& target, KeptLooks& kept)
      : image_(machine, target, kept) {}

  /// Its threads, with stacks that have no names yet. Stops threads for no longer than `max_pause`.
  Expected<ProcessSnapshot> look(std::chrono::nanoseconds max_pause);
  /// What could not be seen.
  std::vector<Gap> gaps() const;
  /// Of a distributed job, by the environment that its memory has now, else by its process group.
  const std::optional<JobRank>& rank() const { return rank_; }

  /// Asks for the names of functions.
  void want_names(ProcessSnapshot& snapshot, FunctionNames& names) const;
  /// What follows from the names.
  void refine(ProcessSnapshot& snapshot) const;
  /// The pid namespace of a process in one of its own, where `own_tid` is said; else 0.
  uint64_t nested_namespace() const;
  /// See LockLook::look; and the futures that have failed where the main thread has long waited.
  /// `parent`: the look at its parent, if there is one.
  void find_locks(ProcessSnapshot& snapshot, bool with_shared, PythonLockPlaces& places,
                  const ProcessLook* parent) const;
  /// What somebody waited for who went on before it was known who has its other end proves nothing.
  void mark_those_who_moved_on(ProcessSnapshot& snapshot) const;

 private:
  /// What is there once the image is open.
  struct Parts {
    explicit Parts(ProcessImage& image)
        : frames(image.space, *image.directory, image.kept.modules),
          threads(image, seen, frames),
          pause(image, seen, threads) {}
    SeenThreads seen;
    FramePlaces frames;
    ThreadLook threads;
    ThreadPause pause;
  };

  void find_groups(SymbolSource& symbols);
  void find_progress(ProcessSnapshot& snapshot, const std::string& environment);

  ProcessImage image_;
  std::unique_ptr<Parts> parts_;  ///< while it is looked at
  std::vector<ProcessGroup> groups_;
  std::optional<JobRank> rank_;
  std::optional<Error> unread_dump_;  ///< of the Flight Recorder
};

}  // namespace dlprobe
