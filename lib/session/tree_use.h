#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/model/ids.h"
#include "lib/model/process.h"
#include "lib/model/sample.h"
#include "lib/model/tuning.h"

namespace dlprobe {

/// What the processes of a tree used at most while it was measured.
class TreeUse {
 public:
  void take(const ProcessInfo& info);
  void take(const Sample& sample);

  /// Those that lived at the newest sample.
  const std::vector<ProcessKey>& living() const { return living_; }

  /// Fills in memory, descriptors and /dev/shm, and the roles of its processes.
  void put(SpeedMeasurement& speed) const;

 private:
  std::map<ProcessKey, Role> roles_;
  std::vector<ProcessKey> living_;
  std::map<ProcessKey, uint64_t> pss_;
  std::optional<uint64_t> memory_bytes_;  ///< a sum that lacks a part is none
  std::optional<uint64_t> fds_;           ///< of one process
  std::optional<uint64_t> shm_before_;
  std::optional<uint64_t> shm_most_;
};

}  // namespace dlprobe
