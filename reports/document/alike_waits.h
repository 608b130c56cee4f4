#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "reports/model/report.h"

namespace dlprobe {

/// A process with its threads at the last look: of a report, or of `dlprobe stacks`.
struct LookedAt {
  int64_t pid = 0;
  std::optional<Role> role;
  std::optional<int32_t> rank;  ///< of a distributed job
  std::string comm;
  uint64_t run = 0;
  const report::LastLook* look = nullptr;    ///< points into the document
  const report::Process* process = nullptr;  ///< likewise, if it is a report
};

/// A process, and what has to be equal for it to be folded with another.
struct AlikeProcess {
  const LookedAt* process = nullptr;
  std::string key;
};

/// Processes that are shown once.
struct FoldedProcesses {
  const LookedAt* first = nullptr;
  std::vector<const LookedAt*> others;
};

/// "workers 5, 6: same as worker 4", "ranks 1-3 (15340, 15342-15343): same as rank 0 (15339)"; of a
/// group that has others.
std::string same_as_text(const FoldedProcesses& group);

/// Tells which threads and processes of a document wait for the same, so that only these are
/// folded: for one object, or each for an own one of the same kind that no thread of the tree is
/// known to hold. Who wait for one another are never the same.
class AlikeWaits {
 public:
  /// `channel_ends` and `wait_graph` say who could end a wait; either may be empty.
  AlikeWaits(const std::vector<LookedAt>& processes,
             const std::vector<report::ChannelEnd>& channel_ends,
             const report::WaitGraph& wait_graph);

  /// Equal for two threads of one process that wait for the same.
  std::string key_in_process(const report::Thread& thread) const;
  /// Equal for two threads of different processes that wait for the same.
  std::string key_among_processes(const LookedAt& process, const report::Thread& thread) const;

  /// Those with equal keys, but for those that wait for one another; in the order of the first.
  std::vector<FoldedProcesses> fold(std::span<const AlikeProcess> processes) const;

 private:
  struct Place {
    int64_t pid = 0;
    size_t index = 0;  ///< of the thread in its process
  };
  /// What is waited for.
  struct Object {
    std::set<int64_t> waiters;  ///< pids
    std::set<int64_t> holders;  ///< pids of who could end the wait
  };

  using Needs = std::map<int64_t, std::set<int64_t>>;  ///< whom each waits for

  void add_channels(const std::vector<LookedAt>& processes,
                    const std::vector<report::ChannelEnd>& channel_ends);
  void add_graph(const report::WaitGraph& graph);
  Needs needs_among(const std::set<int64_t>& pids) const;
  /// Those of `pids` that stand in a circle of some of them, each waiting for the next.
  std::set<int64_t> in_circle(const std::set<int64_t>& pids) const;

  std::map<int64_t, Place> threads_;  ///< by tid
  std::map<std::string, Object> objects_;
};

}  // namespace dlprobe
