#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lib/collect/shm/mounts.h"
#include "lib/collect/tree/process_tree.h"
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

  /// One ledger for each mount, in their order. A mount whose use cannot be read has none. Calls
  /// `between` after each process: a look may take long.
  std::vector<ShmLedger> take(const ProcessTree& tree, const ShmMounts& mounts, Scope scope,
                              const std::function<void()>& between);

 private:
  struct Visited;  ///< a process that was looked at
  struct Scan;     ///< one take()
  /// The living processes with the pid that a segment's name holds.
  struct CreatorFacts {
    std::vector<int64_t> alive_since_ns;  ///< CLOCK_REALTIME, of those that see the mount
    bool unknown = false;                 ///< there is one that cannot be looked at
    bool all_seen = false;                ///< no process with that pid can be out of sight
  };

  void scan_names(Scan& scan) const;
  void list_names(Scan& scan, size_t mount, const std::string& folder, int depth) const;
  void scan_tree(Scan& scan, const ProcessTree& tree);
  void scan_others(Scan& scan, const ProcessTree& tree);
  void visit(Scan& scan, const Visited& visited);
  static void drop_unlinked(Scan& scan, const ShmMounts& mounts);
  void ask_trackers(Scan& scan) const;
  ShmLedger finish(Scan& scan, size_t mount, const ProcessTree& tree) const;
  std::vector<int32_t> list_processes();
  CreatorFacts creator_facts(int32_t own_pid, uint64_t device, const ProcessTree& tree) const;
  void look_at_creator(int32_t seen_pid, int32_t own_pid, uint64_t device,
                       CreatorFacts& facts) const;
  static CreatorState creator_state(const CreatorFacts& facts, int64_t modified_ns);

  Machine machine_;
  DeadlineReader* reader_;
  bool sees_all_pids_ = false;      ///< dlprobe is in the initial pid namespace
  std::vector<int32_t> outsiders_;  ///< pids outside the tree that held something
  /// Processes of nested pid namespaces: (pid in its own namespace, pid as dlprobe sees it).
  std::vector<std::pair<int32_t, int32_t>> nested_;
};

}  // namespace dlprobe
