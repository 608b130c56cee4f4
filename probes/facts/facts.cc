#include "probes/facts/facts.h"

#include <algorithm>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

Evidence fact(std::string_view name, std::string_view unit, const Message& source,
              std::optional<BootNs> at) {
  Evidence evidence;
  evidence.name = name;
  evidence.unit = unit;
  evidence.source = source;
  evidence.at = at;
  return evidence;
}

const ProcessSample* find_in(const Sample& sample, const ProcessKey& key) {
  const auto found =
      std::ranges::find_if(sample.processes, [&](const auto& each) { return each.key == key; });
  return found == sample.processes.end() ? nullptr : &*found;
}

// Both ends of a counter over the run, where `read` gives it for at least two samples.
template <class Read>
std::optional<OomCount> count_over(const Run& run, OwnWords source, const Read& read) {
  OomCount result{.before = 0, .after = 0, .source = std::move(source)};
  int seen = 0;
  for (const Sample& sample : run.samples) {
    const std::optional<uint64_t> value = read(sample);
    if (!value) continue;
    if (seen == 0) result.before = *value;
    result.after = *value;
    ++seen;
  }
  if (seen < 2) return std::nullopt;
  return result;
}

}  // namespace

Evidence bytes_fact(NumberName name, uint64_t bytes, const Message& source,
                    std::optional<BootNs> at) {
  Evidence evidence = fact(name.text(), "bytes", source, at);
  evidence.value = static_cast<int64_t>(bytes);
  return evidence;
}

Evidence count_fact(NumberName name, uint64_t count, const Message& source,
                    std::optional<BootNs> at) {
  Evidence evidence = fact(name.text(), "1", source, at);
  evidence.value = static_cast<int64_t>(count);
  return evidence;
}

Evidence time_fact(NumberName name, BootNs duration, const Message& source) {
  Evidence evidence = fact(name.text(), "s", source, {});
  evidence.value = static_cast<double>(duration) / 1e9;
  return evidence;
}

Evidence number_fact(NumberName name, double value, std::string_view unit, const Message& source,
                     std::optional<BootNs> at) {
  Evidence evidence = fact(name.text(), unit, source, at);
  evidence.value = value;
  return evidence;
}

void add_source(Finding& finding, const std::string& file, int32_t line, Message what) {
  const bool is_known = std::ranges::any_of(finding.places, [&](const SourcePlace& place) {
    return place.file == file && place.line == line;
  });
  if (!file.empty() && !is_known)
    finding.places.push_back({.file = file, .line = line, .what = std::move(what)});
}

Evidence text_fact(std::string_view name, Message value, const Message& source,
                   std::optional<BootNs> at) {
  Evidence evidence = fact(name, "", source, at);
  evidence.value = std::move(value);
  return evidence;
}

Evidence held_against(Evidence fact, std::string_view threshold) {
  fact.threshold = std::string(threshold);
  return fact;
}

Finding new_finding(FindingCode code, Confidence confidence) {
  Finding finding;
  finding.code = code;
  finding.severity = info(code).severity;
  finding.confidence = confidence;
  return finding;
}

OwnWords describe(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  if (const JobRank* rank = process == nullptr ? nullptr : process->rank_of_several()) {
    const OwnWords name = "rank " + own(rank->rank);
    if (process->role == Role::kTrainer) return name + " (" + own(key.pid) + ")";
    const bool is_other = process->role == Role::kOther;
    return name + "'s " + (is_other ? "process" : own(to_string(process->role))) + " " +
           own(key.pid);
  }
  const bool has_role = process != nullptr && process->role != Role::kOther;
  return (has_role ? own(to_string(process->role)) : "process") + " " + own(key.pid);
}

OwnWords describe_some(const Run& run, const std::vector<ProcessKey>& keys) {
  OwnWords names = describe(run, keys[0]);
  if (keys.size() > 1) names += " and " + describe(run, keys[1]);
  if (keys.size() > 2) names += " and " + own(keys.size() - 2) + " more";
  return names;
}

bool is_known_dead(const Run& run, const ProcessKey& key, BootNs at) {
  if (const ProcessExit* exit = run.find_exit(key)) return exit->at <= at;
  const auto after = std::ranges::upper_bound(run.samples, at, {}, &Sample::at);
  if (after == run.samples.begin()) return false;
  if (const ProcessSample* process = find_in(*std::prev(after), key)) {
    // One whose main thread alone has ended runs.
    return (process->state == 'Z' || process->state == 'X') && process->threads <= 1;
  }
  return std::any_of(run.samples.begin(), after,
                     [&](const Sample& sample) { return find_in(sample, key) != nullptr; });
}

bool is_hang(const Finding& finding) {
  return finding.code == FindingCode::kBatchLostInWorker ||
         info(finding.code).code.starts_with("DLP03");
}

bool has_subject_ended(const Run& run) {
  return run.end && run.end->reason == RunEndReason::kSubjectEnded;
}

BootNs birth_of(const HostFacts& host, const ProcessKey& key) {
  const uint64_t rate = std::max<uint64_t>(host.ticks_per_second, 1);
  return static_cast<BootNs>(static_cast<double>(key.start_ticks) / static_cast<double>(rate) *
                             kSecond);
}

BootNs watched_for(const Run& run) {
  return run.samples.empty() ? 0 : run.samples.back().at - run.samples.front().at;
}

const ProcessInfo* creator_of(const Run& run, const ShmSegment& segment) {
  if (!segment.creator_pid) return nullptr;
  for (const ProcessInfo& process : run.processes) {
    // The name holds the pid of the creator's own namespace, the innermost.
    const int32_t own_pid =
        process.namespace_pids.empty() ? process.key.pid : process.namespace_pids.back();
    if (own_pid == *segment.creator_pid) return &process;
  }
  return nullptr;
}

uint64_t most_living_workers(const Run& run) {
  std::vector<std::pair<BootNs, int>> changes;
  for (const ProcessInfo& process : run.processes) {
    if (process.role != Role::kWorker) continue;
    changes.emplace_back(process.seen_at, 1);
    // Some live for less than the time between two samples.
    if (const ProcessExit* exit = run.find_exit(process.key))
      changes.emplace_back(std::max(exit->at, process.seen_at + 1), -1);
  }
  std::ranges::sort(changes);  // of one moment, ends first
  int alive = 0;
  int most = 0;
  for (const auto& [at, change] : changes) {
    alive += change;
    most = std::max(most, alive);
  }
  return static_cast<uint64_t>(most);
}

void add_smaller_loader(Remedy& remedy, const Run& run, std::optional<int> prefetch_factor) {
  const uint64_t workers = most_living_workers(run);
  const OwnWords prefetch = prefetch_factor ? ", prefetch_factor=" + own(*prefetch_factor) : "";
  if (workers == 0) {
    remedy.commands.emplace_back("DataLoader(..., num_workers=<half>" + prefetch + ")");
    return;
  }
  const OwnWords half = own(std::max<uint64_t>(workers / 2, prefetch_factor ? 1 : 0));
  remedy.commands.emplace_back("DataLoader(..., num_workers=" + half + prefetch + ")");
  if (prefetch_factor) {
    remedy.settings.push_back({SettingKind::kPrefetchFactor, "", own(*prefetch_factor)});
  }
  remedy.settings.push_back({SettingKind::kNumWorkers, "", half});
}

const ProcessInfo* first_of_role(const Run& run, Role role) {
  const auto found = std::ranges::find(run.processes, role, &ProcessInfo::role);
  return found == run.processes.end() ? nullptr : &*found;
}

std::optional<OomCount> oom_count(const Run& run) {
  auto of_cgroup = count_over(run, "oom_kill of the cgroup's memory controller",
                              [](const Sample& sample) -> std::optional<uint64_t> {
                                if (!sample.cgroup || !*sample.cgroup) return std::nullopt;
                                return (*sample.cgroup)->oom_kills;
                              });
  if (of_cgroup && of_cgroup->after != of_cgroup->before) return of_cgroup;
  const auto of_host = count_over(run, "oom_kill of /proc/vmstat",
                                  [](const Sample& sample) -> std::optional<uint64_t> {
                                    if (!sample.host || !*sample.host) return std::nullopt;
                                    return (*sample.host)->oom_kills;
                                  });
  return of_host ? of_host : of_cgroup;
}

bool was_ended_by_dlprobe(const Run& run) {
  return run.end && run.end->reason == RunEndReason::kSubjectEnded && !run.end->text.empty();
}

std::optional<BootNs> when_dlprobe_ended_it(const Run& run) {
  const auto began = std::ranges::find(run.events, kEndingBegan, &Event::kind);
  if (began != run.events.end()) return began->at;
  // A recording of before that event.
  if (!was_ended_by_dlprobe(run)) return std::nullopt;
  std::optional<BootNs> first;
  for (const SignalSent& sent : run.signals)
    if (sent.by_dlprobe) first = std::min(first.value_or(sent.at), sent.at);
  if (!first && !run.snapshots.empty()) first = run.snapshots.back().at;
  return first;
}

std::optional<Gap> gap_of_failed_loader(const Run& run) {
  const bool is_interrupted = run.end && run.end->reason == RunEndReason::kInterrupted;
  if (run.begin.subject == SubjectKind::kCommand && is_interrupted) {
    return Gap{.what = "the rest of the command",
               .why = "it was interrupted",
               .effect = "dlprobe did not see how it would have ended",
               .remedy = ""};
  }
  const bool was_started = run.end && run.end->reason != RunEndReason::kNotStarted;
  if (run.begin.subject != SubjectKind::kReferenceLoader || !was_started || run.done) {
    return std::nullopt;
  }
  Message why = "it ended without saying why";
  if (is_interrupted) why = "it was interrupted";
  if (was_ended_by_dlprobe(run)) why = run.end->text;
  if (run.end->reason == RunEndReason::kTimeUp) {
    return Gap{.what = "the run of the reference loader",
               .why = "its time ran out",
               .effect = "it did not finish, so dlprobe does not know what a whole run needs",
               .remedy = "give it more time, or a smaller batch"};
  }
  for (const Event& event : run.events) {
    if (event.kind == kLoaderError) why = event.text;
  }
  return Gap{.what = "the run of the reference loader",
             .why = why,
             .effect = "it did not finish, so dlprobe does not know what a whole run needs",
             .remedy = "run it again with -v and read its output"};
}

bool has_error(std::span<const Finding> findings) {
  return std::ranges::count(findings, Severity::kError, &Finding::severity) > 0;
}

void add(std::vector<Finding>& findings, std::optional<Finding> finding) {
  if (finding) findings.push_back(std::move(*finding));
}

void merge_finding(std::vector<Finding>& all, Finding finding) {
  const auto same = std::ranges::find_if(all, [&](const Finding& each) {
    return each.code == finding.code && each.discriminator == finding.discriminator;
  });
  if (same == all.end()) {
    all.push_back(std::move(finding));
    return;
  }
  std::vector<int> runs = same->runs;
  runs.insert(runs.end(), finding.runs.begin(), finding.runs.end());
  const bool stronger =
      std::pair(finding.severity, finding.confidence) > std::pair(same->severity, same->confidence);
  if (stronger) *same = std::move(finding);
  same->runs = std::move(runs);
}

}  // namespace dlprobe
