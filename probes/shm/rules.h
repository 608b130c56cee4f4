#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "probes/shm/facts.h"

namespace dlprobe::probes::shm {

/// The moment at which shared memory did not suffice, or will not.
struct Shortage {
  enum class How {
    kBusError,     ///< a process died of SIGBUS on a full mount
    kReservation,  ///< the kernel refused to reserve a segment
    kException,    ///< a file in it had no space: the exception says so
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

/// The first shortage that a run shows: a SIGBUS, a segment that got no page, a file that
/// was refused, or a failure of the loader after the mount was full; nothing if there was none.
std::optional<Shortage> observed_shortage(const Facts& facts);

/// The shortage that the plan foretells; nothing if there is no plan, or it fits.
std::optional<Shortage> foretold_shortage(const Facts& facts);

/// Whether a file of a dead worker took space before the shortage: what a worker leaves that died
/// of the shortage, or after it, is not why it died.
bool left_before(const Facts& facts, const Shortage& shortage, const ShmSegment& segment);

/// Who has the space without which there would be no shortage.
struct Blame {
  FindingCode code = FindingCode::kShmHeldByAnotherJob;
  Split split;
  const Shortage* shortage = nullptr;
};
/// Nothing where the loader alone is too large for the mount.
std::optional<Blame> blame_for(const Facts& facts, const Shortage& shortage);

/// A span in which no process of a living tree moved, and the trainer waited for a batch.
struct LoaderStall {
  BootNs from = 0;
  BootNs to = 0;
  OwnWords trainer_waits;  ///< "poll on pipe 13771"
  bool through_pin_thread = false;
};
/// The longest stall of at least kShortestStall; nothing if there is none.
std::optional<LoaderStall> find_stall(const Facts& facts);

// Each gives what it finds in one run; nothing where the rule does not apply.
std::optional<Finding> too_small(const Facts& facts, const Shortage* foretold);  // DLP0101
Finding exhausted(const Facts& facts, const Shortage& shortage);                 // DLP0102
/// DLP0103. A consequence of `failure` where the subject's own processes left all of it. What a
/// `leak` of blocks at the job's end tells of is left out.
std::optional<Finding> stale_files(const Facts& facts, const Blame* blame, const Finding* failure,
                                   const Finding* leak);
/// DLP0104. A consequence of `failure`, which tells of `observed`, where none of it was there
/// before.
std::optional<Finding> leak(const Facts& facts, const Blame* blame, const Shortage* observed,
                            const Finding* failure);
/// How the finding of left_at_end is told from the others.
inline constexpr std::string_view kLeftAtEnd = "left-at-end";
/// DLP0104 behind: blocks of Python's shared memory that the job made and did not remove.
std::optional<Finding> left_at_end(const Facts& facts);
/// DLP0104 ahead: files of the job that have a name and become more and more.
/// Where they hold half of the mount and more, `failure` is their consequence; it may be null.
std::optional<Finding> growing_files(const Facts& facts, Finding* failure);
std::optional<Finding> held_by_another_job(const Facts& facts,
                                           const Blame* blame);  // DLP0105
Finding batch_lost(const Facts& facts, const Shortage& shortage,
                   const LoaderStall& stall);                  // DLP0106
std::optional<Finding> leaked_semaphores(const Facts& facts);  // DLP0107
std::optional<Finding> inodes_exhausted(const Facts& facts);   // DLP0108
std::optional<Finding> epoch_end_delayed(const Facts& facts);  // DLP0111

/// Whether the end of a spawned worker was seen, and with it how its trainer took it.
bool saw_spawned_workers_end(const RecordingView& recording);

/// The watch of a live tree was too short to prove a lost batch; nothing where it was long enough.
std::optional<Gap> limit_of_short_watch(const Run& run);

/// What about shared memory could not be seen in this run.
std::vector<Gap> gaps_of(const Facts& facts);

}  // namespace dlprobe::probes::shm
