#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/descriptors.h"
#include "lib/model/recording.h"
#include "probes/facts/trend.h"

namespace dlprobe::probes::fd {

/// How many there were at a moment.
struct CountAt {
  BootNs at = 0;
  uint64_t count = 0;
};

/// What the descriptors led to at a moment.
struct KindsAt {
  BootNs at = 0;
  FdKinds kinds;
};

/// What a run tells of the descriptors and mappings of one process. Points into the recording.
struct Series {
  const ProcessInfo* process = nullptr;
  std::vector<CountAt> counts;       ///< in time order
  std::vector<KindsAt> kinds;        ///< in time order
  std::vector<CountAt> maps;         ///< mappings, in time order
  std::vector<const FdLook*> looks;  ///< in time order
  std::optional<uint64_t> limit;     ///< soft; none: unlimited or not known
  std::optional<uint64_t> hard_limit;
  uint64_t most = 0;  ///< descriptors at once
  const StartEvent* refused =
      nullptr;                  ///< it was refused one by its limit, and that ended something
  std::optional<Error> unread;  ///< why they could not be counted, or not told apart

  const ProcessKey& key() const { return process->key; }
  /// It was last seen with the run's last sample.
  bool until_end = false;
};

/// The end of a process that went wrong.
struct FailedExit {
  ProcessKey key;
  BootNs at = 0;
  BootNs raised_at = 0;  ///< of the exception that ended it, where one did: seconds may lie between
  OwnWords how;          ///< "exit code 1"
};

/// What a run tells of descriptors.
struct Facts {
  const RecordingHeader* header = nullptr;
  const Run* run = nullptr;
  const ProcessInfo* trainer = nullptr;
  std::vector<Series> series;        ///< in key order
  std::vector<FailedExit> failures;  ///< in time order; of one that was ended by others none
  uint64_t workers = 0;
};

/// Whether a process was refused a descriptor by its own limit of them: EMFILE is said of others,
/// too.
bool is_refused_descriptor(const StartEvent& event);

Facts facts_of(const RecordingHeader& header, const Run& run);

/// As a series of the trend test, up to `end`.
std::vector<SeriesPoint> points_of(const std::vector<CountAt>& counts, BootNs end);

/// The last point at or before `at`, else the first one; null if there is none.
const KindsAt* kinds_at(const Series& series, BootNs at);

/// The look nearest to `at`; null if there is none.
const FdLook* look_near(const Series& series, BootNs at);

/// "sockets", "files", "segments in /dev/shm" ...: several of that kind in words.
OwnWords plural_of(FdKind kind);

/// The largest groups of a look, "212 x /data/*, 3 x pipe"; empty without one.
Message held_text(const FdLook* look);

inline constexpr const char* kCountSource = "number of entries of /proc/PID/fd";
inline constexpr const char* kKindsSource = "stat of /proc/PID/fd/N";
inline constexpr const char* kLimitSource = "/proc/PID/limits, Max open files";

}  // namespace dlprobe::probes::fd
