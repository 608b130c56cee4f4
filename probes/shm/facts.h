#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "lib/model/recording_view.h"

namespace dlprobe::probes::shm {

/// The files that one party has in /dev/shm.
struct Share {
  uint64_t bytes = 0;
  std::vector<const ShmSegment*> segments;  ///< largest first
};

/// Whose the shared memory is, as far as the kernel proves it.
struct Split {
  const ShmLedger* ledger = nullptr;
  Share tree;  ///< held by the subject, or made by a live process of it
  /// Made by a dead process of the subject, or by an unknown dead one while the trainer lived;
  /// nobody holds it, the trainer lives.
  Share leaked;
  Share other_job;   ///< held or made by live processes outside
  Share stale;       ///< its creator is dead and nobody holds it
  Share unheld;      ///< named, nobody holds it, and its name tells no creator
  Share unknown;     ///< cannot be told: a creator in another pid namespace, in flight in a socket
  Share semaphores;  ///< sem.* files that nobody holds
};

/// What a run tells of the /dev/shm that its subject sees. Points into the recording.
struct Facts {
  const RecordingHeader* header = nullptr;
  const Run* run = nullptr;
  const ShmMount* mount = nullptr;        ///< null: not known
  Message source;                         ///< "statvfs /dev/shm (as seen by pid 42)"
  std::vector<ShmUse> use;                ///< of that mount, in time order
  std::vector<const ShmLedger*> ledgers;  ///< of that mount, in time order
  const ProcessInfo* trainer = nullptr;
  std::vector<const ProcessInfo*> workers;
  uint64_t page_size = 4096;
  uint64_t most_workers = 0;                    ///< alive at once
  const ShmSegment* largest_segment = nullptr;  ///< tensor of the subject; null: none was seen

  /// Bytes of the largest tensor segment of the subject; 0 if none was seen.
  uint64_t segment_bytes() const { return largest_segment ? largest_segment->size_bytes : 0; }
  /// Where it is mounted; where it should be, if that is not known.
  Message where() const { return as_path(mount ? mount->mount_point : "/dev/shm"); }
  /// The size of the mount at the last look; 0: no limit, or never seen.
  uint64_t size_bytes() const { return use.empty() ? 0 : use.back().size_bytes; }
};

/// No limit on a tmpfs of size 0.
inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

Facts facts_of(const RecordingHeader& header, const Run& run);

/// The exceptions that ended something of the job because a file in the mount had no space.
std::vector<const StartEvent*> refused_space(const Facts& facts);

/// Bytes that a new page may still come from; kUnlimited where the mount has no limit.
uint64_t free_bytes(const ShmUse& use);

/// The use with the fewest free bytes in [from, to]; null if there was no look at it then.
const ShmUse* tightest_use(const Facts& facts, BootNs from, BootNs to);

/// The last ledger at or before `at`, else the first one; null if there is none.
const ShmLedger* ledger_at(const Facts& facts, BootNs at);

/// The ledger nearest to `at` for which every process was looked at, not only the subject's: the
/// only kind that tells who else holds something. Null if there is none.
const ShmLedger* full_ledger_near(const Facts& facts, BootNs at);

/// Whether a process of the job has it, also one that was so young at that look that it was not yet
/// known to be of the job.
bool is_held_by_job(const Facts& facts, const ShmSegment& segment);

/// Whether the file is a named semaphore, of Python or not.
bool is_semaphore(const ShmSegment& segment);

/// Sorts the files of a ledger by whose they are.
Split split_ledger(const Facts& facts, const ShmLedger& ledger);

/// What others than the loader had in the mount when the run began.
uint64_t foreign_bytes(const Facts& facts);

/// What the loader needs at the most: the plan's forecast, else what its own segments say for the
/// default prefetch_factor: (workers x 2 + 1) x the largest segment. 0: cannot be told.
struct Demand {
  uint64_t bytes = 0;
  /// With the batch more that PyTorch's training loop has for a moment: it takes the next one
  /// before it lets go of the old one, and with the taking the worker's next task begins. Measured
  /// with torch 1.13 and 2.13: between 0 and 1 batch more, by chance.
  uint64_t most_bytes = 0;
  uint64_t batch_bytes = 0;
  OwnWords formula;
};
Demand demand_of(const Facts& facts);

/// A segment that was made with a size, and that the kernel then gave not one page.
struct FailedReservation {
  uint64_t segment_bytes = 0;
  ProcessKey creator;
  BootNs at = 0;     ///< when it was first seen
  std::string name;  ///< hostile text; empty if only an event tells of it
};

/// The subject's failed reservations, first seen first: files with a size and without a page that
/// stay so. A healthy loader has such a file only between two system calls, so one look proves
/// nothing unless its creator is dead or the mount has no room for it.
std::vector<FailedReservation> failed_reservations(const Facts& facts);

}  // namespace dlprobe::probes::shm
