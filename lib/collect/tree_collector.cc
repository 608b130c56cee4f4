#include "lib/collect/tree_collector.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/collect/deaths/end_watch.h"
#include "lib/collect/shm/shm_watch.h"
#include "lib/collect/snapshot/shared_files.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/collect/tree/descriptor_watch.h"
#include "lib/collect/tree/gap_log.h"
#include "lib/collect/tree/loader_motion.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/second_tier.h"
#include "lib/collect/tree/tree_cgroup.h"

namespace dlprobe {
namespace {

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
        sink_(sink),
        gaps_(sink),
        tree_(machine_, root, options.adopter),
        ends_(machine_, sink),
        shm_(machine_, reader_, sink, gaps_),
        second_tier_(machine_, options.waits, options.pss, reader_),
        descriptors_(machine_, reader_),
        cgroup_(machine_, gaps_) {
    raise_open_files_limit();
    if (options_.deaths) ends_.listen_to_deaths(reader_);
  }

  BootNs tick() {
    ends_.forget_wakes();
    const BootNs now = machine_.clock->now();
    if (now >= times_.next_sample) {
      sample(now);
      times_.next_sample += options_.interval.count();
      // Late ticks are left out, not made up for.
      if (times_.next_sample <= now) times_.next_sample = now + options_.interval.count();
      ends_.begin_to_count();
    } else {
      if (now < times_.next_discovery) ends_.count_wake();
      look_between_samples(now);
    }
    const BootNs interval = options_.interval.count();
    const BootNs calm =
        std::min(descriptors_.time_to_limit(tree_, interval), shm_.time_to_fill(now, interval));
    const BootNs due = std::min(times_.next_sample, now + calm);
    return is_starting(now) ? std::min(due, times_.next_discovery) : due;
  }

  void take_ledger() { shm_.take_ledger(tree_); }

  bool take_snapshot() {
    if (!snapshots_) snapshots_.emplace(machine_, options_.snapshot, sink_);
    std::vector<SnapshotTarget> targets;
    for (const auto& [key, process] : tree_.members()) {
      if (is_alive(process)) targets.push_back({.key = key, .directory = process.directory});
    }
    TreeSnapshot snapshot = snapshots_->take(targets);
    // One that came to nothing (its Gap says why) must not look like a tree without processes.
    if (!snapshot.processes.empty()) sink_.add(std::move(snapshot));
    times_.next_second = 0;
    return snapshots_->went_on();
  }

  void take_shared_files() {
    TreeSnapshot tree;
    tree.at = machine_.clock->now();
    for (const ProcessKey& key : living()) {
      tree.processes.emplace_back();
      tree.processes.back().key = key;
      tree.processes.back().at = tree.at;
    }
    shared_files_.look(machine_, tree);
    const bool any = std::ranges::any_of(
        tree.processes, [](const ProcessSnapshot& each) { return !each.shared_files.empty(); });
    if (any) sink_.add(std::move(tree));
  }

  void note_exit(const ProcessKey& key, int wait_status, std::string source) {
    ends_.note(tree_, key, wait_status, std::move(source));
  }

  int wake_descriptor() const { return ends_.wake_descriptor(); }

  bool take_failed_exit() { return ends_.take_failed(); }

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
      if (is_alive(process)) keys.push_back(key);
    return keys;
  }

  bool alive() const {
    return std::ranges::any_of(tree_.members(),
                               [](const auto& entry) { return is_alive(entry.second); });
  }

  bool trainer_alive() const {
    return std::ranges::any_of(tree_.members(), [this](const auto& entry) {
      const TrackedProcess& process = entry.second;
      return is_alive(process) &&
             (process.key == tree_.root() || process.info.role == Role::kTrainer);
    });
  }

 private:
  struct Times {
    BootNs next_sample = 0;
    BootNs next_second = 0;  ///< what is looked at once a second
    BootNs next_discovery = 0;
    BootNs last_new_member = 0;
  };

  void sample(BootNs now) {
    const bool second_due = now >= times_.next_second;
    if (second_due) times_.next_second = now + kSecond;
    shm_.poll();               // what follows may wait for a lock that a dying process holds
    ends_.read_deaths(tree_);  // of members that discover() is about to drop
    discover(now);
    tree_.sample(reader_);
    const bool any_ended = ends_.check(tree_);
    ends_.look_at_deaths(tree_, any_ended || second_due);
    if (second_due) {
      second_tier_.read(tree_, now);
      shm_.poll();
    }
    tree_.update_roles();
    if (second_due) motion_.update(tree_, now);
    descriptors_.count(tree_, now, second_due);
    for (const uint64_t device : shm_.find_mounts(tree_, second_due))
      descriptors_.know_mount(device);
    if (second_due) descriptors_.look(tree_, now);
    emit_infos();
    emit_descriptor_looks();
    if (second_due) cgroup_.find(tree_);
    emit_sample(now, second_due);
    shm_.check_segments(tree_);
    take_ledger_if_due();
    emit_gaps();
  }

  /// Where /dev/shm changes, what changes it may live for less than the time between two samples.
  void look_between_samples(BootNs now) {
    shm_.poll();
    // A loader may fill all descriptors with its first batches, in less than a sample.
    descriptors_.poll(tree_, now, is_starting(now));
    emit_descriptor_looks();
    const bool any_ended = ends_.check(tree_);
    ends_.look_at_deaths(tree_, any_ended);
    if (any_ended) {
      tree_.update_roles();
      emit_infos();
    }
    const bool ledger = options_.ledgers && shm_.is_ledger_due();
    if (!ledger && (!is_starting(now) || now < times_.next_discovery)) return;
    discover(now);
    tree_.update_roles();
    emit_infos();
    if (ledger) take_ledger_if_due();
  }

  void discover(BootNs now) {
    tree_.discover(reader_);
    if (ends_.know_new_members(tree_)) times_.last_new_member = now;
    times_.next_discovery = now + options_.discover_every.count();
  }

  // Whether workers may come and go at any moment.
  bool is_starting(BootNs now) const {
    if (!options_.deaths || times_.last_new_member == 0) return false;
    const bool has_workers = std::ranges::any_of(
        tree_.members(), [](const auto& entry) { return entry.second.info.role == Role::kWorker; });
    return now - times_.last_new_member < (has_workers ? kDiscoverFor : kDiscoverFirstFor);
  }

  void take_ledger_if_due() {
    if (options_.ledgers) shm_.take_ledger_if_due(tree_, !alive());
  }

  void emit_infos() {
    for (auto& [key, process] : tree_.members()) {
      if (std::exchange(process.info_changed, false)) sink_.add(process.info);
    }
  }

  void emit_descriptor_looks() {
    for (FdLook& look : descriptors_.take_looks())
      sink_.add(std::move(look));
  }

  void emit_sample(BootNs now, bool second_due) {
    Sample sample;
    sample.at = now;
    for (auto& [key, process] : tree_.members()) {
      if (!process.vanished) sample.processes.push_back(std::move(process.sample));
    }
    sample.shm = shm_.sample();
    sample.cgroup = cgroup_.read(now);
    if (second_due) sample.host = read_host_memory(*machine_.root);
    sink_.add(std::move(sample));
  }

  void emit_gaps() {
    for (const Error& error : tree_.take_errors())
      add_gap("a process of the tree", error);
    for (const Error& error : shm_.take_errors())
      add_gap("/dev/shm of a process", error);
  }

  void add_gap(const OwnWords& what, const Error& error) {
    if (error.code == ErrorCode::kVanished) return;
    gaps_.add({.what = what + ": " + as_text(error.context),
               .why = as_text(to_string(error)),
               .effect = "what it would show is missing from the recording",
               .remedy = error.code == ErrorCode::kForbidden
                             ? "run dlprobe as the user of the processes, or as root"
                             : ""});
  }

  Machine machine_;
  CollectOptions options_;
  RecordSink& sink_;
  GapLog gaps_;
  DeadlineReader reader_;
  ProcessTree tree_;
  EndWatch ends_;
  ShmWatch shm_;
  SecondTier second_tier_;
  LoaderMotion motion_;
  DescriptorWatch descriptors_;
  SharedFileWatch shared_files_;
  TreeCgroup cgroup_;
  std::optional<SnapshotTaker> snapshots_;
  Times times_;
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

bool TreeCollector::take_snapshot() {
  return impl_->take_snapshot();
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
