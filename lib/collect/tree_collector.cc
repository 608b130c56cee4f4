#include "lib/collect/tree_collector.h"

#include <algorithm>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

/// Where ends of processes are of interest: new children are looked for so often, for a while after
/// the last new one. A worker may live for less than the time between two samples.
constexpr BootNs kDiscoverFor = 2 * kSecond;
constexpr BootNs kDiscoverFirstFor = 30 * kSecond;  ///< until there are workers

}  // namespace

TreeCollector::TreeCollector(Machine machine, const ProcessKey& root, const CollectOptions& options,
                             RecordSink& sink)
    : machine_(std::move(machine)),
      options_(options),
      sink_(sink),
      gaps_(sink),
      tree_(machine_, root, options.adopter),
      ends_(machine_, sink),
      shm_(machine_, reader_, sink, gaps_),
      second_tier_(machine_, options.waits, options.pss, reader_),
      descriptors_(machine_, reader_),
      closer_{.files = {}, .containers = ContainerWatch(machine_)},
      cgroup_(machine_, gaps_) {
  raise_open_files_limit();
  if (options_.deaths) ends_.listen_to_deaths(reader_);
}

BootNs TreeCollector::tick() {
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

bool TreeCollector::take_snapshot() {
  if (!snapshots_) snapshots_.emplace(machine_, options_.snapshot, sink_);
  SnapshotTaker& taker = *snapshots_;
  std::vector<SnapshotTarget> targets;
  for (const auto& [key, process] : tree_.members()) {
    if (!is_alive(process)) continue;
    targets.push_back({.key = key,
                       .directory = process.directory,
                       .is_worker = process.info.role == Role::kWorker});
  }
  TreeSnapshot snapshot = taker.take(targets);
  for (const auto& [key, rank] : taker.ranks())
    tree_.note_rank(key, rank);
  tree_.update_roles();
  emit_infos();
  // One that came to nothing (its Gap says why) must not look like a tree without processes.
  if (!snapshot.processes.empty()) sink_.add(std::move(snapshot));
  times_.next_second = 0;
  return taker.went_on();
}

void TreeCollector::note_exit(const ProcessKey& key, int wait_status, std::string source) {
  ends_.note(tree_, key, wait_status, std::move(source));
}

bool TreeCollector::is_helper(const ProcessKey& key) const {
  const auto found = tree_.members().find(key);
  if (found == tree_.members().end()) return false;
  const Role role = found->second.info.role;
  return role == Role::kResourceTracker || role == Role::kShmManager;
}

bool TreeCollector::alive() const {
  return std::ranges::any_of(tree_.members(),
                             [](const auto& entry) { return is_alive(entry.second); });
}

bool TreeCollector::trainer_alive() const {
  return std::ranges::any_of(tree_.members(), [this](const auto& entry) {
    const TrackedProcess& process = entry.second;
    return is_alive(process) &&
           (process.key == tree_.root() || process.info.role == Role::kTrainer);
  });
}

void TreeCollector::sample(BootNs now) {
  const bool second_due = now >= times_.next_second;
  if (second_due) times_.next_second = now + kSecond;
  shm_.poll();               // what follows may wait for a lock that a dying process holds
  ends_.read_deaths(tree_);  // of members that discover() is about to drop
  discover(now);
  tree_.sample(reader_, second_due);
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
  if (options_.containers) closer_.containers.look_if_due(tree_, now, sink_);
  emit_infos();
  emit_descriptor_looks();
  if (second_due) cgroup_.find(tree_);
  emit_sample(now, second_due);
  shm_.check_segments(tree_);
  take_ledger_if_due();
  if (options_.shared_files)
    closer_.files.look_if_due(machine_, tree_.living(), times_.last_new_member, sink_);
  emit_gaps();
}

/// Where /dev/shm changes, what changes it may live for less than the time between two samples.
void TreeCollector::look_between_samples(BootNs now) {
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

void TreeCollector::discover(BootNs now) {
  tree_.discover(reader_, is_starting(now));
  if (ends_.know_new_members(tree_)) times_.last_new_member = now;
  times_.next_discovery = now + options_.discover_every.count();
}

// Whether workers may come and go at any moment.
bool TreeCollector::is_starting(BootNs now) const {
  if (!options_.deaths || times_.last_new_member == 0) return false;
  const bool has_workers = std::ranges::any_of(
      tree_.members(), [](const auto& entry) { return entry.second.info.role == Role::kWorker; });
  return now - times_.last_new_member < (has_workers ? kDiscoverFor : kDiscoverFirstFor);
}

void TreeCollector::take_ledger_if_due() {
  if (options_.ledgers) shm_.take_ledger_if_due(tree_, !alive());
}

void TreeCollector::emit_infos() {
  for (auto& [key, process] : tree_.members()) {
    if (std::exchange(process.info_changed, false)) sink_.add(process.info);
  }
}

void TreeCollector::emit_descriptor_looks() {
  for (FdLook& look : descriptors_.take_looks())
    sink_.add(std::move(look));
}

void TreeCollector::emit_sample(BootNs now, bool second_due) {
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

void TreeCollector::emit_gaps() {
  for (const Error& error : tree_.take_errors())
    add_gap("a process of the tree", error);
  for (const Error& error : shm_.take_errors())
    add_gap("/dev/shm of a process", error);
}

void TreeCollector::add_gap(const OwnWords& what, const Error& error) {
  if (error.code == ErrorCode::kVanished) return;
  gaps_.add({.what = what + ": " + as_text(error.context),
             .why = as_text(to_string(error)),
             .effect = "its data are missing from the recording",
             .remedy = error.code == ErrorCode::kForbidden
                           ? "run dlprobe as the processes' user, or as root"
                           : ""});
}

}  // namespace dlprobe
