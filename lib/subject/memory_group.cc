#include "lib/subject/memory_group.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/proc/cgroup_memory.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/host_memory.h"
#include "lib/proc/pid_stat.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPrefix = "dlprobe-";
constexpr std::string_view kOwnSuffix = ".self";
// The last processes of a tree that was killed leave their group a moment after they were told to.
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{50};

/// The group that dlprobe runs in.
struct OwnGroup {
  std::string path;  ///< as a folder
  int levels = 0;
  bool unified = false;  ///< v2
};

Expected<OwnGroup> find_own_group(const Machine& machine) {
  DLP_TRY(const auto entries, chain(machine.root->read("proc/self/cgroup"), parse_pid_cgroup));
  DLP_TRY(const auto mounts, chain(machine.root->read("proc/self/mountinfo"), parse_mountinfo));
  const CgroupEntry* entry = controller_cgroup(entries, "memory");
  if (entry == nullptr) return failure(ErrorCode::kUnsupported, "this kernel has no memory cgroup");
  for (const CgroupFolder& folder : cgroup_folders(*entry, mounts, "memory")) {
    if (!machine.root->open_directory(folder.path)) continue;
    return OwnGroup{.path = folder.path, .levels = folder.levels, .unified = entry->hierarchy == 0};
  }
  return failure(ErrorCode::kNotFound, "dlprobe's own memory cgroup " + entry->path +
                                           " is not mounted here: mount /sys/fs/cgroup");
}

/// The smallest limit that holds for dlprobe's own group; nothing: none, or it cannot be read.
std::optional<uint64_t> limit_of(const Machine& machine, const OwnGroup& own) {
  if (!own.unified) {
    const auto stat = chain(machine.root->read(own.path + "/memory.stat"), parse_cgroup_stat_v1);
    return stat ? stat->hierarchical_limit : std::nullopt;
  }
  std::optional<uint64_t> smallest;
  std::string group = own.path;
  for (int level = 0; level <= own.levels; ++level, group.resize(group.rfind('/'))) {
    const auto limit = chain(machine.root->read(group + "/memory.max"), parse_cgroup_limit);
    const uint64_t bytes = limit ? limit->value_or(UINT64_MAX) : UINT64_MAX;
    if (bytes != UINT64_MAX) smallest = std::min(smallest.value_or(bytes), bytes);
  }
  return smallest;
}

Status check_limit(const Machine& machine, const OwnGroup& own, uint64_t limit) {
  const auto allowed = limit_of(machine, own);
  if (allowed && limit > *allowed) {
    return failure(ErrorCode::kInvalid,
                   fmt::format("{} is above the {} that the cgroup of dlprobe itself may have ({})",
                               format_bytes(limit), format_bytes(*allowed), own.path));
  }
  const auto host = chain(machine.root->read("proc/meminfo"), parse_meminfo);
  if (host && limit > host->total_bytes) {
    return failure(ErrorCode::kInvalid,
                   fmt::format("{} is above the {} of this machine", format_bytes(limit),
                               format_bytes(host->total_bytes)));
  }
  return {};
}

std::optional<ProcessKey> live_process(const Machine& machine, std::string_view pid) {
  const auto stat = chain(machine.root->read(fmt::format("proc/{}/stat", pid)), parse_pid_stat);
  if (!stat) return std::nullopt;
  return ProcessKey{.pid = stat->pid, .start_ticks = stat->start_ticks};
}

std::string name_of(const ProcessKey& key) {
  return fmt::format("{}{}-{}", kPrefix, key.pid, key.start_ticks);
}

/// Whether a dlprobe that has ended made the group of that name.
bool is_left_over(const Machine& machine, std::string_view name) {
  if (!name.starts_with(kPrefix)) return false;
  if (name.ends_with(kOwnSuffix)) name.remove_suffix(kOwnSuffix.size());
  const auto parts = split(name.substr(kPrefix.size()), '-');
  if (parts.size() != 2 || !parse_int<int32_t>(parts[0]) || !parse_int<uint64_t>(parts[1])) {
    return false;
  }
  const auto now = live_process(machine, parts[0]);
  return !now || name_of(*now) != name;
}

// One that still has processes stays: EBUSY.
void remove_left_over_groups(const Machine& machine, CgroupTree& tree, const std::string& parent) {
  const auto names = machine.root->list(parent);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!is_left_over(machine, name)) continue;
    [[maybe_unused]] const Status removed = tree.remove(fmt::format("{}/{}", parent, name));
  }
}

bool has_word(std::string_view text, std::string_view word) {
  return std::ranges::count(split(trim(text), ' '), word) > 0;
}

std::vector<int32_t> processes_in(const Machine& machine, const std::string& group) {
  std::vector<int32_t> pids;
  const auto text = machine.root->read(group + "/cgroup.procs");
  if (!text) return pids;
  for_each_line(*text, [&pids](std::string_view line) {
    if (const auto pid = parse_int<int32_t>(line)) pids.push_back(*pid);
  });
  return pids;
}

/// What would be needed where the kernel says no.
Error with_need(Error error, const OwnGroup& own) {
  const std::string by_systemd =
      "; systemd-run --scope -p Delegate=yes (with --user: your own) starts dlprobe in such a "
      "group";
  switch (error.os_errno) {
    case EACCES:
    case EPERM:
    case EROFS:
      error.context = "a cgroup below " + own.path +
                      " needs root, or that folder delegated to this user" +
                      (own.unified ? by_systemd : "") + ": " + error.context;
      break;
    case EBUSY:
      error.context = "other processes run in the cgroup " + own.path +
                      " of dlprobe, so no limit can be set below it: dlprobe needs a group to "
                      "itself" +
                      by_systemd + ": " + error.context;
      break;
    default:
      break;
  }
  return error;
}

/// v2: what was done so that the children of dlprobe's group have the memory controller.
struct Offer {
  bool is_new = false;  ///< they did not have it before
  std::string
      own_path;  ///< the group that dlprobe had to move to for it; empty: it did not have to
};

Expected<Offer> offer_controller(const Machine& machine, CgroupTree& tree, const OwnGroup& own,
                                 const ProcessKey& key) {
  const std::string control = own.path + "/cgroup.subtree_control";
  DLP_TRY(const std::string offered, machine.root->read(control));
  if (has_word(offered, "memory")) return Offer();
  DLP_TRY(const std::string available, machine.root->read(own.path + "/cgroup.controllers"));
  if (!has_word(available, "memory")) {
    return failure(ErrorCode::kUnsupported,
                   "the cgroup " + own.path + " of dlprobe has no memory controller (it has: " +
                       std::string(trim(available)) + "): enable it in the groups above it");
  }
  const Status enabled = tree.write(control, "+memory");
  if (enabled) return Offer{.is_new = true};
  const bool is_alone = processes_in(machine, own.path) == std::vector<int32_t>{key.pid};
  if (enabled.error().os_errno != EBUSY || !is_alone) return std::unexpected(enabled.error());
  const std::string inner = own.path + "/" + name_of(key) + std::string(kOwnSuffix);
  DLP_CHECK(tree.make(inner));
  Status moved = tree.write(inner + "/cgroup.procs", "0");
  if (moved) moved = tree.write(control, "+memory");
  if (moved) return Offer{.is_new = true, .own_path = inner};
  [[maybe_unused]] const Status back = tree.write(own.path + "/cgroup.procs", "0");
  [[maybe_unused]] const Status removed = tree.remove(inner);
  return std::unexpected(std::move(moved).error());
}

// Others than `inner`: their limits would be lost with the controller.
bool has_other_children(const Machine& machine, const std::string& group,
                        const std::string& inner) {
  const auto names = machine.root->list(group);
  if (!names) return true;
  return std::ranges::any_of(*names, [&](const std::string& name) {
    const std::string path = fmt::format("{}/{}", group, name);
    const auto stat = machine.root->stat(path);
    return path != inner && stat && S_ISDIR(stat->mode);
  });
}

Status set_limit(const Machine& machine, CgroupTree& tree, const std::string& group, bool unified,
                 uint64_t limit) {
  const std::string bytes = std::to_string(limit);
  DLP_CHECK(tree.write(group + (unified ? "/memory.max" : "/memory.limit_in_bytes"), bytes));
  // Absent where the kernel counts no swap. v1 counts memory and swap together.
  const std::string swap = group + (unified ? "/memory.swap.max" : "/memory.memsw.limit_in_bytes");
  if (!machine.root->stat(swap)) return {};
  return tree.write(swap, unified ? "0" : bytes);
}

}  // namespace

Expected<std::unique_ptr<MemoryGroup>> MemoryGroup::create(const Machine& machine, CgroupTree& tree,
                                                           uint64_t limit_bytes) {
  DLP_TRY(const OwnGroup own, find_own_group(machine));
  DLP_CHECK(check_limit(machine, own, limit_bytes));
  const auto key = live_process(machine, "self");
  if (!key)
    return failure(ErrorCode::kUnsupported, "dlprobe's own /proc/self/stat is not to be had");
  remove_left_over_groups(machine, tree, own.path);
  std::unique_ptr<MemoryGroup> group(new MemoryGroup(machine, tree));
  group->parent_ = own.path;
  if (own.unified) {
    auto offer = offer_controller(machine, tree, own, *key);
    if (!offer) return std::unexpected(with_need(std::move(offer).error(), own));
    group->offered_ = offer->is_new;
    group->own_path_ = std::move(offer->own_path);
  }
  const std::string path = own.path + "/" + name_of(*key);
  if (auto made = tree.make(path); !made) {
    return std::unexpected(with_need(std::move(made).error(), own));
  }
  group->path_ = path;  // removed from here on whatever happens
  DLP_CHECK(set_limit(machine, tree, path, own.unified, limit_bytes));
  DLP_TRY(group->procs_, tree.open_for_writing(path + "/cgroup.procs"));
  return group;
}

MemoryGroup::~MemoryGroup() {
  [[maybe_unused]] const Status removed = remove();
}

Status MemoryGroup::remove() {
  procs_.reset();
  if (!path_.empty()) {
    Status removed = tree_.remove(path_);
    for (int i = 0; i < kTries && !removed && removed.error().os_errno == EBUSY; ++i) {
      std::this_thread::sleep_for(kBetweenTries);
      removed = tree_.remove(path_);
    }
    const std::string path = std::exchange(path_, "");
    if (!removed && removed.error().os_errno != ENOENT) {
      // The controller is in use: dlprobe stays in the group that it moved to.
      own_path_.clear();
      offered_ = false;
      const size_t left = processes_in(machine_, path).size();
      if (removed.error().os_errno != EBUSY) return removed;
      return failure(ErrorCode::kIo, fmt::format("the cgroup {} remains, with {} in it; it can be "
                                                 "removed (rmdir) once they have ended",
                                                 path, counted(left, "process")));
    }
  }
  return take_back_controller();
}

Status MemoryGroup::take_back_controller() {
  const std::string inner = std::exchange(own_path_, "");
  const bool is_ours = std::exchange(offered_, false);
  if (!is_ours || has_other_children(machine_, parent_, inner)) return {};
  DLP_CHECK(tree_.write(parent_ + "/cgroup.subtree_control", "-memory"));
  if (inner.empty()) return {};
  DLP_CHECK(tree_.write(parent_ + "/cgroup.procs", "0"));
  return tree_.remove(inner);
}

}  // namespace dlprobe
