#include "probes/memory/facts.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/oom.h"

namespace dlprobe::probes::memory {
namespace {

// Less is not worth a look: a shell, Python's resource tracker.
constexpr double kOwnMemory = 4.0 * (1 << 20);

void take(Series& memory, const ProcessSample& sample, BootNs at, double page) {
  if (!sample.rss_bytes || !sample.rss_shared_bytes || *sample.rss_bytes == 0) return;
  if (sample.swap_bytes && *sample.swap_bytes) memory.swap_bytes = **sample.swap_bytes;
  const uint64_t anon = *sample.rss_bytes - std::min(*sample.rss_bytes, *sample.rss_shared_bytes);
  const double faults = static_cast<double>(sample.minor_faults) * page;
  memory.anon.push_back({.at = at, .value = static_cast<double>(anon + memory.swap_bytes)});
  memory.shared.push_back({.at = at, .value = static_cast<double>(*sample.rss_shared_bytes)});
  memory.faults.push_back({.at = at, .value = faults});
  if (sample.pss_anon_bytes) {
    memory.looks.push_back({.at = at,
                            .anon = static_cast<double>(anon),
                            .pss_anon = static_cast<double>(*sample.pss_anon_bytes),
                            .private_anon = static_cast<double>(private_anonymous_bytes(sample)),
                            .fault_bytes = faults});
  }
  memory.major_faults = sample.major_faults;
}

bool is_young(const HostFacts& host, const ProcessKey& key, BootNs at) {
  constexpr double kYoung = 1.5;
  const double age = static_cast<double>(at - birth_of(host, key)) / kSecond;
  return age >= -0.1 && age <= kYoung;
}

std::vector<Series> memory_of_processes(const Run& run, const HostFacts& host) {
  const auto page = static_cast<double>(host.page_size);
  std::map<ProcessKey, Series> all;
  std::map<ProcessKey, uint64_t> first_major_faults;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& each : sample.processes) {
      first_major_faults.try_emplace(each.key, each.major_faults);
      take(all[each.key], each, sample.at, page);
    }
  }
  std::vector<Series> result;
  for (auto& [key, memory] : all) {
    memory.info = run.find_process(key);
    memory.major_faults -= std::min(memory.major_faults, first_major_faults[key]);
    const auto most = std::ranges::max_element(memory.anon, {}, &SeriesPoint::value);
    if (memory.info == nullptr || most == memory.anon.end() || most->value < kOwnMemory) continue;
    memory.first_at = memory.anon.front().at;
    memory.last_at = memory.anon.back().at;
    memory.seen_from_birth = is_young(host, key, memory.first_at);
    result.push_back(std::move(memory));
  }
  return result;
}

// An interpreter that ends touches every object that it frees, and so copies what it shared.
constexpr BootNs kOfAnEnd = kSecond / 2;

// A stretch in which nobody with memory of their own came or went: who shares a page with whom
// stays the same but for copying.
struct Stretch {
  BootNs from = 0;
  BootNs to = 0;
  std::vector<const Series*> alive;
};

std::vector<Stretch> steady_stretches(const Facts& facts) {
  constexpr BootNs kShortest = kSecond;
  std::vector<BootNs> seams;
  for (const Series& each : facts.processes) {
    seams.push_back(each.first_at);
    seams.push_back(each.last_at);
  }
  std::ranges::sort(seams);
  std::vector<Stretch> stretches;
  for (size_t i = 1; i < seams.size(); ++i) {
    Stretch stretch = {.from = seams[i - 1], .to = seams[i]};
    bool somebody_ends = false;
    for (const Series& each : facts.processes) {
      somebody_ends = somebody_ends || each.last_at == stretch.to;
      if (each.first_at <= stretch.from && each.last_at >= stretch.to)
        stretch.alive.push_back(&each);
    }
    if (somebody_ends && stretch.to != seams.back()) stretch.to -= kOfAnEnd;
    if (stretch.to - stretch.from < kShortest) continue;
    if (stretch.alive.size() >= 2) stretches.push_back(std::move(stretch));
  }
  return stretches;
}

std::optional<CopyOnWriteGrowth> growth_by_pss(const Stretch& stretch) {
  CopyOnWriteGrowth growth = {.from = stretch.to,
                              .to = stretch.from,
                              .source = "Pss_Anon of /proc/PID/smaps_rollup, /proc/PID/statm"};
  double pss_growth = 0;
  for (const Series* each : stretch.alive) {
    const auto first = std::ranges::lower_bound(each->looks, stretch.from, {}, &RollupLook::at);
    const auto after = std::ranges::upper_bound(each->looks, stretch.to, {}, &RollupLook::at);
    if (after - first < 2) continue;
    const RollupLook& last = *std::prev(after);
    growth.from = std::min(growth.from, first->at);
    growth.to = std::max(growth.to, last.at);
    pss_growth += last.pss_anon - first->pss_anon;
    growth.anon_growth += last.anon - first->anon;
    growth.fault_bytes += last.fault_bytes - first->fault_bytes;
    growth.more_bytes += last.anon - last.pss_anon;
    growth.processes.push_back(each->info->key);
  }
  if (growth.processes.size() < 2) return std::nullopt;
  growth.bytes = pss_growth - std::max(growth.anon_growth, 0.0);
  growth.copies = growth.processes.size() - 1;
  return growth;
}

// What a worker copied since it was forked: at its birth no page was its own. Pages that became its
// own because others let go of them cost it no fault, and let the trainer's memory fall.
std::optional<double> copied_since_birth(const Facts& facts, const Series& worker,
                                         const RollupLook& look) {
  const double made = std::max(look.anon - worker.anon.front().value, 0.0);
  const double copied = std::min(look.private_anon - made, look.fault_bytes - made);
  for (const Series& other : facts.processes) {
    if (other.info != facts.trainer) continue;
    const double fell = value_at(other.anon, worker.first_at) - value_at(other.anon, look.at);
    if (fell > copied / 2) return std::nullopt;
  }
  return std::max(copied, 0.0);
}

// The last look at a worker that was seen from its birth, before its end; null: there is none. What
// is not a fork of the trainer has its imports to itself.
const RollupLook* last_look_at_work(const Facts& facts, const Series& worker) {
  const bool is_forked = worker.info->start_method == StartMethod::kFork;
  if (!is_forked || !worker.seen_from_birth || worker.looks.empty()) return nullptr;
  if (facts.run->find_exit(worker.info->key) == nullptr) return &worker.looks.back();
  const auto after =
      std::ranges::upper_bound(worker.looks, worker.last_at - kOfAnEnd, {}, &RollupLook::at);
  return after == worker.looks.begin() ? nullptr : &*std::prev(after);
}

void add_worker(CopyOnWriteGrowth& growth, const Series& worker, const RollupLook& look,
                double copied) {
  growth.from = growth.processes.empty() ? worker.first_at : std::min(growth.from, worker.first_at);
  growth.to = std::max(growth.to, look.at);
  growth.bytes += copied;
  growth.fault_bytes += look.fault_bytes;
  growth.anon_growth += std::max(look.anon - worker.anon.front().value, 0.0);
  growth.more_bytes += std::max(look.anon - look.private_anon, 0.0);
  growth.processes.push_back(worker.info->key);
  growth.copies = growth.processes.size();
}

// The workers that were started together and copied the most.
std::optional<CopyOnWriteGrowth> growth_since_birth(const Facts& facts) {
  constexpr BootNs kTogether = 2 * kSecond;
  std::vector<const Series*> workers;
  for (const Series& each : facts.processes) {
    if (each.info->role == Role::kWorker) workers.push_back(&each);
  }
  std::ranges::sort(workers, {}, &Series::first_at);
  std::vector<CopyOnWriteGrowth> generations;
  BootNs last_birth = 0;
  for (const Series* worker : workers) {
    const RollupLook* look = last_look_at_work(facts, *worker);
    const auto copied = look == nullptr ? std::nullopt : copied_since_birth(facts, *worker, *look);
    if (!copied) continue;
    if (generations.empty() || worker->first_at - last_birth > kTogether)
      generations.push_back({.source = "Private of /proc/PID/smaps_rollup, /proc/PID/statm"});
    last_birth = worker->first_at;
    add_worker(generations.back(), *worker, *look, *copied);
  }
  const auto most = std::ranges::max_element(generations, {}, &CopyOnWriteGrowth::bytes);
  return most == generations.end() ? std::nullopt : std::optional(*most);
}

// Of a group that holds nothing but the subject: its anonymous memory lies between that of the
// largest process and the sum of all.
std::optional<CopyOnWriteGrowth> growth_by_cgroup(const Facts& facts, const Stretch& stretch) {
  constexpr double kTolerance = 1.05;
  const LookAt<CgroupMemory>* first = nullptr;
  const LookAt<CgroupMemory>* last = nullptr;
  for (const auto& look : facts.cgroup_looks) {
    const bool is_in = look.at >= stretch.from && look.at <= stretch.to;
    if (!is_in || !look.memory->anon_bytes || is_of_whole_machine(*look.memory)) continue;
    if (first == nullptr) first = &look;
    last = &look;
  }
  if (first == last) return std::nullopt;
  const auto before = static_cast<double>(first->memory->anon_bytes.value_or(0));
  const auto after = static_cast<double>(last->memory->anon_bytes.value_or(0));
  CopyOnWriteGrowth growth = {
      .from = first->at,
      .to = last->at,
      .source = "anonymous memory of cgroup " + as_path(last->memory->path) + ", /proc/PID/statm",
      .by_cgroup = true};
  double anon = 0;
  double largest = 0;
  for (const Series* each : stretch.alive) {
    const double at_end = value_at(each->anon, growth.to);
    anon += at_end;
    largest = std::max(largest, at_end);
    growth.anon_growth += at_end - value_at(each->anon, growth.from);
    growth.fault_bytes += value_at(each->faults, growth.to) - value_at(each->faults, growth.from);
    growth.processes.push_back(each->info->key);
  }
  if (after > kTolerance * anon || before * kTolerance < largest) return std::nullopt;
  growth.bytes = after - before - std::max(growth.anon_growth, 0.0);
  growth.more_bytes = std::max(anon - after, 0.0);
  growth.copies = growth.processes.size() - 1;
  return growth;
}

// By the conservation of pages: what is shared less weighs more, and nothing new was made.
bool is_copying(const CopyOnWriteGrowth& growth) {
  constexpr double kLeast = 64.0 * (1 << 20);
  constexpr double kLeastOfEach = 16.0 * (1 << 20);
  constexpr double kExplainedByFaults = 0.7;
  const auto copies = static_cast<double>(growth.copies);
  return growth.bytes >= std::max(kLeast, kLeastOfEach * copies) &&
         growth.bytes >= 2 * growth.anon_growth &&
         growth.fault_bytes >= kExplainedByFaults * growth.bytes &&
         growth.to - growth.from >= kSecond / 2;
}

bool is_killed_for_memory(const Facts& facts) {
  const ExitFacts ends = exit_facts(*facts.header, *facts.run);
  return std::ranges::any_of(
      ends.deaths, [&](const Death& death) { return oom_proof(ends, death).has_value(); });
}

}  // namespace

Facts facts_of(const RecordingHeader& header, const Run& run) {
  Facts facts;
  facts.header = &header;
  facts.run = &run;
  facts.trainer = first_of_role(run, Role::kTrainer);
  facts.processes = memory_of_processes(run, header.host);
  for (const Sample& sample : run.samples) {
    if (const auto& group = sample.cgroup; group && *group)
      facts.cgroup_looks.push_back({.at = sample.at, .memory = &**group});
    if (const auto& host = sample.host; host && *host)
      facts.host_looks.push_back({.at = sample.at, .memory = &**host});
  }
  return facts;
}

std::optional<CopyOnWriteGrowth> find_copy_on_write(const Facts& facts) {
  std::optional<CopyOnWriteGrowth> most = growth_since_birth(facts);
  if (most && !is_copying(*most)) most.reset();
  for (const Stretch& stretch : steady_stretches(facts)) {
    auto growth = growth_by_pss(stretch);
    // What each process says of itself counts; the group may hold others, hidden by what is shared.
    const bool all_looked_at = growth && growth->processes.size() == stretch.alive.size();
    if (!all_looked_at && !(growth && is_copying(*growth)))
      growth = growth_by_cgroup(facts, stretch);
    if (!growth || !is_copying(*growth)) continue;
    if (!most || growth->bytes > most->bytes) most = std::move(growth);
  }
  return most;
}

double value_at(const std::vector<SeriesPoint>& series, BootNs at) {
  const auto after = std::ranges::upper_bound(series, at, {}, &SeriesPoint::at);
  return after == series.begin() ? series.front().value : std::prev(after)->value;
}

Outlook outlook_of(const Facts& facts, const std::vector<ProcessKey>& growing) {
  if (is_killed_for_memory(facts)) return Outlook::kReached;
  const bool have_ended = std::ranges::all_of(
      growing, [&](const ProcessKey& key) { return facts.run->find_exit(key) != nullptr; });
  return have_ended ? Outlook::kEnded : Outlook::kAhead;
}

Message say_when(const MemoryLimit& limit, std::optional<double> seconds, Outlook outlook) {
  constexpr double kFar = 30.0 * 24 * 3600;
  const Message name = limit.name + " (" + format_bytes(limit.bytes) + ")";
  const bool is_host = limit.kind == MemoryLimit::Kind::kHost;
  const bool has_ended = outlook == Outlook::kEnded;
  if (outlook == Outlook::kReached) return name + (is_host ? " was used up" : " was reached");
  if (!seconds || *seconds > kFar) return name + (has_ended ? " was" : " is") + " far away";
  const OwnWords left =
      format_duration(std::chrono::nanoseconds(static_cast<int64_t>(*seconds * kSecond)));
  return "at this rate " + name + (has_ended ? " would have been " : " is ") +
         (is_host ? "full" : "reached") + " in " + left;
}

}  // namespace dlprobe::probes::memory
