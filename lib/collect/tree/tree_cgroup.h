#pragma once

#include <optional>
#include <string>
#include <utility>

#include "lib/collect/tree/cgroup_reader.h"
#include "lib/collect/tree/gap_log.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// The memory cgroup of a tree: of its trainer, or of another member while there is none.
class TreeCgroup {
 public:
  /// `gaps` must outlive it.
  TreeCgroup(Machine machine, GapLog& gaps) : machine_(std::move(machine)), gaps_(gaps) {}

  /// Finds it anew: the tree, or a process of it, may have moved.
  void find(const ProcessTree& tree);

  /// Nothing where it could not be opened.
  std::optional<Observed<CgroupMemory>> read(BootNs now);

 private:
  Machine machine_;
  GapLog& gaps_;
  std::optional<CgroupReader> reader_;
  std::string path_;
};

}  // namespace dlprobe
