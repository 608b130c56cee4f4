#include "lib/collect/shm/ledger.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ranges>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/collect/shm/holdings.h"
#include "lib/collect/shm/tracked_names.h"
#include "lib/os/host_facts.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/processes.h"
#include "lib/proc/shm_name.h"

namespace dlprobe {
namespace {

constexpr size_t kMostSegments = 2000;  ///< listed one by one; the rest is summed up
constexpr int kDeepestFolder = 4;

using FileId = std::pair<uint64_t, uint64_t>;  // device, inode

/// `file` is a FileStat, or a HeldFile.
template <class File>
ShmSegment segment_of(const std::string& path, const File& file) {
  const ShmName parsed = parse_shm_name(path);
  ShmSegment segment;
  segment.inode = file.inode;
  segment.kind = parsed.kind;
  segment.size_bytes = file.size_bytes;
  segment.allocated_bytes = file.allocated_bytes;
  segment.uid = file.uid;
  segment.modified_ns = file.modified_ns;
  segment.creator_pid = parsed.creator_pid;
  return segment;
}

ShmSegment from_name(const std::string& name, const FileStat& stat) {
  ShmSegment segment = segment_of(name, stat);
  segment.name = name;
  segment.linked = true;
  return segment;
}

ShmSegment from_holding(const HeldFile& file) {
  ShmSegment segment = segment_of(file.path, file);
  if (!file.path.empty()) segment.name = base_name(without_deleted(file.path));
  segment.linked = file.linked;
  return segment;
}

void add_to_equation(ShmLedger& ledger, const ShmSegment& segment) {
  const uint64_t bytes = segment.allocated_bytes.value_or(0);
  const bool open = std::ranges::any_of(segment.holders,
                                        [](const SegmentHolder& holder) { return holder.fds > 0; });
  if (segment.linked) {
    ledger.named_bytes += bytes;
  } else if (open) {
    ledger.unlinked_open_bytes += bytes;
  } else {
    ledger.unlinked_mapped_bytes += bytes;
  }
}

/// Keeps the largest ones, by inode.
void cut_to_largest(ShmLedger& ledger) {
  auto& segments = ledger.segments;
  const auto bytes = [](const ShmSegment& segment) { return segment.allocated_bytes.value_or(0); };
  if (segments.size() > kMostSegments) {
    std::ranges::sort(segments, std::greater<>(), bytes);
    for (size_t i = kMostSegments; i < segments.size(); ++i) {
      ++ledger.omitted_segments;
      ledger.omitted_bytes += bytes(segments[i]);
    }
    segments.resize(kMostSegments);
  }
  std::ranges::sort(segments, {}, &ShmSegment::inode);
}

/// Of which file systems a process that may not be looked at could hold something: one that does
/// not have the file system mounted was hardly handed a descriptor of it.
std::set<uint64_t> could_hold(const Directory& process, const std::set<uint64_t>& devices) {
  const auto mounts = chain(process.read("mountinfo"), parse_mountinfo);
  if (!mounts) return devices;
  std::set<uint64_t> result;
  for (const MountEntry& mount : *mounts) {
    if (devices.contains(mount.device)) result.insert(mount.device);
  }
  return result;
}

/// A process that ended during the look holds nothing any more.
bool has_ended_meanwhile(const Directory& process) {
  const auto stat = chain(process.read("stat"), parse_pid_stat);
  return !stat || has_ended(*stat);
}

/// A tracker only knows it.
bool is_in_use(const ShmSegment& segment) {
  return std::ranges::any_of(segment.holders, [](const SegmentHolder& holder) {
    return holder.fds > 0 || holder.maps > 0;
  });
}

std::set<int32_t> ancestors_of(const Directory& root, int32_t pid) {
  std::set<int32_t> ancestors;
  while (pid > 0) {
    const auto stat = read_pid_stat(root, pid);
    pid = stat ? stat->ppid : 0;
    if (pid <= 0 || !ancestors.insert(pid).second) break;
  }
  return ancestors;
}

}  // namespace

struct LedgerKeeper::Visited {
  ProcessKey key;
  std::string comm;
  std::shared_ptr<const Directory> directory;
  bool in_tree = false;
};

struct LedgerKeeper::Scan {
  BootNs at = 0;
  Scope scope = Scope::kTree;
  const std::function<void()>* between = nullptr;
  const std::vector<WatchedMount>* mounts = nullptr;
  std::set<uint64_t> devices;
  std::vector<Observed<ShmUse>> uses;
  std::map<FileId, ShmSegment> segments;
  std::vector<int32_t> outsiders;
  std::vector<Visited> trackers;
  uint64_t scanned = 0;
  std::map<uint64_t, uint64_t> unreadable;  ///< processes, by device
};

LedgerKeeper::LedgerKeeper(Machine machine, DeadlineReader& reader)
    : machine_(std::move(machine)), reader_(&reader) {
  sees_all_pids_ = is_in_first_pid_namespace(*machine_.root);
}

std::vector<ShmLedger> LedgerKeeper::take(const ProcessTree& tree, const ShmMounts& mounts,
                                          Scope scope, const std::function<void()>& between) {
  Scan scan;
  scan.between = &between;
  scan.at = machine_.clock->now();
  scan.scope = scope;
  scan.mounts = &mounts.all();
  for (const WatchedMount& watched : mounts.all())
    scan.devices.insert(watched.mount.device);
  if (scan.devices.empty()) return {};
  scan_names(scan);
  for (const WatchedMount& watched : mounts.all())
    scan.uses.push_back(mounts.use(watched));
  scan_tree(scan, tree);
  scan_others(scan, tree);
  ask_trackers(scan);
  drop_unlinked(scan, mounts);
  std::vector<ShmLedger> ledgers;
  for (size_t i = 0; i < mounts.all().size(); ++i) {
    if (scan.uses[i]) ledgers.push_back(finish(scan, i, tree));
  }
  return ledgers;
}

void LedgerKeeper::scan_names(Scan& scan) const {
  for (size_t i = 0; i < scan.mounts->size(); ++i)
    list_names(scan, i, "", 0);
}

void LedgerKeeper::list_names(Scan& scan, size_t mount, const std::string& folder,
                              int depth) const {
  const WatchedMount& watched = (*scan.mounts)[mount];
  const auto names = watched.directory->list(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    std::string path = folder;
    if (!path.empty()) path += '/';
    path += name;
    const auto stat = watched.directory->stat_link(path);
    if (!stat || stat->device != watched.mount.device) continue;
    if (S_ISDIR(stat->mode)) {
      if (depth < kDeepestFolder) list_names(scan, mount, path, depth + 1);
      continue;
    }
    scan.segments.try_emplace(FileId(stat->device, stat->inode), from_name(path, *stat));
  }
}

void LedgerKeeper::scan_tree(Scan& scan, const ProcessTree& tree) {
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const Visited member = {
        .key = key, .comm = process.info.comm, .directory = process.directory, .in_tree = true};
    visit(scan, member);
    if (process.info.role == Role::kResourceTracker) scan.trackers.push_back(member);
  }
}

std::vector<int32_t> LedgerKeeper::list_processes() {
  auto pids = list_pids(*machine_.root);
  if (!pids) return {};
  nested_.clear();
  for (const int32_t pid : *pids) {
    const auto status = read_pid_status(*machine_.root, pid);
    if (status && status->namespace_pids.size() > 1) {
      nested_.emplace_back(status->namespace_pids.back(), pid);
    }
  }
  return *std::move(pids);
}

void LedgerKeeper::scan_others(Scan& scan, const ProcessTree& tree) {
  const std::vector<int32_t> pids = scan.scope == Scope::kAll ? list_processes() : outsiders_;
  std::set<int32_t> skipped = {::getpid()};
  for (const auto& [key, process] : tree.members())
    skipped.insert(key.pid);
  const std::set<int32_t> above = ancestors_of(*machine_.root, tree.root().pid);
  for (const int32_t pid : pids) {
    if (skipped.contains(pid)) continue;
    auto directory = machine_.root->open_directory("proc/" + std::to_string(pid));
    if (!directory) continue;
    const auto stat = chain((*directory)->read("stat"), parse_pid_stat);
    if (!stat || is_kernel_thread(*stat) || has_ended(*stat)) continue;
    const Visited other = {.key = {.pid = pid, .start_ticks = stat->start_ticks},
                           .comm = stat->comm,
                           .directory = std::move(*directory),
                           .in_tree = false};
    visit(scan, other);
    // That of an ancestor is the subject's, too.
    if (scan.scope == Scope::kAll && !above.contains(stat->ppid) &&
        tracks_resources(*reader_, other.directory))
      scan.trackers.push_back(other);
  }
  std::ranges::sort(scan.outsiders);
  outsiders_ = scan.outsiders;
}

void LedgerKeeper::visit(Scan& scan, const Visited& visited) {
  const auto held =
      read_holdings(*reader_, machine_, visited.directory, scan.devices,
                    visited.in_tree ? kPatienceWithHolder : std::chrono::milliseconds(0));
  (*scan.between)();
  if (!held) {
    const ErrorCode code = held.error().code;
    const bool gone = code == ErrorCode::kVanished || code == ErrorCode::kNotFound ||
                      has_ended_meanwhile(*visited.directory);
    if (!gone) {
      const std::set<uint64_t> devices =
          visited.in_tree ? scan.devices : could_hold(*visited.directory, scan.devices);
      for (const uint64_t device : devices)
        ++scan.unreadable[device];
    }
    // A look that came too late says nothing: what it held a second ago, it is asked for again.
    const bool held_something = std::ranges::find(outsiders_, visited.key.pid) != outsiders_.end();
    if (!gone && !visited.in_tree && held_something) scan.outsiders.push_back(visited.key.pid);
    return;
  }
  ++scan.scanned;
  if (!visited.in_tree && !held->empty()) scan.outsiders.push_back(visited.key.pid);
  for (const HeldFile& file : *held) {
    const auto [entry, is_new] =
        scan.segments.try_emplace(FileId(file.device, file.inode), from_holding(file));
    // Unlinked since the names were listed: what the holder says is newer.
    if (!is_new && !file.linked) entry->second.linked = false;
    entry->second.holders.push_back({.key = visited.key,
                                     .comm = visited.comm,
                                     .in_tree = visited.in_tree,
                                     .fds = file.fds,
                                     .maps = file.maps});
  }
}

/// What its last user removed while the holders were looked at was not left by anybody.
void LedgerKeeper::drop_unlinked(Scan& scan, const ShmMounts& mounts) {
  for (size_t i = 0; i < mounts.all().size(); ++i) {
    const WatchedMount& watched = mounts.all()[i];
    const size_t dropped = std::erase_if(scan.segments, [&watched](const auto& entry) {
      const auto& [id, segment] = entry;
      if (id.first != watched.mount.device || !segment.linked || is_in_use(segment)) return false;
      const auto stat = watched.directory->stat_link(*segment.name);
      return stat ? stat->inode != segment.inode : stat.error().code == ErrorCode::kNotFound;
    });
    if (dropped > 0) scan.uses[i] = mounts.use(watched);
  }
}

/// Of files that nobody has open: whose resource tracker will remove them.
void LedgerKeeper::ask_trackers(Scan& scan) const {
  std::map<uint64_t, std::map<std::string, ShmSegment*>> unheld;  // by device, name
  for (auto& [id, segment] : scan.segments) {
    const bool is_unheld = segment.holders.empty() && segment.linked && !segment.creator_pid;
    if (segment.name && is_unheld && segment.kind != SegmentKind::kPythonSemaphore)
      unheld[id.first].emplace(*segment.name, &segment);
  }
  for (const Visited& tracker : scan.trackers) {
    const auto shm = tracker.directory->stat("root/dev/shm");
    const auto here = shm ? unheld.find(shm->device) : unheld.end();
    if (here == unheld.end()) continue;
    const auto names = std::views::keys(here->second);
    const auto tracked = names_tracked(*reader_, machine_, tracker.directory, tracker.key.pid,
                                       NameSet(names.begin(), names.end()));
    (*scan.between)();
    if (!tracked) continue;
    for (const std::string& name : *tracked) {
      here->second.at(name)->holders.push_back(
          {.key = tracker.key, .comm = tracker.comm, .in_tree = tracker.in_tree});
    }
  }
}

CreatorState LedgerKeeper::creator_state(const CreatorFacts& facts, int64_t modified_ns) {
  // A second for the granularity of the two clocks. A process that is younger than the file has the
  // pid of a dead one.
  const bool alive = std::ranges::any_of(facts.alive_since_ns, [modified_ns](int64_t started) {
    return started <= modified_ns + kSecond;
  });
  if (alive) return CreatorState::kAlive;
  return facts.unknown || !facts.all_seen ? CreatorState::kUnknown : CreatorState::kDead;
}

ShmLedger LedgerKeeper::finish(Scan& scan, size_t mount, const ProcessTree& tree) const {
  const uint64_t device = (*scan.mounts)[mount].mount.device;
  ShmLedger ledger;
  ledger.at = scan.at;
  ledger.device = device;
  ledger.whole_machine = scan.scope == Scope::kAll;
  ledger.hides_pids = !sees_all_pids_;
  ledger.used_bytes = scan.uses[mount]->used_bytes;
  ledger.processes_scanned = scan.scanned;
  ledger.processes_unreadable = scan.unreadable[device];
  std::map<int32_t, CreatorFacts> known;
  for (auto& [id, segment] : scan.segments) {
    if (id.first != device) continue;
    std::ranges::sort(segment.holders, {}, &SegmentHolder::key);
    if (segment.creator_pid) {
      const int32_t pid = *segment.creator_pid;
      if (!known.contains(pid)) known.emplace(pid, creator_facts(pid, device, tree));
      segment.creator = creator_state(known.at(pid), segment.modified_ns);
    }
    add_to_equation(ledger, segment);
    ledger.segments.push_back(std::move(segment));
  }
  ledger.unexplained_bytes = static_cast<int64_t>(ledger.used_bytes) -
                             static_cast<int64_t>(ledger.named_bytes + ledger.unlinked_open_bytes +
                                                  ledger.unlinked_mapped_bytes);
  cut_to_largest(ledger);
  return ledger;
}

LedgerKeeper::CreatorFacts LedgerKeeper::creator_facts(int32_t own_pid, uint64_t device,
                                                       const ProcessTree& tree) const {
  CreatorFacts facts;
  const auto member = tree.find_by_own_pid(own_pid);
  // Outside the initial pid namespace a process that shares the mount may be out of sight; a dead
  // member of the tree is known to be dead all the same.
  facts.all_seen = sees_all_pids_ || member.has_value();
  if (member && tree.lives(*member)) {
    facts.alive_since_ns.push_back(started_realtime_ns(*machine_.clock, member->start_ticks));
  }
  look_at_creator(own_pid, own_pid, device, facts);
  for (const auto& [nested_pid, seen_pid] : nested_) {
    if (nested_pid == own_pid) look_at_creator(seen_pid, own_pid, device, facts);
  }
  return facts;
}

void LedgerKeeper::look_at_creator(int32_t seen_pid, int32_t own_pid, uint64_t device,
                                   CreatorFacts& facts) const {
  const auto directory = machine_.root->open_directory("proc/" + std::to_string(seen_pid));
  if (!directory) return;
  const auto stat = chain((*directory)->read("stat"), parse_pid_stat);
  if (!stat || has_ended(*stat)) return;
  const auto status = chain((*directory)->read("status"), parse_pid_status);
  // A process of a nested namespace puts the pid that it has there into names.
  if (status && !status->namespace_pids.empty() && status->namespace_pids.back() != own_pid) return;
  const auto shm = (*directory)->stat("root/dev/shm");
  if (!status || !shm) {
    facts.unknown = true;
  } else if (shm->device == device) {
    facts.alive_since_ns.push_back(started_realtime_ns(*machine_.clock, stat->start_ticks));
  }
}

}  // namespace dlprobe
