#include "lib/model/recording.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr BootNs kFullRateAge = 120 * kSecond;
constexpr BootNs kThinEvery = 30 * kSecond;
constexpr size_t kMostKeptBatches = 20'000;
constexpr size_t kMostEvents = 5'000;
constexpr size_t kMostExits = 20'000;
constexpr size_t kMostProcesses = 20'000;
constexpr size_t kMostGaps = 1'000;
constexpr size_t kMostOfDeaths = 5'000;
constexpr size_t kMostFdLooks = 1'000;
constexpr size_t kMostContainerLooks = 1'000;
constexpr size_t kMostSnapshots = 16;
constexpr size_t kMostOldSnapshots = 8;  ///< before those, one in 5 s
constexpr BootNs kBetweenOldSnapshots = 5 * kSecond;

uint64_t shm_weight(const Sample& sample) {
  uint64_t used = 0;
  for (const Observed<ShmUse>& use : sample.shm)
    used += use ? use->used_bytes : 0;
  return used;
}
uint64_t shm_weight(const ShmUse& use) {
  return use.used_bytes;
}
uint64_t shm_weight(const ShmLedger& ledger) {
  return ledger.used_bytes;
}

uint64_t series_of(const Sample& /*sample*/) {
  return 0;
}
uint64_t series_of(const ShmUse& use) {
  return use.device;
}
uint64_t series_of(const ShmLedger& ledger) {
  return ledger.device;
}

// Drops the records that are not to be kept, and returns how many they were.
template <class T>
uint64_t keep_only(std::vector<T>& records, const std::vector<bool>& keep) {
  size_t kept = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (!keep[i]) continue;
    if (kept != i) records[kept] = std::move(records[i]);
    ++kept;
  }
  const uint64_t dropped = records.size() - kept;
  records.resize(kept);
  return dropped;
}

// The records of one series that stand for one another: those of the same second, or ten of them.
// They follow one another, because the records are in time order.
struct Group {
  BootNs width = 0;  // 0: of full age, stays by itself
  BootNs number = 0;
  bool operator==(const Group&) const = default;
};

Group group_of(BootNs at, BootNs now) {
  struct Tier {
    BootNs age;    // up to which
    BootNs width;  // one record of each such span stays
  };
  constexpr std::array<Tier, 2> kTiers = {
      {{600 * kSecond, kSecond}, {kSecond * 6 * 3600, 10 * kSecond}}};
  constexpr BootNs kOldestWidth = 120 * kSecond;
  if (now - at <= kFullRateAge) return {.width = 0, .number = at};
  BootNs width = kOldestWidth;
  for (const Tier& tier : kTiers) {
    if (now - at <= tier.age) width = std::min(width, tier.width);
  }
  return {.width = width, .number = at / width};
}

template <class T>
void take_if_absent(std::optional<T>& to, std::optional<T>& from) {
  if (!to) to = std::move(from);
}

// What is looked at once a second or less, and mostly not in the very sample that stays.
void take_over(Sample& kept, Sample& dropped) {
  take_if_absent(kept.host, dropped.host);
  if (kept.cgroup && *kept.cgroup && dropped.cgroup && *dropped.cgroup) {
    take_if_absent((*kept.cgroup)->swap_bytes, (*dropped.cgroup)->swap_bytes);
    take_if_absent((*kept.cgroup)->pressure, (*dropped.cgroup)->pressure);
  }
  auto from = dropped.processes.begin();
  for (ProcessSample& process : kept.processes) {
    while (from != dropped.processes.end() && from->key < process.key)
      ++from;
    if (from == dropped.processes.end() || from->key != process.key) continue;
    take_if_absent(process.swap_bytes, from->swap_bytes);
    take_if_absent(process.pss_bytes, from->pss_bytes);
    take_if_absent(process.pss_anon_bytes, from->pss_anon_bytes);
    take_if_absent(process.private_bytes, from->private_bytes);
    take_if_absent(process.page_table_bytes, from->page_table_bytes);
  }
}
void take_over(const ShmUse& /*kept*/, const ShmUse& /*dropped*/) {}
void take_over(const ShmLedger& /*kept*/, const ShmLedger& /*dropped*/) {}

// Keeps the heaviest record of each group (the latest among equals). Returns how many went.
template <class T>
uint64_t thin_series(std::vector<T>& records, BootNs now) {
  if (records.empty() || now - records.front().at <= kFullRateAge) return 0;
  struct Best {
    Group group;
    size_t index;
  };
  std::map<uint64_t, Best> open;  // by series
  std::vector<bool> keep(records.size(), false);
  for (size_t i = 0; i < records.size(); ++i) {
    const Group group = group_of(records[i].at, now);
    const auto [slot, is_new] = open.try_emplace(series_of(records[i]), Best{group, i});
    Best& best = slot->second;
    if (is_new) continue;
    const bool is_same = group.width > 0 && group == best.group;
    if (!is_same) {
      keep[best.index] = true;
      best = {group, i};
    } else if (shm_weight(records[i]) >= shm_weight(records[best.index])) {
      take_over(records[i], records[best.index]);
      best.index = i;
    } else {
      take_over(records[best.index], records[i]);
    }
  }
  for (const auto& [series, best] : open)
    keep[best.index] = true;
  return keep_only(records, keep);
}

// Drops every other record of the older half, so that a long run stays bounded and keeps its shape.
template <class T>
uint64_t halve_older(std::vector<T>& records, size_t most) {
  if (records.size() <= most) return 0;
  std::vector<bool> keep(records.size(), true);
  for (size_t i = 1; i < records.size() / 2; i += 2)
    keep[i] = false;
  return keep_only(records, keep);
}

template <class T, class Key>
const T* find_last(const std::vector<T>& records, const Key& key) {
  const auto found = std::find_if(records.rbegin(), records.rend(),
                                  [&](const T& record) { return record.key == key; });
  return found == records.rend() ? nullptr : &*found;
}

BootNs time_of(const Record& record) {
  return std::visit(
      [](const auto& value) -> BootNs {
        if constexpr (requires { value.at; }) {
          return value.at;
        } else {
          return 0;
        }
      },
      record);
}

// Records come in time order but for a few: a statvfs of the fast loop overtakes the sample that
// was begun before it, an exit is noticed late.
template <class T>
void insert_by_time(std::vector<T>& records, T record) {
  const auto place = std::upper_bound(records.begin(), records.end(), record.at,
                                      [](BootNs at, const T& other) { return at < other.at; });
  records.insert(place, std::move(record));
}

// What comes with deaths: few, unless a job starts processes without end. The first tell most.
template <class T>
void insert_bounded(std::vector<T>& records, T record) {
  if (records.size() < kMostOfDeaths) insert_by_time(records, std::move(record));
}

// What interpreters told. The first words tell most, and the newest how it is now: of those in
// between the older half goes.
void insert_told(std::vector<StartEvent>& events, StartEvent event) {
  insert_by_time(events, std::move(event));
  if (events.size() <= kMostOfDeaths) return;
  constexpr auto kFirst = static_cast<std::ptrdiff_t>(kMostOfDeaths / 2);
  events.erase(events.begin() + kFirst, events.begin() + kFirst + kFirst / 2);
}

// A look at which several processes moved positions is what the others are made for.
ptrdiff_t movers_in(const SharedFileLook& look) {
  return std::ranges::count_if(look.processes, [](const ProcessFiles& process) {
    return std::ranges::any_of(process.files,
                               [](const SharedFile& file) { return file.moves_alone > 0; });
  });
}

// Forgets the oldest half of the processes that had ended and were no part of the loader's own, so
// that a subject that starts a process a second can be watched for days.
uint64_t forget_ended(Run& run) {
  if (run.processes.size() <= kMostProcesses) return 0;
  std::set<ProcessKey> ended;
  for (const ProcessExit& exit : run.exits)
    ended.insert(exit.key);
  std::vector<BootNs> seen;
  const auto can_go = [&](const ProcessInfo& process) {
    return ended.contains(process.key) &&
           (process.role == Role::kOther || process.role == Role::kWorker);
  };
  for (const ProcessInfo& process : run.processes) {
    if (can_go(process)) seen.push_back(process.seen_at);
  }
  if (seen.empty()) return 0;
  const auto middle = seen.begin() + static_cast<std::ptrdiff_t>(seen.size() / 2);
  std::nth_element(seen.begin(), middle, seen.end());
  const BootNs until = *middle;
  return std::erase_if(run.processes, [&](const ProcessInfo& process) {
    return process.seen_at <= until && can_go(process);
  });
}

// Files one record into its run.
struct Filer {
  Run& run;
  bool is_new;  // false: the statvfs of a sample was filed by itself already

  void operator()(RunBegin&& begin) const { run.begin = std::move(begin); }
  void operator()(ProcessInfo&& info) const {
    const auto place = std::ranges::lower_bound(run.processes, info.key, {}, &ProcessInfo::key);
    if (place != run.processes.end() && place->key == info.key) {
      info.seen_at = place->seen_at;
      *place = std::move(info);
    } else {
      run.processes.insert(place, std::move(info));
    }
  }
  void operator()(ProcessExit&& exit) const { insert_by_time(run.exits, std::move(exit)); }
  // The look before the start and the watch itself both tell of a mount; the later word counts.
  void operator()(ShmMount&& mount) const {
    const auto known = std::ranges::find_if(run.mounts, [&](const ShmMount& other) {
      return other.device == mount.device && other.mount_namespace == mount.mount_namespace;
    });
    if (known == run.mounts.end()) {
      run.mounts.push_back(std::move(mount));
    } else {
      *known = std::move(mount);
    }
  }
  void operator()(Sample&& sample) const {
    for (const Observed<ShmUse>& use : sample.shm) {
      if (use && is_new) insert_by_time(run.shm_use, *use);
    }
    insert_by_time(run.samples, std::move(sample));
  }
  void operator()(ShmUse&& use) const { insert_by_time(run.shm_use, use); }
  void operator()(ShmLedger&& ledger) const { insert_by_time(run.ledgers, std::move(ledger)); }
  void operator()(LoaderHello&& hello) const { run.loader = std::move(hello); }
  void operator()(LoaderBatch&& batch) const { insert_by_time(run.batches, batch); }
  void operator()(LoaderDone&& done) const { run.done = done; }
  void operator()(Event&& event) const { insert_by_time(run.events, std::move(event)); }
  void operator()(Gap&& gap) const {
    if (run.gaps.size() < kMostGaps && std::ranges::find(run.gaps, gap) == run.gaps.end()) {
      run.gaps.push_back(std::move(gap));
    }
  }
  void operator()(SignalSent&& signal) const { insert_bounded(run.signals, std::move(signal)); }
  void operator()(KernelLogLine&& line) const { insert_bounded(run.kernel_log, std::move(line)); }
  void operator()(OomCounters&& counters) const {
    insert_bounded(run.oom_counters, std::move(counters));
  }
  void operator()(FdLook&& look) const { insert_by_time(run.fd_looks, std::move(look)); }
  void operator()(StartEvent&& event) const { insert_told(run.start_events, std::move(event)); }
  void operator()(TaskFacts&& facts) const { insert_bounded(run.task_facts, std::move(facts)); }
  void operator()(GateFacts&& gate) const { run.gate = std::move(gate); }
  void operator()(TuneRequest&& request) const { run.tune_request = std::move(request); }
  void operator()(SpeedMeasurement&& speed) const { run.speed = std::move(speed); }
  void operator()(RunEnd&& end) const { run.end = std::move(end); }
  void operator()(TreeSnapshot&& snapshot) const {
    insert_by_time(run.snapshots, std::move(snapshot));
    if (run.snapshots.size() <= kMostSnapshots) return;
    // The oldest of the newest becomes the newest of the old ones.
    const auto last = run.snapshots.end() - kMostSnapshots - 1;
    if (last != run.snapshots.begin() && last->at - (last - 1)->at < kBetweenOldSnapshots) {
      run.snapshots.erase(last);
    } else if (run.snapshots.size() > kMostSnapshots + kMostOldSnapshots) {
      run.snapshots.erase(run.snapshots.begin());
    }
  }
  void operator()(ContainerLook&& look) const { insert_by_time(run.grown, std::move(look)); }
  void operator()(SharedFileLook&& look) const {
    if (run.file_looks.size() == kMostSnapshots)
      run.file_looks.erase(std::ranges::min_element(run.file_looks, {}, movers_in));
    insert_by_time(run.file_looks, std::move(look));
  }
};

}  // namespace

const ProcessInfo* Run::find_process(const ProcessKey& key) const {
  const auto found = std::ranges::lower_bound(processes, key, {}, &ProcessInfo::key);
  return found != processes.end() && found->key == key ? &*found : nullptr;
}

const ProcessExit* Run::find_exit(const ProcessKey& key) const {
  return find_last(exits, key);
}

RecordingBuilder::RecordingBuilder(RecordingHeader header) {
  recording_.header = std::move(header);
}

Run* RecordingBuilder::run_of(const Record& record) {
  const auto* begin = std::get_if<RunBegin>(&record);
  if (begin != nullptr) is_attempt_ = begin->attempt.has_value();
  std::vector<Run>& runs = is_attempt_ ? recording_.attempts : recording_.runs;
  if (begin != nullptr) runs.emplace_back();
  // A record before the first RunBegin belongs nowhere.
  return runs.empty() ? nullptr : &runs.back();
}

void RecordingBuilder::add(Record record) {
  const BootNs now = time_of(record);
  const bool is_end = std::holds_alternative<RunEnd>(record);
  Run* run = run_of(record);
  if (run == nullptr) return;
  std::visit([&](auto&& value) { Filer{*run, true}(std::forward<decltype(value)>(value)); },
             std::move(record));
  if (is_end || now - recording_.thinned_at >= kThinEvery) {
    thin(*run, now);
    recording_.thinned_at = now;
  }
}

void RecordingBuilder::restore(Record record) {
  Run* run = run_of(record);
  if (run == nullptr) return;
  std::visit([&](auto&& value) { Filer{*run, false}(std::forward<decltype(value)>(value)); },
             std::move(record));
}

void RecordingBuilder::mark_thinned(uint64_t thinned_records, BootNs thinned_at) {
  recording_.thinned_records = thinned_records;
  recording_.thinned_at = thinned_at;
}

void RecordingBuilder::thin(Run& run, BootNs now) {
  recording_.thinned_records +=
      thin_series(run.samples, now) + thin_series(run.shm_use, now) + thin_series(run.ledgers, now);
  recording_.thinned_records +=
      halve_older(run.batches, kMostKeptBatches) + halve_older(run.events, kMostEvents) +
      halve_older(run.fd_looks, kMostFdLooks) + halve_older(run.grown, kMostContainerLooks) +
      forget_ended(run) + halve_older(run.exits, kMostExits);
}

}  // namespace dlprobe
