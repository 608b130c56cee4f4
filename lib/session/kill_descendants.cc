#include "lib/session/kill_descendants.h"

#include <algorithm>
#include <csignal>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "lib/proc/pid_stat.h"
#include "lib/proc/processes.h"
#include "lib/subject/trial_leftovers.h"

namespace dlprobe {
namespace {

// Each round finds what was born while the one before ran; those born of stopped ones are none.
constexpr int kMostRounds = 100;

struct Parents {
  std::map<int32_t, int32_t> of;

  bool descends_from(int32_t pid, int32_t ancestor) const {
    std::set<int32_t> seen;
    for (auto found = of.find(pid); found != of.end() && seen.insert(pid).second;
         found = of.find(pid)) {
      pid = found->second;
      if (pid == ancestor) return true;
    }
    return false;
  }
};

std::vector<int32_t> living_descendants(const Machine& machine, int32_t ancestor) {
  Parents parents;
  std::set<int32_t> living;
  for (const int32_t pid : list_pids(*machine.root).value_or(std::vector<int32_t>())) {
    const auto stat = read_pid_stat(*machine.root, pid);
    if (!stat) continue;
    parents.of[pid] = stat->ppid;
    if (!has_ended(*stat)) living.insert(pid);
  }
  std::vector<int32_t> descendants;
  std::ranges::copy_if(living, std::back_inserter(descendants), [&](int32_t pid) {
    return pid != ancestor && parents.descends_from(pid, ancestor);
  });
  return descendants;
}

}  // namespace

size_t kill_descendants(ProcessControl& control, const Machine& machine) {
  const auto proc = machine.root->open_directory("proc");
  const auto is_tracker = [&proc](int32_t pid) { return proc && is_resource_tracker(**proc, pid); };
  std::set<int32_t> stopped;
  for (int round = 0; round < kMostRounds; ++round) {
    bool found_one = false;
    for (const int32_t pid : living_descendants(machine, control.own_pid())) {
      if (stopped.contains(pid) || is_tracker(pid)) continue;
      stopped.insert(pid);
      found_one = true;
      control.signal(pid, SIGSTOP);
    }
    if (!found_one) break;
  }
  // Nobody of them can have been reaped meanwhile: their parents are stopped, or dlprobe itself.
  // The youngest first, so that none is seen as an orphan of its parent.
  for (const int32_t pid : std::views::reverse(stopped))
    control.signal(pid, SIGKILL);
  return stopped.size();
}

}  // namespace dlprobe
