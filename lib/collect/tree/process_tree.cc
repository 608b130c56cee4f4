#include "lib/collect/tree/process_tree.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "lib/base/parse.h"
#include "lib/proc/pid_statm.h"
#include "lib/proc/processes.h"

namespace dlprobe {
namespace {

using std::chrono::nanoseconds;
using std::chrono::seconds;

/// Children of threads other than the main one are rare; reading a file per thread each time is not
/// worth it on a large tree.
constexpr nanoseconds kAllThreadsPeriod = seconds(1);
constexpr int32_t kFewThreads = 64;
constexpr size_t kMostOwnPids = 20'000;  ///< of a job that starts processes without end

/// In a large tree a process rests whose stat has said the same so often: it is read at one of
/// three ticks. Its end wakes by its pidfd.
constexpr size_t kMostOfSmallTree = 16;
constexpr uint32_t kSameToRest = 5;
constexpr uint32_t kTicksOfRest = 3;

/// At each tick only where its memory moved: stat says so more cheaply.
void put_memory(TrackedProcess& process, bool is_due, ProcessSample& sample) {
  static const auto page_size = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  MemoryRead& memory = process.memory;
  const MemoryMarks& marks = process.last_stat.memory;
  if (is_due || !memory.statm || marks != memory.marks) {
    std::array<char, 256> buffer;
    memory = {.statm = chain(process.statm->read(buffer), parse_pid_statm), .marks = marks};
  }
  const auto pages = [](uint64_t PidStatm::* count) {
    return
        [count](const PidStatm& statm) -> Observed<uint64_t> { return statm.*count * page_size; };
  };
  sample.rss_bytes = chain(memory.statm, pages(&PidStatm::resident));
  sample.rss_shared_bytes = chain(memory.statm, pages(&PidStatm::shared));
}

}  // namespace

ProcessTree::ProcessTree(Machine machine, const ProcessKey& root, int32_t adopter)
    : machine_(std::move(machine)), root_(root), adopter_(adopter) {
  load_average_ = machine_.root->keep_file("proc/loadavg").value_or(nullptr);
}

bool ProcessTree::is_member(int32_t pid) const {
  return member_pids_.contains(pid);
}

std::optional<ProcessKey> ProcessTree::find_by_own_pid(int32_t pid) const {
  const auto found = own_pids_.find(pid);
  return found == own_pids_.end() ? std::nullopt : std::optional(found->second);
}

bool ProcessTree::lives(const ProcessKey& key) const {
  const auto found = members_.find(key);
  return found != members_.end() && is_alive(found->second);
}

/// The last field of /proc/loadavg is the pid given out last: as long as it stands still, nobody on
/// the machine has forked or started a thread.
bool ProcessTree::forked_since_last_time() {
  if (load_average_ == nullptr) return true;
  std::array<char, 128> buffer;
  const auto text = load_average_->read(buffer);
  if (!text) return true;
  const std::string_view line = trim(*text);
  const std::string_view last = line.substr(line.rfind(' ') + 1);
  if (last == last_pid_) return false;
  last_pid_ = last;
  return true;
}

void ProcessTree::discover(DeadlineReader& reader, bool of_all) {
  prune();
  if (members_.empty() && dead_.empty()) add(root_.pid, std::nullopt);
  const bool forked = forked_since_last_time();
  if (forked) {
    for (auto& [key, process] : members_)
      process.pace.owes_children = true;
  }
  if (forked || children_owed_) {
    if (children_files_) scan_children(of_all);
    if (!children_files_) scan_all_processes();
    if (adopter_ != 0) adopt();
  }
  for (const ProcessKey& key : std::exchange(added_, {})) {
    const auto found = members_.find(key);
    if (found == members_.end()) continue;
    read_info(found->second, reader, errors_);
    const std::vector<int32_t>& pids = found->second.info.namespace_pids;
    own_pids_[pids.empty() ? key.pid : pids.back()] = key;
    if (own_pids_.size() > kMostOwnPids) own_pids_.erase(own_pids_.begin());
    roles_stale_ = true;
  }
}

void ProcessTree::add(int32_t pid, const std::optional<ProcessKey>& parent) {
  if (is_member(pid)) return;
  if (parent && pid == ::getpid()) return;  // dlprobe, started by the job that it looks at
  auto process = open_process(machine_, pid);
  if (!process) {
    if (process.error().code != ErrorCode::kVanished) errors_.push_back(process.error());
    return;
  }
  const bool is_root = !parent.has_value() && pid == root_.pid;
  if (is_root && process->key != root_) return;
  // A pid that was given to somebody else since the list was read.
  if (parent && process->key.start_ticks < parent->start_ticks) return;
  process->facts.parent = parent;
  process->info.seen_at = machine_.clock->now();
  process->info.orphaned = is_orphan(machine_, process->last_stat);
  process->facts.orphaned = process->info.orphaned;
  const ProcessKey key = process->key;
  member_pids_.insert(pid);
  members_.emplace(key, std::move(*process));
  added_.push_back(key);
}

void ProcessTree::add_children(std::string_view pids, const ProcessKey& parent) {
  for (const std::string_view field : split_fields(trim(pids))) {
    if (const auto pid = parse_int<int32_t>(field)) add(*pid, parent);
  }
}

void ProcessTree::scan_children(bool of_all) {
  const BootNs now = machine_.clock->now();
  children_owed_ = false;
  int32_t threads = 0;
  for (const auto& [key, process] : members_)
    threads += process.last_stat.threads;
  // Children that are found may have children themselves.
  std::vector<ProcessKey> pending;
  pending.reserve(members_.size());
  for (const auto& [key, process] : members_)
    pending.push_back(key);
  for (size_t i = 0; i < pending.size(); ++i) {
    const size_t known = added_.size();
    const ProcessKey key = pending[i];
    const TrackedProcess& member = members_.at(key);
    const bool due = now - member.children_scanned_at >= kAllThreadsPeriod.count();
    if (member.pace.owes_children && (of_all || !may_rest(member)))
      scan_member(key, now, due || threads <= kFewThreads);
    children_owed_ = children_owed_ || member.pace.owes_children;
    if (!children_files_) return;
    pending.insert(pending.end(), added_.begin() + static_cast<ptrdiff_t>(known), added_.end());
  }
}

void ProcessTree::scan_member(const ProcessKey& key, BootNs now, bool all_threads) {
  TrackedProcess& process = members_.at(key);
  process.pace.owes_children = false;
  if (process.vanished) return;
  if (process.children == nullptr) {
    // Either this kernel has none, or the process ended before they were opened.
    if (read_stat(process)) children_files_ = false;
    return;
  }
  std::array<char, 65536> buffer;
  if (const auto pids = process.children->read(buffer)) add_children(*pids, key);
  if (process.last_stat.threads <= 1) return;
  process.pace.owes_children = !all_threads;
  if (!all_threads) return;
  process.children_scanned_at = now;
  const auto tids = process.directory->list("task");
  if (!tids) return;
  for (const std::string& tid : *tids) {
    if (tid == std::to_string(key.pid)) continue;
    if (const auto pids = process.directory->read("task/" + tid + "/children")) {
      add_children(*pids, key);
    }
  }
}

/// Where there are no children files: every process's parent, until no more members are found.
void ProcessTree::scan_all_processes() {
  const auto pids = list_pids(*machine_.root);
  if (!pids) {
    errors_.push_back(pids.error());
    return;
  }
  std::vector<std::pair<int32_t, int32_t>> strangers;  // pid, ppid
  for (const int32_t pid : *pids) {
    if (is_member(pid)) continue;
    if (const auto stat = read_pid_stat(*machine_.root, pid))
      strangers.emplace_back(pid, stat->ppid);
  }
  for (bool found = true; found;) {
    found = false;
    for (const auto& [pid, ppid] : strangers) {
      if (is_member(pid) || !is_member(ppid)) continue;
      const auto parent = std::ranges::find_if(
          members_, [wanted = ppid](const auto& entry) { return entry.first.pid == wanted; });
      add(pid, parent->first);
      found = found || is_member(pid);
    }
  }
}

/// An orphan whose parent lived and died between two looks comes to the subreaper.
void ProcessTree::adopt() {
  const auto adopter = machine_.root->open_directory("proc/" + std::to_string(adopter_));
  if (!adopter) return;
  const auto tids = (*adopter)->list("task");
  if (!tids) return;
  for (const std::string& tid : *tids) {
    const auto pids = (*adopter)->read("task/" + tid + "/children");
    if (pids) add_children(*pids, root_);
  }
}

void ProcessTree::prune() {
  for (auto it = members_.begin(); it != members_.end();) {
    const TrackedProcess& process = it->second;
    if (!process.vanished || !process.exit_recorded) {
      ++it;
      continue;
    }
    dead_.push_back(process.facts);
    member_pids_.erase(process.key.pid);
    it = members_.erase(it);
  }
  if (dead_.empty()) return;
  // Of the dead, roles need: the parents of the living, and one worker of each living trainer.
  std::set<ProcessKey> needed;
  for (const auto& [key, process] : members_) {
    if (process.facts.parent) needed.insert(*process.facts.parent);
  }
  std::set<ProcessKey> has_dead_child;
  std::erase_if(dead_, [&](const RoleFacts& facts) {
    if (needed.contains(facts.key)) return false;
    const bool parent_lives = facts.parent && members_.contains(*facts.parent);
    return !parent_lives || !has_dead_child.insert(*facts.parent).second;
  });
}

void ProcessTree::sample(DeadlineReader& reader, bool of_all) {
  ++ticks_;
  for (auto& [key, process] : members_) {
    if (process.vanished) continue;
    process.pace.rests = !of_all && may_rest(process);
    if (!process.pace.rests && !read_anew(process, reader)) continue;
    const PidStat& stat = process.last_stat;
    ProcessSample sample;
    sample.key = key;
    sample.ppid = stat.ppid;
    sample.state = stat.state;
    sample.utime_ticks = stat.utime_ticks;
    sample.stime_ticks = stat.stime_ticks;
    sample.minor_faults = stat.memory.minor_faults;
    sample.major_faults = stat.memory.major_faults;
    sample.threads = stat.threads;
    put_memory(process, of_all, sample);
    process.sample = std::move(sample);
  }
}

std::vector<ProcessKey> ProcessTree::living() const {
  std::vector<ProcessKey> keys;
  for (const auto& [key, process] : members_)
    if (is_alive(process)) keys.push_back(key);
  return keys;
}

bool ProcessTree::is_large() const {
  return members_.size() > kMostOfSmallTree;
}

bool ProcessTree::stands_still(const TrackedProcess& process) const {
  return is_large() && process.pidfd && process.pace.same >= kSameToRest;
}

bool ProcessTree::may_rest(const TrackedProcess& process) const {
  const bool is_its_tick = (ticks_ + static_cast<uint32_t>(process.key.pid)) % kTicksOfRest == 0;
  return stands_still(process) && !is_its_tick;
}

// False: there is nothing new to be had of it.
bool ProcessTree::read_anew(TrackedProcess& process, DeadlineReader& reader) {
  PidStat before = process.last_stat;
  if (const auto status = read_stat(process); !status) {
    process.vanished = status.error().code == ErrorCode::kVanished;
    if (!process.vanished) errors_.push_back(status.error());
    return false;
  }
  before.processor = process.last_stat.processor;  // where it ran says not that it did anything
  process.pace.same = before == process.last_stat ? process.pace.same + 1 : 0;
  if (before.ppid != process.last_stat.ppid) {
    // Whose child it was tells more than who reaps it now.
    if (is_member(process.last_stat.ppid)) process.info.ppid = process.last_stat.ppid;
    process.info.orphaned = is_orphan(machine_, process.last_stat);
    process.info_changed = true;
  }
  if (identity_changed(before, process.last_stat)) {
    read_info(process, reader, errors_);
    roles_stale_ = true;
  }
  return true;
}

void ProcessTree::note_layout(TrackedProcess& process) const {
  if (!process.facts.parent) return;
  const auto parent = members_.find(*process.facts.parent);
  if (parent == members_.end()) return;
  const auto forked = forked_without_exec(process.last_stat, parent->second.last_stat);
  if (forked) process.facts.forked_without_exec = forked;
  if (process.last_stat.start_code != 0) return;
  // It has ended, perhaps before it was looked at, or with another program than when it was.
  process.facts.forked_without_exec = is_forked_without_exec(process.last_stat);
  if (!*process.facts.forked_without_exec) return;
  if (process.facts.exe_name.empty()) process.facts.exe_name = parent->second.facts.exe_name;
}

void ProcessTree::note_signals_caught(TrackedProcess& process, uint64_t signals) {
  if (process.info.signals_caught == signals) return;
  process.facts.signals_caught = signals;
  process.info.signals_caught = signals;
  process.info_changed = true;
  roles_stale_ = true;
}

void ProcessTree::note_rank(const ProcessKey& key, const JobRank& rank) {
  const auto found = members_.find(key);
  if (found == members_.end() || found->second.info.rank == rank) return;
  // What a launcher has told tells the job, too.
  if (rank.job.empty() && found->second.info.rank) return;
  TrackedProcess& process = found->second;
  process.facts.rank = process.info.rank = rank;
  process.info_changed = true;
  roles_stale_ = true;
}

void ProcessTree::update_roles() {
  if (!std::exchange(roles_stale_, false)) return;
  std::vector<RoleFacts> facts;
  for (auto& [key, process] : members_) {
    note_layout(process);
    facts.push_back(process.facts);
  }
  facts.insert(facts.end(), dead_.begin(), dead_.end());
  const std::vector<RoleAnswer> answers = assign_roles(facts, root_);
  size_t i = 0;
  for (auto& [key, process] : members_) {
    const RoleAnswer& answer = answers[i++];
    ProcessInfo& info = process.info;
    if (info.role == answer.role && info.role_basis == answer.basis &&
        info.start_method == answer.start_method) {
      continue;
    }
    info.role = answer.role;
    info.role_basis = answer.basis;
    info.start_method = answer.start_method;
    process.info_changed = true;
  }
}

}  // namespace dlprobe
