#include "lib/collect/tree_collector.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/collect/cgroup_reader.h"
#include "lib/collect/death_watch.h"
#include "lib/collect/descriptor_watch.h"
#include "lib/collect/exit_watch.h"
#include "lib/collect/gap_log.h"
#include "lib/collect/loader_motion.h"
#include "lib/collect/oom_watch.h"
#include "lib/collect/process_tree.h"
#include "lib/collect/second_tier.h"
#include "lib/collect/segment_watch.h"
#include "lib/collect/shared_files.h"
#include "lib/collect/shm_ledger.h"
#include "lib/collect/shm_mounts.h"
#include "lib/collect/snapshot.h"
#include "lib/os/wake_set.h"

namespace dlprobe {
namespace {

/// How fast memory can be filled at most: what earlyoom (main.c) assumes for its own sleep.
constexpr uint64_t kFillBytesPerSecond = uint64_t{6000} << 20;
constexpr BootNs kShortestWait = 10 * kMillisecond;
/// While a mount that is nearly full changes: a worker that dies of it takes its segments along
/// within 10 ms.
constexpr BootNs kShortestWaitNearFull = 2 * kMillisecond;
constexpr BootNs kCalmAfter = kSecond;  ///< without a change
/// What nobody removed by then, stays: managers clean up within 2 s of a death.
constexpr BootNs kSettled = 4 * kSecond;
constexpr BootNs kLedgerShare = 100;  ///< one part in so many of the time
constexpr BootNs kLedgerRest = kSecond;
constexpr BootNs kLedgerRestHalfFull = 200 * kMillisecond;
/// Early calls for the sake of deaths, from one sample to the next: other jobs of the machine may
/// send signals without end.
constexpr int kMostWakes = 20;

/// Where ends of processes are of interest: new children are looked for so often, for a while after
/// the last new one. A worker may live for less than the time between two samples.
constexpr BootNs kDiscoverFor = 2 * kSecond;
constexpr BootNs kDiscoverFirstFor = 30 * kSecond;  ///< until there are workers

}  // namespace

class TreeCollector::Impl {
 public:
  Impl(Machine machine, const ProcessKey& root, const CollectOptions& options, RecordSink& sink)
      : machine_(std::move(machine)),
        options_(options),
        sink_(&sink),
        gaps_(sink),
        tree_(machine_, root, options.adopter),
        exits_(machine_, sink),
        mounts_(machine_),
        second_tier_(machine_, options.waits, options.pss, reader_),
        descriptors_(machine_, reader_),
        ledgers_(machine_, reader_),
        oom_(machine_, sink) {
    raise_open_files_limit();
    wake_set_ = WakeSet::create();
    if (options_.deaths) deaths_.emplace(machine_, reader_, sink);
    if (deaths_) wake_by(deaths_->descriptors());
  }

  BootNs tick() {
    if (wake_set_) wake_set_->clear();
    const BootNs now = machine_.clock->now();
    if (now >= next_sample_) {
      sample(now);
      next_sample_ += options_.interval.count();
      // Late ticks are left out, not made up for.
      if (next_sample_ <= now) next_sample_ = now + options_.interval.count();
      wakes_ = 0;
    } else {
      if (now < next_discovery_) ++wakes_;
      look_between_samples(now);
    }
    const BootNs calm = descriptors_.time_to_limit(tree_, options_.interval.count());
    const BootNs due = std::min(next_sample_, now + std::min(calm, time_to_fill(now)));
    return is_starting(now) ? std::min(due, next_discovery_) : due;
  }

  void take_ledger() { take_ledgers(machine_.clock->now(), LedgerKeeper::Scope::kAll); }

  void take_snapshot() {
    if (!snapshots_) snapshots_.emplace(machine_, options_.snapshot, *sink_);
    std::vector<SnapshotTarget> targets;
    for (const auto& [key, process] : tree_.members()) {
      if (lives(process)) targets.push_back({.key = key, .directory = process.directory});
    }
    TreeSnapshot snapshot = snapshots_->take(targets);
    // One that came to nothing (its Gap says why) must not look like a tree without processes.
    if (!snapshot.processes.empty()) sink_->add(std::move(snapshot));
    next_second_ = 0;
  }

  void take_shared_files() {
    TreeSnapshot tree;
    tree.at = machine_.clock->now();
    for (const auto& [key, process] : tree_.members()) {
      if (!lives(process)) continue;
      tree.processes.emplace_back();
      tree.processes.back().key = key;
      tree.processes.back().at = tree.at;
    }
    shared_files_.look(machine_, tree);
    const bool any = std::ranges::any_of(
        tree.processes, [](const ProcessSnapshot& each) { return !each.shared_files.empty(); });
    if (any) sink_->add(std::move(tree));
  }

  void note_exit(const ProcessKey& key, int wait_status, std::string source) {
    exits_.note(tree_, key, wait_status, std::move(source));
    look_at_deaths(true);
  }

  int wake_descriptor() const {
    return wake_set_ && wakes_ < kMostWakes ? wake_set_->descriptor() : -1;
  }

  bool take_failed_exit() { return exits_.take_failed(); }

  BootNs last_motion() const { return motion_.last_moved(); }
  BootNs looked_for_motion_at() const { return motion_.looked_at(); }

  bool is_helper(const ProcessKey& key) const {
    const auto found = tree_.members().find(key);
    if (found == tree_.members().end()) return false;
    const Role role = found->second.info.role;
    return role == Role::kResourceTracker || role == Role::kShmManager;
  }

  std::vector<ProcessKey> living() const {
    std::vector<ProcessKey> keys;
    for (const auto& [key, process] : tree_.members())
      if (lives(process)) keys.push_back(key);
    return keys;
  }

  bool alive() const {
    return std::ranges::any_of(tree_.members(),
                               [](const auto& entry) { return lives(entry.second); });
  }

  bool trainer_alive() const {
    return std::ranges::any_of(tree_.members(), [this](const auto& entry) {
      const TrackedProcess& process = entry.second;
      return lives(process) && (process.key == tree_.root() || process.info.role == Role::kTrainer);
    });
  }

 private:
  static bool lives(const TrackedProcess& process) {
    return !process.vanished && !process.ended_at && !has_ended(process.last_stat);
  }

  void sample(BootNs now) {
    const bool second_due = now >= next_second_;
    if (second_due) next_second_ = now + kSecond;
    poll_shm();  // what follows may wait for a lock that a dying process holds
    if (deaths_) deaths_->read(tree_);  // of members that discover() is about to drop
    discover(now);
    tree_.sample(reader_);
    look_at_deaths(check_exits() || second_due);
    if (second_due) {
      second_tier_.read(tree_, now);
      poll_shm();
    }
    tree_.update_roles();
    if (second_due) motion_.update(tree_, now);
    descriptors_.count(tree_, now, second_due);
    find_mounts(second_due);
    if (second_due) descriptors_.look(tree_, now);
    emit_infos();
    emit_descriptor_looks();
    if (second_due) open_cgroup();
    emit_sample(now, second_due);
    check_segments();
    take_ledger_if_due(now);
    emit_gaps();
  }

  /// Where /dev/shm changes, what changes it may live for less than the time between two samples.
  void look_between_samples(BootNs now) {
    poll_shm();
    // A loader may fill all descriptors with its first batches, in less than a sample.
    descriptors_.poll(tree_, now, is_starting(now));
    emit_descriptor_looks();
    if (check_exits()) {
      look_at_deaths(true);
      tree_.update_roles();
      emit_infos();
    } else {
      look_at_deaths(false);
    }
    const bool ledger = options_.ledgers && use_changed_ && ledger_due(now);
    if (!ledger && (!is_starting(now) || now < next_discovery_)) return;
    discover(now);
    tree_.update_roles();
    emit_infos();
    if (ledger) take_ledger_if_due(now);
  }

  void discover(BootNs now) {
    const size_t before = known_members_;
    tree_.discover(reader_);
    wake_by_exits();
    if (known_members_ != before) last_new_member_ = now;
    next_discovery_ = now + options_.discover_every.count();
  }

  // Whether workers may come and go at any moment.
  bool is_starting(BootNs now) const {
    if (!options_.deaths || last_new_member_ == 0) return false;
    const bool has_workers = std::ranges::any_of(
        tree_.members(), [](const auto& entry) { return entry.second.info.role == Role::kWorker; });
    return now - last_new_member_ < (has_workers ? kDiscoverFor : kDiscoverFirstFor);
  }

  bool check_exits() {
    const bool any = exits_.check(tree_);
    if (any) tree_.note_end();
    return any;
  }

  /// `counters`: the counters of OOM kills may have moved.
  void look_at_deaths(bool counters) {
    if (!deaths_) return;
    deaths_->read(tree_);
    if (!counters) return;
    oom_.find_groups(tree_);
    oom_.read();
  }

  void wake_by(const std::vector<int>& descriptors) const {
    for (const int descriptor : descriptors) {
      if (!wake_set_ || descriptor < 0) continue;
      // Without it the next sample sees what it would have told.
      if (!wake_set_->add(descriptor)) return;
    }
  }

  void wake_by_exits() {
    for (auto& [key, process] : tree_.members()) {
      if (std::exchange(process.wakes, true)) continue;
      wake_by({process.pidfd.get()});
      ++known_members_;
    }
  }

  void find_mounts(bool again) {
    for (ShmMount& mount : mounts_.update(tree_, again)) {
      descriptors_.know_mount(mount.device);
      sink_->add(std::move(mount));
    }
    while (segment_watches_.size() < mounts_.all().size()) {
      segment_watches_.emplace_back(machine_, mounts_.all()[segment_watches_.size()]);
    }
  }

  static uint64_t free_bytes(const std::optional<ShmUse>& use) {
    if (!use || use->size_bytes == 0) return UINT64_MAX;
    return use->size_bytes - std::min(use->used_bytes, use->size_bytes);
  }

  void check_segments() {
    for (size_t i = 0; i < segment_watches_.size(); ++i) {
      SegmentWatch& watch = segment_watches_[i];
      watch.check(tree_, reader_, lowest_free_[i]);
      lowest_free_[i] = free_bytes(last_use_[i]);
      for (Event& event : watch.take_events())
        sink_->add(std::move(event));
      if (auto gap = watch.take_gap()) gaps_.add(std::move(*gap));
      segments_changed_ = watch.take_activity() || segments_changed_;
    }
  }

  /// A full look at the start, once the mount is half full and at the end of the tree; the tree
  /// alone while segments change, and once they have not for a while. Never more than 1 % of the
  /// time, beside the first and the last and the one when a mount runs full.
  void take_ledger_if_due(BootNs now) {
    if (!options_.ledgers || mounts_.all().empty()) return;
    const bool ended = !alive();
    if (!first_ledger_taken_ || (ended && !last_ledger_taken_)) {
      last_ledger_taken_ = ended;
      first_ledger_taken_ = true;
      take_ledgers(now, LedgerKeeper::Scope::kAll);
      return;
    }
    const bool settled =
        fullest() > 0 && last_ledger_ < changed_at_ + kSettled && now >= changed_at_ + kSettled;
    const bool changed = segments_changed_ || use_changed_;
    if (ended || !(settled || (changed && ledger_due(now)))) return;
    const bool full = fullest() >= 0.5 && now >= next_full_ledger_;
    take_ledgers(now, full ? LedgerKeeper::Scope::kAll : LedgerKeeper::Scope::kTree);
  }

  bool ledger_due(BootNs now) const {
    const double used = fullest();
    if (used >= 0.8 && !seen_running_full_) return true;
    const BootNs rest = used >= 0.5 ? kLedgerRestHalfFull : kLedgerRest;
    return now - last_ledger_ >= std::max(rest, kLedgerShare * ledger_cost_);
  }

  void take_ledgers(BootNs now, LedgerKeeper::Scope scope) {
    const double used = fullest();
    seen_running_full_ = used >= 0.8 || (seen_running_full_ && used >= 0.6);
    const BootNs before = machine_.clock->now();
    for (ShmLedger& ledger : ledgers_.take(tree_, mounts_, scope, [this] { poll_shm(); })) {
      note_empty_segments(ledger);
      sink_->add(std::move(ledger));
    }
    const BootNs cost = machine_.clock->now() - before;
    last_ledger_ = now;
    if (scope == LedgerKeeper::Scope::kAll) {
      next_full_ledger_ = now + std::max(kLedgerRest, kLedgerShare * cost);
    } else {
      ledger_cost_ = cost;
    }
    segments_changed_ = false;
    use_changed_ = false;
  }

  /// Segments made before inotify watched, or without it.
  void note_empty_segments(const ShmLedger& ledger) {
    for (size_t i = 0; i < segment_watches_.size(); ++i) {
      if (mounts_.all()[i].mount.device != ledger.device) continue;
      for (const ShmSegment& segment : ledger.segments) {
        if (segment.name && segment.linked && segment.size_bytes > 0 &&
            segment.allocated_bytes.value_or(1) == 0) {
          segment_watches_[i].add(*segment.name, free_bytes(last_use_[i]));
        }
      }
    }
  }

  /// The share in use, of the mount in which it is largest.
  double fullest() const {
    double most = 0;
    for (const std::optional<ShmUse>& use : last_use_) {
      if (!use || use->size_bytes == 0) continue;
      most = std::max(most,
                      static_cast<double>(use->used_bytes) / static_cast<double>(use->size_bytes));
    }
    return most;
  }

  void emit_infos() {
    for (auto& [key, process] : tree_.members()) {
      if (std::exchange(process.info_changed, false)) sink_->add(process.info);
    }
  }

  void emit_descriptor_looks() {
    for (FdLook& look : descriptors_.take_looks())
      sink_->add(std::move(look));
  }

  /// The group of the trainer, or of the root before there is one.
  void open_cgroup() {
    const TrackedProcess* best = nullptr;
    for (const auto& [key, process] : tree_.members()) {
      if (!lives(process)) continue;
      const bool better = best == nullptr || (process.info.role == Role::kTrainer &&
                                              best->info.role != Role::kTrainer);
      if (better) best = &process;
    }
    if (best == nullptr || !best->info.cgroup || *best->info.cgroup == cgroup_path_) return;
    cgroup_path_ = *best->info.cgroup;
    cgroup_.reset();
    auto reader = CgroupReader::open(machine_, *best->directory);
    if (reader) {
      cgroup_.emplace(std::move(*reader));
      return;
    }
    gaps_.add({.what = "memory of cgroup " + cgroup_path_,
               .why = to_string(reader.error()),
               .effect = "whether the group's memory limit was reached cannot be said",
               .remedy = "run dlprobe where /sys/fs/cgroup is mounted"});
  }

  void emit_sample(BootNs now, bool second_due) {
    Sample sample;
    sample.at = now;
    for (auto& [key, process] : tree_.members()) {
      if (!process.vanished) sample.processes.push_back(std::move(process.sample));
    }
    for (const WatchedMount& watched : mounts_.all()) {
      sample.shm.push_back(mounts_.use(watched));
    }
    for (size_t i = 0; i < sample.shm.size(); ++i)
      if (sample.shm[i]) note_use(i, *sample.shm[i]);
    if (cgroup_) sample.cgroup = cgroup_->read(now);
    if (second_due) sample.host = read_host_memory(*machine_.root);
    sink_->add(std::move(sample));
  }

  static bool differs(const std::optional<ShmUse>& before, const ShmUse& now) {
    return !before || before->used_bytes != now.used_bytes ||
           before->inodes_used != now.inodes_used;
  }

  /// Returns whether it differs from the last look.
  bool note_use(size_t mount, const ShmUse& use) {
    last_use_.resize(mounts_.all().size());
    lowest_free_.resize(mounts_.all().size(), UINT64_MAX);
    const bool changed = differs(last_use_[mount], use);
    last_use_[mount] = use;
    lowest_free_[mount] = std::min(lowest_free_[mount], free_bytes(use));
    if (changed) {
      use_changed_ = true;
      changed_at_ = use.at;
    }
    return changed;
  }

  /// Between two samples: the use of /dev/shm, where it has changed.
  void poll_shm() {
    for (size_t i = 0; i < mounts_.all().size(); ++i) {
      const auto use = mounts_.use(mounts_.all()[i]);
      if (use && note_use(i, *use)) sink_->add(*use);
    }
  }

  /// How soon a mount could be full.
  BootNs time_to_fill(BootNs now) const {
    const bool calm = now - changed_at_ > kCalmAfter;
    const BootNs shortest = calm ? kShortestWait : kShortestWaitNearFull;
    BootNs soonest = options_.interval.count();
    for (const auto& use : last_use_) {
      if (!use || use->size_bytes == 0) continue;
      const uint64_t headroom = use->size_bytes - std::min(use->used_bytes, use->size_bytes);
      const auto time = static_cast<BootNs>(headroom / (kFillBytesPerSecond / kSecond));
      soonest = std::min(soonest, std::max(time, shortest));
    }
    return soonest;
  }

  void emit_gaps() {
    for (const Error& error : tree_.take_errors())
      add_gap("a process of the tree", error);
    for (const Error& error : mounts_.take_errors())
      add_gap("/dev/shm of a process", error);
  }

  void add_gap(const std::string& what, const Error& error) {
    if (error.code == ErrorCode::kVanished) return;
    gaps_.add({.what = what + ": " + error.context,
               .why = to_string(error),
               .effect = "what it would show is missing from the recording",
               .remedy = error.code == ErrorCode::kForbidden
                             ? "run dlprobe as the user of the processes, or as root"
                             : ""});
  }

  Machine machine_;
  CollectOptions options_;
  RecordSink* sink_;
  GapLog gaps_;
  DeadlineReader reader_;
  ProcessTree tree_;
  ExitWatch exits_;
  ShmMounts mounts_;
  SecondTier second_tier_;
  LoaderMotion motion_;
  size_t known_members_ = 0;  ///< all that ever were
  BootNs last_new_member_ = 0;
  BootNs next_discovery_ = 0;
  DescriptorWatch descriptors_;
  SharedFileWatch shared_files_;
  std::optional<CgroupReader> cgroup_;
  std::string cgroup_path_;
  std::vector<std::optional<ShmUse>> last_use_;
  std::vector<uint64_t> lowest_free_;  ///< of each mount, since its segments were looked at
  BootNs next_sample_ = 0;
  BootNs next_second_ = 0;
  LedgerKeeper ledgers_;
  std::optional<SnapshotTaker> snapshots_;
  std::vector<SegmentWatch> segment_watches_;  ///< one for each of the mounts
  OomWatch oom_;
  std::optional<DeathWatch> deaths_;
  Expected<WakeSet> wake_set_ = failure(ErrorCode::kInsufficient, "not made");
  int wakes_ = 0;                  ///< early calls since the last sample
  bool use_changed_ = false;       ///< since the last ledger
  bool segments_changed_ = false;  ///< since the last ledger
  bool first_ledger_taken_ = false;
  bool last_ledger_taken_ = false;
  bool seen_running_full_ = false;  ///< a ledger was taken above 80 %, and never below 60 %
  BootNs changed_at_ = 0;
  BootNs last_ledger_ = 0;
  BootNs ledger_cost_ = 0;  ///< of the last look at the tree alone
  BootNs next_full_ledger_ = 0;
};

TreeCollector::TreeCollector(Machine machine, const ProcessKey& root, const CollectOptions& options,
                             RecordSink& sink)
    : impl_(std::make_unique<Impl>(std::move(machine), root, options, sink)) {}

TreeCollector::~TreeCollector() = default;

BootNs TreeCollector::tick() {
  return impl_->tick();
}

void TreeCollector::take_ledger() {
  impl_->take_ledger();
}

void TreeCollector::note_exit(const ProcessKey& key, int wait_status, std::string source) {
  impl_->note_exit(key, wait_status, std::move(source));
}

void TreeCollector::take_shared_files() {
  impl_->take_shared_files();
}

void TreeCollector::take_snapshot() {
  impl_->take_snapshot();
}

bool TreeCollector::take_failed_exit() {
  return impl_->take_failed_exit();
}

BootNs TreeCollector::last_motion() const {
  return impl_->last_motion();
}

BootNs TreeCollector::looked_for_motion_at() const {
  return impl_->looked_for_motion_at();
}

bool TreeCollector::is_helper(const ProcessKey& key) const {
  return impl_->is_helper(key);
}

std::vector<ProcessKey> TreeCollector::living() const {
  return impl_->living();
}

bool TreeCollector::alive() const {
  return impl_->alive();
}

bool TreeCollector::trainer_alive() const {
  return impl_->trainer_alive();
}

int TreeCollector::wake_descriptor() const {
  return impl_->wake_descriptor();
}

}  // namespace dlprobe
