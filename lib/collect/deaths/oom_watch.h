#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/collect/tree/cgroup_reader.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/record_sink.h"

namespace dlprobe {

/// What the host's counter says now; nothing where it cannot be read.
std::optional<OomCounters> read_host_oom_counter(const Machine& machine);

/// Follows the counters of OOM kills: of the host, of every memory cgroup that a member of a tree
/// is in, and of the groups above it that can be seen.
class OomWatch {
 public:
  OomWatch(Machine machine, RecordSink& sink) : machine_(std::move(machine)), sink_(&sink) {}

  /// Looks for groups that are new since the last call, and records what they say.
  void find_groups(ProcessTree& tree);

  /// Reads every counter; records those that have moved.
  void read();

 private:
  struct Group {
    int version = 0;
    std::unique_ptr<const KeptFile> events;        ///< memory.events, or v1: memory.oom_control
    std::unique_ptr<const KeptFile> local_events;  ///< memory.events.local, or v1: memory.failcnt
    OomCounters last;
    bool read_before = false;
  };

  void add_group(const MemoryCgroup& group, const std::string& path, const std::string& up);
  void read_group(Group& group);
  void read_host();
  bool record(const OomCounters& now, const OomCounters& last, bool read_before);

  Machine machine_;
  RecordSink* sink_;
  std::vector<Group> groups_;
  std::set<std::string> known_;  ///< paths of groups that were looked for
  OomCounters host_;
  bool host_read_ = false;
};

}  // namespace dlprobe
