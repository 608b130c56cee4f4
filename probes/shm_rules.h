#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "probes/shm_facts.h"

namespace dlprobe {

/// The moment at which shared memory did not suffice, or will not.
struct ShmShortage {
  enum class How {
    kBusError,     ///< a process died of SIGBUS on a full mount
    kReservation,  ///< the kernel refused to reserve a segment
    kFailure,      ///< the job failed just after the mount was full, its workers gone unseen
    kForecast,     ///< the plan needs more than is there
  };
  How how = How::kReservation;
  Confidence confidence = Confidence::kCertain;
  BootNs at = 0;
  uint64_t wanted_bytes = 0;        ///< the segment that did not fit; of a forecast: all of it
  ShmUse use;                       ///< of the mount, just before
  std::vector<ProcessKey> victims;  ///< who asked for it
  std::vector<Evidence> proof;      ///< what proves it, beside size and use
};

/// The first shortage that a run shows: a SIGBUS or a failed reservation; nothing if there was
/// none.
std::optional<ShmShortage> observed_shortage(const ShmFacts& facts);

/// The shortage that the plan foretells; nothing if there is no plan, or it fits.
std::optional<ShmShortage> foretold_shortage(const ShmFacts& facts);

/// Whether a file of a dead worker took space before the shortage: what a worker leaves that died
/// of the shortage, or after it, is not why it died.
bool left_before(const ShmFacts& facts, const ShmShortage& shortage, const ShmSegment& segment);

/// Who has the space without which there would be no shortage.
struct ShmBlame {
  FindingCode code = FindingCode::kShmHeldByAnotherJob;
  ShmSplit split;
  const ShmShortage* shortage = nullptr;
};
/// Nothing where the loader alone is too large for the mount.
std::optional<ShmBlame> blame_for(const ShmFacts& facts, const ShmShortage& shortage);

/// A span in which no process of a living tree moved, and the trainer waited for a batch.
struct LoaderStall {
  BootNs from = 0;
  BootNs to = 0;
  std::string trainer_waits;  ///< "poll on pipe 13771"
  bool through_pin_thread = false;
};
/// The longest stall of at least kShortestStall; nothing if there is none.
std::optional<LoaderStall> find_stall(const ShmFacts& facts);

// Each gives what it finds in one run; nothing where the rule does not apply.
std::optional<Finding> too_small(const ShmFacts& facts, const ShmShortage* foretold);  // DLP0101
Finding exhausted(const ShmFacts& facts, const ShmShortage& shortage);                 // DLP0102
/// DLP0103. A consequence of `failure` where the subject's own processes left all of it.
std::optional<Finding> stale_files(const ShmFacts& facts, const ShmBlame* blame,
                                   const Finding* failure);
/// DLP0104. A consequence of `failure`, which tells of `observed`, where none of it was there
/// before.
std::optional<Finding> leak(const ShmFacts& facts, const ShmBlame* blame,
                            const ShmShortage* observed, const Finding* failure);
std::optional<Finding> held_by_another_job(const ShmFacts& facts,
                                           const ShmBlame* blame);  // DLP0105
Finding batch_lost(const ShmFacts& facts, const ShmShortage& shortage,
                   const LoaderStall& stall);                     // DLP0106
std::optional<Finding> leaked_semaphores(const ShmFacts& facts);  // DLP0107
std::optional<Finding> inodes_exhausted(const ShmFacts& facts);   // DLP0108

/// The watch of a live tree was too short to prove a lost batch; nothing where it was long enough.
std::optional<Gap> limit_of_short_watch(const Run& run);

/// What about shared memory could not be seen in this run.
std::vector<Gap> shm_gaps(const ShmFacts& facts);

}  // namespace dlprobe
