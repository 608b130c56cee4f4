#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>

#include "lib/collect/snapshot/shared_connections.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/collect/tree/time_budget.h"
#include "lib/model/snapshot.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Regular files that several processes of a tree have open, and who moves their position; and the
/// connections that they share.
///
/// A descriptor that was copied by fork shares its position with the original. Who reads through it
/// no file of the kernel says; but while the position moves, some of those who share it have read
/// something (/proc/PID/io) and the others have not. Files that are only appended to or written,
/// standard streams and shared memory are left out. Not thread-safe.
class SharedFileWatch {
 public:
  /// The files of `processes`, in their order. Where a position has moved since the last look, it
  /// is watched for up to 100 ms; else this takes a microsecond or two for each open file.
  SharedFileLook look(const Machine& machine, std::span<const ProcessKey> processes);

  /// Adds such a look to `sink` where one is due: at the first tick after the newest of `processes`
  /// came, then more and more seldom, within 0.2 % of a core. A short job is over soon, and what a
  /// long one does once it does again.
  void look_if_due(const Machine& machine, std::span<const ProcessKey> processes, BootNs newest,
                   RecordSink& sink);

 private:
  using Place = std::pair<ProcessKey, int32_t>;  // process and descriptor
  std::map<Place, uint64_t> positions_;          ///< at the last look
  BootNs last_ = 0;                              ///< when look_if_due() looked
  TimeBudget budget_{0.002, 800'000'000};
  SharedConnectionWatch connections_;
  size_t turn_ = 0;  ///< which of many that move is watched next
};

}  // namespace dlprobe
