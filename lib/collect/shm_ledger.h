#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/collect/process_tree.h"
#include "lib/collect/shm_holdings.h"
#include "lib/collect/shm_mounts.h"
#include "lib/model/shm.h"

namespace dlprobe {

/// Accounts for every segment in the /dev/shm mounts of a tree: its names, and who holds it.
class LedgerKeeper {
 public:
  enum class Scope {
    kTree,  ///< the tree, and those outside it that held something at the last full look
    kAll,   ///< every process that can be seen
  };

  /// `reader` must outlive it.
  LedgerKeeper(Machine machine, DeadlineReader& reader);

  /// One ledger for each mount, in their order. A mount whose use cannot be read has none.
  std::vector<ShmLedger> take(const ProcessTree& tree, const ShmMounts& mounts, Scope scope);

 private:
  struct Visited;  ///< a process that was looked at
  struct Scan;     ///< one take()

  void scan_names(Scan& scan) const;
  void list_names(Scan& scan, size_t mount, const std::string& folder, int depth) const;
  void scan_tree(Scan& scan, const ProcessTree& tree);
  void scan_others(Scan& scan, const ProcessTree& tree, Scope scope);
  void visit(Scan& scan, const Visited& visited);
  bool could_hold(const Directory& process, const std::set<uint64_t>& devices) const;
  ShmLedger finish(Scan& scan, size_t mount, const ProcessTree& tree) const;
  CreatorState creator_state(const ShmSegment& segment, uint64_t device,
                             const ProcessTree& tree) const;
  std::optional<bool> is_creator(const Directory& process, const ShmSegment& segment,
                                 uint64_t device) const;

  Machine machine_;
  DeadlineReader* reader_;
  bool sees_all_pids_ = false;      ///< dlprobe is in the initial pid namespace
  std::vector<int32_t> outsiders_;  ///< pids outside the tree that held something
  /// Processes of nested pid namespaces: (pid in its own namespace, pid as dlprobe sees it).
  std::vector<std::pair<int32_t, int32_t>> nested_;
};

}  // namespace dlprobe
