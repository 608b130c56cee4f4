#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "lib/model/snapshot.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Regular files that several processes of a tree have open, and who moves their position.
///
/// A descriptor that was copied by fork shares its position with the original. Who reads through it
/// no file of the kernel says; but while the position moves, some of those who share it have read
/// something (/proc/PID/io) and the others have not. Files that are only appended to or written,
/// standard streams and shared memory are left out. Not thread-safe.
class SharedFileWatch {
 public:
  /// Fills in ProcessSnapshot::shared_files. Where a position has moved since the last look, it is
  /// watched for up to 100 ms; else this takes a microsecond or two for each open file.
  void look(const Machine& machine, TreeSnapshot& tree);

 private:
  using Place = std::pair<ProcessKey, int32_t>;  // process and descriptor
  std::map<Place, uint64_t> positions_;          ///< at the last look
};

}  // namespace dlprobe
