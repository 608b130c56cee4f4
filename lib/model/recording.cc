#include "lib/model/recording.h"

#include <algorithm>
#include <map>
#include <utility>

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<SubjectKind, 3> kSubjectKinds = {{
    {SubjectKind::kReferenceLoader, "reference-loader"},
    {SubjectKind::kPid, "pid"},
    {SubjectKind::kCommand, "command"},
}};

constexpr NameTable<RunEndReason, 4> kRunEndReasons = {{
    {RunEndReason::kSubjectEnded, "subject-ended"},
    {RunEndReason::kTimeUp, "time-up"},
    {RunEndReason::kInterrupted, "interrupted"},
    {RunEndReason::kNotStarted, "not-started"},
}};

constexpr BootNs kSecond = 1'000'000'000;
constexpr BootNs kFullRateAge = 120 * kSecond;
constexpr BootNs kPerSecondAge = 3600 * kSecond;
constexpr BootNs kThinEvery = 10 * kSecond;
constexpr size_t kMostBatches = 20'000;
constexpr size_t kMostEvents = 5'000;
constexpr size_t kMostExits = 20'000;

uint64_t shm_weight(const Sample& sample) {
  uint64_t used = 0;
  for (const Observed<ShmUse>& use : sample.shm) used += use ? use->used_bytes : 0;
  return used;
}
uint64_t shm_weight(const ShmUse& use) { return use.used_bytes; }
uint64_t shm_weight(const ShmLedger& ledger) { return ledger.used_bytes; }

uint64_t series_of(const Sample& /*sample*/) { return 0; }
uint64_t series_of(const ShmUse& use) { return use.device; }
uint64_t series_of(const ShmLedger& ledger) { return ledger.device; }

// The group of a record of that age: a negative width is "stays by itself".
std::pair<BootNs, BootNs> bucket_of(BootNs at, BootNs now) {
  if (now - at <= kFullRateAge) return {0, at};
  const BootNs width = now - at <= kPerSecondAge ? kSecond : 10 * kSecond;
  return {width, at / width};
}

// Keeps the heaviest record of each group (the latest among equals). Returns how many went.
template <class T>
uint64_t thin_series(std::vector<T>& records, BootNs now) {
  if (records.empty() || now - records.front().at <= kFullRateAge) return 0;
  using Bucket = std::pair<uint64_t, std::pair<BootNs, BootNs>>;
  std::map<Bucket, size_t> best;
  std::vector<bool> keep(records.size(), false);
  for (size_t i = 0; i < records.size(); ++i) {
    const auto bucket = bucket_of(records[i].at, now);
    if (bucket.first == 0) {
      keep[i] = true;
      continue;
    }
    const auto [slot, is_new] = best.try_emplace({series_of(records[i]), bucket}, i);
    if (is_new || shm_weight(records[i]) >= shm_weight(records[slot->second])) slot->second = i;
  }
  for (const auto& [bucket, index] : best) keep[index] = true;
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

// Drops every other record of the older half, so that a long run stays bounded and keeps its shape.
template <class T>
uint64_t halve_older(std::vector<T>& records, size_t most) {
  if (records.size() <= most) return 0;
  size_t kept = 0;
  const size_t half = records.size() / 2;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i < half && i % 2 == 1) continue;
    if (kept != i) records[kept] = std::move(records[i]);
    ++kept;
  }
  const uint64_t dropped = records.size() - kept;
  records.resize(kept);
  return dropped;
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

// Files one record into its run.
struct Filer {
  Run& run;

  void operator()(RunBegin&& begin) const { run.begin = std::move(begin); }
  void operator()(ProcessInfo&& info) const {
    const auto place = std::lower_bound(
        run.processes.begin(), run.processes.end(), info,
        [](const ProcessInfo& a, const ProcessInfo& b) { return a.key < b.key; });
    if (place != run.processes.end() && place->key == info.key) {
      info.seen_at = place->seen_at;
      *place = std::move(info);
    } else {
      run.processes.insert(place, std::move(info));
    }
  }
  void operator()(ProcessExit&& exit) const { run.exits.push_back(std::move(exit)); }
  void operator()(ShmMount&& mount) const { run.mounts.push_back(std::move(mount)); }
  void operator()(Sample&& sample) const {
    for (const Observed<ShmUse>& use : sample.shm) {
      if (use) run.shm_use.push_back(*use);
    }
    run.samples.push_back(std::move(sample));
  }
  void operator()(ShmUse&& use) const { run.shm_use.push_back(use); }
  void operator()(ShmLedger&& ledger) const { run.ledgers.push_back(std::move(ledger)); }
  void operator()(LoaderHello&& hello) const { run.loader = std::move(hello); }
  void operator()(LoaderBatch&& batch) const { run.batches.push_back(batch); }
  void operator()(LoaderDone&& done) const { run.done = done; }
  void operator()(Event&& event) const { run.events.push_back(std::move(event)); }
  void operator()(Gap&& gap) const {
    if (std::find(run.gaps.begin(), run.gaps.end(), gap) == run.gaps.end()) {
      run.gaps.push_back(std::move(gap));
    }
  }
  void operator()(RunEnd&& end) const { run.end = std::move(end); }
};

}  // namespace

std::string_view to_string(SubjectKind kind) { return name_of(kSubjectKinds, kind); }
SubjectKind subject_kind_from_string(std::string_view name) {
  return value_of(kSubjectKinds, name).value_or(SubjectKind::kCommand);
}

std::string_view to_string(RunEndReason reason) { return name_of(kRunEndReasons, reason); }
RunEndReason run_end_reason_from_string(std::string_view name) {
  return value_of(kRunEndReasons, name).value_or(RunEndReason::kSubjectEnded);
}

const ProcessInfo* Run::find_process(const ProcessKey& key) const {
  return find_last(processes, key);
}

const ProcessExit* Run::find_exit(const ProcessKey& key) const { return find_last(exits, key); }

RecordingBuilder::RecordingBuilder(RecordingHeader header) { recording_.header = std::move(header); }

void RecordingBuilder::add(Record record) {
  const BootNs now = time_of(record);
  if (std::holds_alternative<RunBegin>(record)) recording_.runs.emplace_back();
  if (recording_.runs.empty()) return;  // a record before the first RunBegin belongs nowhere
  Run& run = recording_.runs.back();
  std::visit(
      [&](auto&& value) { Filer{run}(std::forward<decltype(value)>(value)); }, std::move(record));
  if (now - thinned_at_ >= kThinEvery) {
    thin(run, now);
    thinned_at_ = now;
  }
}

void RecordingBuilder::thin(Run& run, BootNs now) {
  recording_.thinned_records += thin_series(run.samples, now) + thin_series(run.shm_use, now) +
                                thin_series(run.ledgers, now);
  recording_.thinned_records += halve_older(run.batches, kMostBatches) +
                                halve_older(run.events, kMostEvents) +
                                halve_older(run.exits, kMostExits);
}

}  // namespace dlprobe
