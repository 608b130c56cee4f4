#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/ids.h"
#include "lib/model/process.h"

namespace dlprobe {

/// A cgroup that counts the processes and threads in it.
struct TaskGroup {
  std::string folder;
  std::optional<uint64_t> limit;
  uint64_t taken = 0;
  std::optional<uint64_t> refusals;
  bool operator==(const TaskGroup&) const = default;
};
constexpr void list_fields(auto&& field, Of<TaskGroup> /*of*/) {
  field("folder", &TaskGroup::folder, "where its files are");
  field("limit", &TaskGroup::limit, "pids.max; none: no limit");
  field("taken", &TaskGroup::taken, "pids.current");
  field("refusals", &TaskGroup::refusals,
        "\"max\" of pids.events, cumulative: how often a process in it (or, by the kernel's "
        "version, below it) was refused one");
}

/// What limits the processes and threads that one process can start. Recorded before a command is
/// started, and when one of its processes was refused another.
struct TaskFacts {
  BootNs at = 0;
  std::optional<ProcessKey> process;
  Observed<Limit> processes = failure(ErrorCode::kInsufficient, "not read");
  bool is_exempt = false;
  Observed<uint64_t> tasks_of_user = failure(ErrorCode::kInsufficient, "not read");
  std::vector<TaskGroup> groups;
  Observed<uint64_t> tasks = failure(ErrorCode::kInsufficient, "not read");
  Observed<uint64_t> most_tasks = failure(ErrorCode::kInsufficient, "not read");
  bool operator==(const TaskFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<TaskFacts> /*of*/) {
  field("at", &TaskFacts::at, "when they were read", Unit::kMoment);
  field("key", &TaskFacts::process, "who was refused one; none: before the command was started");
  field("processes", &TaskFacts::processes, "RLIMIT_NPROC");
  field("exempt", &TaskFacts::is_exempt,
        "RLIMIT_NPROC does not hold it (root, CAP_SYS_RESOURCE, CAP_SYS_ADMIN)");
  field("user_tasks", &TaskFacts::tasks_of_user, "threads that its user runs");
  field("groups", &TaskFacts::groups, "its cgroup, and those above it that can be seen");
  field("tasks", &TaskFacts::tasks, "of the machine");
  field("most_tasks", &TaskFacts::most_tasks, "threads that the machine can have");
}

}  // namespace dlprobe
