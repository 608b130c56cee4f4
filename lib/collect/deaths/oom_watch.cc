#include "lib/collect/deaths/oom_watch.h"

#include <utility>

#include "lib/base/parse.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/host_memory.h"

namespace dlprobe {
namespace {

constexpr size_t kMostGroups = 64;  ///< of a job that makes groups without end

/// "/a/b" is "/a", "/a" is "/".
std::string parent_path(const std::string& path) {
  const size_t end = path.rfind('/');
  return end == 0 || end == std::string::npos ? "/" : path.substr(0, end);
}

/// What moves; the limit may be read anew.
bool same_counts(const OomCounters& one, const OomCounters& other) {
  return one.kills == other.kills && one.limit_hits == other.limit_hits &&
         one.limit_meets == other.limit_meets && one.group_kills == other.group_kills;
}

}  // namespace

std::optional<OomCounters> read_host_oom_counter(const Machine& machine) {
  const auto kills = chain(machine.root->read("proc/vmstat"), parse_vmstat_oom_kills);
  if (!kills) return std::nullopt;
  return OomCounters{.at = machine.clock->now(), .kills = *kills};
}

void OomWatch::find_groups(ProcessTree& tree) {
  for (auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    refresh_cgroup(process);
    if (!process.info.cgroup || known_.size() >= kMostGroups) continue;
    if (!known_.insert(*process.info.cgroup).second) continue;
    const auto group = find_memory_cgroup(machine_, *process.directory);
    if (!group) continue;
    std::string path = group->path;
    std::string up;
    for (int level = 0; level <= group->levels; ++level, up += "../") {
      if (level == 0 || known_.insert(path).second) add_group(*group, path, up);
      path = parent_path(path);
    }
  }
}

void OomWatch::add_group(const MemoryCgroup& group, const std::string& path,
                         const std::string& up) {
  const bool unified = group.version == 2;
  Group added;
  added.version = group.version;
  // The real root of v2 has none of these files.
  auto events = group.directory->keep_file(up + (unified ? "memory.events" : "memory.oom_control"));
  if (!events) return;
  added.events = std::move(*events);
  const std::string local = unified ? "memory.events.local" : "memory.failcnt";
  added.local_events = group.directory->keep_file(up + local).value_or(nullptr);
  const std::string limit = unified ? "memory.max" : "memory.limit_in_bytes";
  added.last.limit_bytes =
      chain(group.directory->read(up + limit), parse_cgroup_limit).value_or(std::nullopt);
  added.last.cgroup = path;
  groups_.push_back(std::move(added));
  read_group(groups_.back());
}

void OomWatch::read() {
  for (Group& group : groups_)
    read_group(group);
  read_host();
}

void OomWatch::read_group(Group& group) {
  OomCounters now = group.last;
  if (group.version == 2) {
    const auto events = parse_kept(*group.events, parse_cgroup_events_v2);
    if (!events) return;  // the group was removed
    now.kills = events->oom_kill;
    now.group_kills = events->oom_group_kill;
    // Before 5.2 there is no file of the group alone.
    if (group.local_events != nullptr) {
      const auto local = parse_kept(*group.local_events, parse_cgroup_events_v2);
      if (local) now.limit_hits = local->oom;
    }
  } else {
    const auto kills = parse_kept(*group.events, parse_cgroup_oom_kills);
    if (!kills) return;
    now.kills = *kills;
    if (group.local_events != nullptr) {
      const auto meets = parse_kept(*group.local_events, parse_cgroup_number);
      if (meets) now.limit_meets = *meets;
    }
  }
  if (record(now, group.last, group.read_before)) group.last = std::move(now);
  group.read_before = true;
}

void OomWatch::read_host() {
  auto now = read_host_oom_counter(machine_);
  if (!now) return;
  if (record(*now, host_, host_read_)) host_ = std::move(*now);
  host_read_ = true;
}

bool OomWatch::record(const OomCounters& now, const OomCounters& last, bool read_before) {
  if (read_before && same_counts(now, last)) return false;
  OomCounters recorded = now;
  recorded.at = machine_.clock->now();
  sink_->add(recorded);
  return true;
}

}  // namespace dlprobe
