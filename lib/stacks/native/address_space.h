#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/error.h"
#include "lib/os/file_system.h"
#include "lib/proc/maps.h"

namespace dlprobe {

/// The mappings of one process at one moment, in address order.
class AddressSpace {
 public:
  explicit AddressSpace(std::vector<Mapping> mappings) : mappings_(std::move(mappings)) {}

  /// Reads the maps file of the process whose /proc directory it is. May wait for the target's mmap
  /// lock: run it by DeadlineReader.
  static Expected<AddressSpace> read(const Directory& process);

  const std::vector<Mapping>& mappings() const { return mappings_; }

  /// The mapping that holds `address`; null if none does.
  const Mapping* find(uint64_t address) const;

 private:
  std::vector<Mapping> mappings_;
};

}  // namespace dlprobe
