// DLP0504 copy-on-write-growth, DLP0505 worker-memory-leak, and what could not be seen.

#include "probes/memory/rules.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "lib/base/units.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/facts/grown_containers.h"
#include "probes/facts/starts.h"
#include "probes/facts/waits.h"
#include "probes/memory/remedies.h"

namespace dlprobe::probes::memory {
namespace {

constexpr const char* kAnonSource = "/proc/PID/statm: resident less shared";

uint64_t whole(double bytes) {
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

Evidence rate_fact(NumberName name, double bytes_per_second, const Message& source) {
  Evidence fact = bytes_fact(name, whole(bytes_per_second), source);
  fact.unit = "bytes/s";
  return fact;
}

// Never 0: no measurement excludes chance entirely.
Evidence chance_fact(NumberName name, double chance, const Message& source) {
  constexpr double kPrecision = 1e-6;
  const double rounded = std::round(chance / kPrecision) * kPrecision;
  return number_fact(name, std::max(rounded, kPrecision), "1", source);
}

void add_limit(Finding& finding, const MemoryLimit& limit) {
  finding.prove(bytes_fact("memory_limit", limit.bytes, limit.source, limit.at));
  finding.prove(bytes_fact("memory_left", limit.left_bytes, limit.source, limit.at));
}

// A process that grows.
struct Grower {
  const Series* memory = nullptr;
  Growth growth;
  bool waits_to_send = false;  // to somebody who does not take it as fast
};

bool has_thread_in_write(const std::vector<ThreadWait>& waits, std::string_view machine) {
  return std::ranges::any_of(
      waits, [&](const ThreadWait& wait) { return kind_of(wait, machine) == WaitKind::kWrite; });
}

// What is made faster than it is taken piles up where a send thread waits for a full pipe. Of
// several that write to one pipe, one is in write, and the others wait for it.
struct SendLooks {
  size_t looks = 0;
  size_t any_in_write = 0;
  std::map<ProcessKey, size_t> in_write;  // of each
};

// What the threads of a process waited for then, where that was looked at.
const std::vector<ThreadWait>* waits_of(const Sample& sample, const ProcessKey& key) {
  const auto process = std::ranges::find(sample.processes, key, &ProcessSample::key);
  if (process == sample.processes.end()) return nullptr;
  const auto& waits = process->waits;
  return waits && *waits ? &**waits : nullptr;
}

SendLooks look_at_senders(const Facts& facts, const std::vector<Grower>& growers) {
  SendLooks result;
  const std::string& machine = facts.header->host.machine;
  for (const Sample& sample : facts.run->samples) {
    size_t looked_at = 0;
    size_t in_write = 0;
    for (const Grower& grower : growers) {
      if (sample.at < grower.growth.from || sample.at > grower.growth.to) continue;
      const ProcessKey& key = grower.memory->info->key;
      const std::vector<ThreadWait>* waits = waits_of(sample, key);
      if (waits == nullptr) continue;
      ++looked_at;
      if (!has_thread_in_write(*waits, machine)) continue;
      ++in_write;
      ++result.in_write[key];
    }
    if (looked_at > 0) ++result.looks;
    if (in_write > 0) ++result.any_in_write;
  }
  return result;
}

void mark_senders(const Facts& facts, std::vector<Grower>& growers) {
  constexpr size_t kLeastLooks = 5;
  const SendLooks seen = look_at_senders(facts, growers);
  if (seen.looks < kLeastLooks || seen.any_in_write * 10 < seen.looks * 7) return;
  for (Grower& grower : growers) {
    const auto own = seen.in_write.find(grower.memory->info->key);
    // A fair part of the time of all.
    grower.waits_to_send =
        own != seen.in_write.end() && own->second * growers.size() * 4 >= seen.looks;
  }
}

bool has_ended_well(const Facts& facts) {
  const auto& end = facts.run->end;
  return has_subject_ended(*facts.run) && end && end->wait_status.value_or(1) == 0;
}

// What is collected for a result is joined at the end, into as much memory again.
bool was_joined_at_the_end(const Series& memory, const Growth& growth) {
  constexpr double kJoined = 0.3;
  const double grown = growth.per_second * static_cast<double>(growth.to - growth.from) / kSecond;
  return std::ranges::any_of(memory.anon, [&](const SeriesPoint& point) {
    const double since = static_cast<double>(point.at - growth.to) / kSecond;
    return since > 0 &&
           point.value > growth.value + growth.per_second * (since + 1) + kJoined * grown;
  });
}

// What came to its end in good order may have had its memory for a purpose, and little of it is
// not worth a word. A worker has none.
bool is_to_be_expected(const Facts& facts, const Series& memory, const Growth& growth) {
  if (!growth.is_brief || !has_ended_well(facts)) return false;
  const Role role = memory.info->role;
  constexpr double kMuch = 100.0 * (1 << 20);
  const double grown = growth.per_second * static_cast<double>(growth.to - growth.from) / kSecond;
  const bool is_little = grown < kMuch;
  return role == Role::kOther ||
         (role == Role::kTrainer && (is_little || was_joined_at_the_end(memory, growth)));
}

std::vector<Grower> growers(const Facts& facts) {
  std::vector<Grower> all;
  for (const Series& memory : facts.processes) {
    const auto growth = find_growth_of_process(facts, memory, memory.anon);
    if (!growth) continue;
    all.push_back({.memory = &memory, .growth = *growth});
  }
  mark_senders(facts, all);
  return all;
}

// All of them together, as one that grows: the limit is for their sum.
Growth sum_of(const std::vector<Grower>& all) {
  Growth sum = all.front().growth;
  sum.per_second = 0;
  sum.least_per_second = 0;
  for (const Grower& each : all) {
    sum.from = std::max(sum.from, each.growth.from);
    sum.to = std::max(sum.to, each.growth.to);
    sum.per_second += each.growth.per_second;
    sum.least_per_second += each.growth.least_per_second;
    sum.is_long_watched = sum.is_long_watched && each.growth.is_long_watched;
    sum.is_brief = sum.is_brief || each.growth.is_brief;
  }
  return sum;
}

size_t alive_of_role(const Facts& facts, Role role, BootNs at) {
  constexpr BootNs kJustEnded = 2 * kSecond;
  return static_cast<size_t>(std::ranges::count_if(facts.processes, [&](const auto& memory) {
    return memory.info->role == role && memory.first_at <= at && memory.last_at + kJustEnded >= at;
  }));
}

// With "leak": "worker 42 leaks", "both workers leak", "2 of 8 workers leak", "trainer 17 leaks".
OwnWords who_does(const Facts& facts, const std::vector<Grower>& some, Role role,
                  const OwnWords& verb) {
  const Grower& first = some.front();
  if (role == Role::kTrainer)
    return "trainer " + own(first.memory->info->key.pid) + " " + verb + "s";
  const size_t all = alive_of_role(facts, role, first.growth.to);
  const std::string noun = role == Role::kWorker ? "worker" : "process";
  if (some.size() == 1) {
    const bool is_one_of_many = role == Role::kWorker && all >= 2;
    return describe(*facts.run, first.memory->info->key) +
           (is_one_of_many ? " (the only one of " + counted(all, noun) + ") " : " ") + verb + "s";
  }
  if (some.size() >= all) return all_of(some.size(), noun) + " " + verb;
  return own(some.size()) + " of " + counted(all, noun) + " " + verb;
}

// As it was when they had the most: at their end they give it back.
std::optional<MemoryLimit> limit_of_growers(const Facts& facts, const std::vector<Grower>& all) {
  std::optional<MemoryLimit> nearest;
  for (const Grower& each : all) {
    const auto most = std::ranges::max_element(each.memory->anon, {}, &SeriesPoint::value);
    auto limit = nearest_memory_limit(*facts.run, most->at);
    if (limit && (!nearest || limit->left_bytes < nearest->left_bytes)) nearest = std::move(limit);
  }
  return nearest;
}

void set_growth_of(Finding& finding, const Facts& facts, const std::vector<Grower>& some,
                   const std::vector<Grower>& every) {
  const Growth of_some = sum_of(some);
  const Growth all = sum_of(every);
  set_growth(finding, of_some, kAnonSource);
  if (every.size() > some.size()) {
    finding.prove(rate_fact("growth_of_all_processes", all.per_second, kAnonSource));
  }
  for (const Grower& each : some) {
    finding.processes.push_back(each.memory->info->key);
    const std::string name = "memory_of_" + own(each.memory->info->key.pid);
    finding.prove(bytes_fact(NumberName::made_of(name), whole(each.growth.value), kAnonSource,
                             each.growth.to));
  }
  set_outlook(finding, facts, all, limit_of_growers(facts, every));
}

void rule_out_for_leak(Finding& finding, const Facts& facts, const Growth& growth) {
  finding.alternatives = {
      {.cause = "page cache and mapped files", .why_not = "only anonymous memory counts here"},
      {.cause = "DLP0504",
       .why_not = "copying shared pages would not raise the process's RssAnon, which grows"},
      {.cause = "a sawtooth (garbage collection, epochs)",
       .why_not = "its low points rise, and never fell by half as much before"}};
  finding.message += what_brief_growth_leaves_open(growth, "a filling cache");
  if (growth.is_long_watched) {
    finding.rule_out("a warm-up or a filling cache",
                     "it grew as much in the second half of the time as in the first");
  }
  if (facts.run->samples.empty()) return;
  finding.rule_out("DLP0506", "none of its threads waits to send");
}

// A compiler, say: it fills its memory as it works, and ends.
bool runs_another_program(const Facts& facts, const Grower& grower) {
  const auto& program = grower.memory->info->exe;
  const bool is_known = program && facts.trainer != nullptr && facts.trainer->exe;
  return is_known && *program != *facts.trainer->exe;
}

Risen risen_of(const Grower& grower) {
  return {.process = grower.memory->info->key,
          .from = grower.growth.from,
          .to = grower.growth.to,
          .bytes_per_second = grower.growth.per_second};
}

// Workers are alike: of one of them.
const GrownContainer* name_what_grew(Finding& finding, const Facts& facts,
                                     const std::vector<Grower>& some) {
  for (const Grower& each : some) {
    const GrownContainer* grown = name_grown_container(finding, *facts.run, risen_of(each));
    if (grown != nullptr) return grown;
  }
  return nullptr;
}

// Where no container of the program's grew, what native code keeps comes first.
void point_at_native_code(Finding& finding, const Facts& facts, const std::vector<Grower>& some) {
  for (const Grower& each : some) {
    const auto at = where_none_grew(*facts.run, risen_of(each));
    if (!at) continue;
    const Message place =
        place_of(StartEvent{.file = at->file, .line = at->line, .function = at->function});
    finding.remedies.insert(
        finding.remedies.begin(),
        {.title = say("No list, dict or set of the program grew: look for native code (ctypes, an "
                      "extension module) that does not free what it allocates, called{}",
                      place),
         .commands = {"memray run --native train.py"},
         .verify = "dlprobe memory -- COMMAND"});
    return;
  }
}

// A list that a job collected which came to its end in good order, and far from what it might have
// had, may be its result.
bool may_be_result(const Facts& facts, const GrownContainer& grown, const Growth& growth,
                   const std::optional<MemoryLimit>& limit) {
  constexpr double kFar = 4;
  const double bytes = growth.per_second * static_cast<double>(growth.to - growth.from) / kSecond;
  return grown.type == "list" && has_ended_well(facts) && limit &&
         static_cast<double>(limit->left_bytes) > kFar * bytes;
}

Finding leak_of(const Facts& facts, const std::vector<Grower>& some,
                const std::vector<Grower>& every, Role role) {
  Finding finding = new_finding(FindingCode::kWorkerMemoryLeak, Confidence::kLikely);
  const Growth sum = sum_of(some);
  const GrownContainer* grown = name_what_grew(finding, facts, some);
  const bool fills =
      grown != nullptr && ((is_bounded(*grown) && !sum.is_long_watched) ||
                           (role == Role::kTrainer &&
                            may_be_result(facts, *grown, sum, limit_of_growers(facts, every))));
  const OwnWords together = some.size() > 1 ? " together" : "";
  finding.message = who_does(facts, some, role, fills ? "grow" : "leak") + (fills ? " by " : " ") +
                    rate_text(sum.per_second) + together + finding.message;
  finding.discriminator = to_string(role);
  set_growth_of(finding, facts, some, every);
  const bool is_of_another_program =
      sum.is_brief && role == Role::kOther && std::ranges::all_of(some, [&](const Grower& each) {
        return runs_another_program(facts, each);
      });
  const bool may_end = fills || is_of_another_program;
  if (may_end && finding.severity == Severity::kWarning) finding.severity = Severity::kInfo;
  rule_out_for_leak(finding, facts, sum);
  finding.remedies = remedies_for_leak(*facts.run, role == Role::kWorker);
  replace_cycle(finding, grown);
  if (role == Role::kWorker && grown == nullptr) point_at_native_code(finding, facts, some);
  return finding;
}

Finding backlog_of(const Facts& facts, const std::vector<Grower>& some,
                   const std::vector<Grower>& every) {
  Finding finding = new_finding(FindingCode::kPrefetchBacklog, Confidence::kLikely);
  finding.message = who_does(facts, some, some.front().memory->info->role, "grow") + " by " +
                    rate_text(sum_of(some).per_second) +
                    " because the training loop does not keep up";
  finding.discriminator = "in-producer";
  set_growth_of(finding, facts, some, every);
  finding.prove(
      text_fact("a_thread_waits_in", "write, for most of the time", "/proc/PID/task/TID/syscall"));
  finding.alternatives = {
      {.cause = "DLP0505",
       .why_not = "one of its threads waits to send most of the time: an unbounded queue grows"}};
  finding.remedies = remedies_for_backlog(*facts.run);
  return finding;
}

}  // namespace

std::optional<Growth> find_growth_of_process(const Facts& facts, const Series& process,
                                             std::vector<SeriesPoint> series) {
  leave_out_end(*facts.run, series);
  auto growth = find_byte_growth(series, birth_of(facts.header->host, process.info->key));
  if (growth && is_to_be_expected(facts, process, *growth)) return std::nullopt;
  return growth;
}

OwnWords rate_text(double bytes_per_second) {
  return format_bytes(whole(bytes_per_second)) + "/s";
}

void set_growth(Finding& finding, const Growth& growth, const Message& source) {
  finding.confidence = growth.is_long_watched ? Confidence::kLikely : Confidence::kPossible;
  finding.first_seen = growth.from;
  finding.last_seen = growth.to;
  finding.prove(rate_fact("growth", growth.per_second, source));
  finding.prove(
      rate_fact("growth_at_least", growth.least_per_second, "lower end of the 98 % interval"));
  finding.prove(time_fact("seen_to_grow_for", growth.to - growth.from, source));
  finding.prove(
      chance_fact("chance_without_a_trend", growth.p, "Mann-Kendall test of the lower envelope"));
}

void set_outlook(Finding& finding, const Facts& facts, const Growth& growth,
                 const std::optional<MemoryLimit>& limit) {
  finding.severity = Severity::kWarning;
  if (!limit) return;
  const Outlook outlook = outlook_of(facts, finding.processes);
  const auto left = static_cast<double>(limit->left_bytes);
  finding.message += "; " + say_when(*limit, time_to_limit(growth, left), outlook);
  if (outlook == Outlook::kReached || reaches_limit_soon(growth, left))
    finding.severity = Severity::kError;
  add_limit(finding, *limit);
}

std::vector<Finding> growing_processes(const Facts& facts) {
  std::vector<Finding> findings;
  const std::vector<Grower> every = growers(facts);
  std::vector<Grower> senders;
  std::ranges::copy_if(every, std::back_inserter(senders), &Grower::waits_to_send);
  if (!senders.empty()) findings.push_back(backlog_of(facts, senders, every));
  for (const Role role : {Role::kWorker, Role::kTrainer, Role::kOther}) {
    std::vector<Grower> some;
    std::ranges::copy_if(every, std::back_inserter(some), [role](const Grower& each) {
      return each.memory->info->role == role && !each.waits_to_send;
    });
    if (!some.empty()) findings.push_back(leak_of(facts, some, every, role));
  }
  return findings;
}

std::optional<Finding> copy_on_write_growth(const Facts& facts) {
  const auto growth = find_copy_on_write(facts);
  if (!growth) return std::nullopt;
  const bool swaps = std::ranges::any_of(
      facts.processes, [](const Series& memory) { return memory.swap_bytes > 0; });
  Finding finding =
      new_finding(FindingCode::kCopyOnWriteGrowth,
                  growth->by_cgroup || swaps ? Confidence::kLikely : Confidence::kCertain);
  const double seconds = static_cast<double>(growth->to - growth->from) / kSecond;
  finding.message = "processes of the loader have duplicated " +
                    format_bytes(whole(growth->bytes)) +
                    " of the trainer's memory (copy-on-write), " +
                    rate_text(growth->bytes / seconds) + "; RSS does not show it; up to " +
                    format_bytes(whole(growth->more_bytes)) + " more may follow";
  // A garbage collection alone copies what `import torch` made: 143 MiB in each worker of 2.13.
  constexpr double kOfImports = 160.0 * (1 << 20);
  const bool is_small =
      growth->bytes + growth->more_bytes < kOfImports * static_cast<double>(growth->copies);
  finding.severity = is_small ? Severity::kInfo : Severity::kWarning;
  if (is_small) finding.message += "; a Python with torch imported shares as much";
  finding.processes = growth->processes;
  finding.first_seen = growth->from;
  finding.last_seen = growth->to;
  finding.evidence = {
      bytes_fact("copied", whole(growth->bytes), growth->source, growth->to),
      held_against(bytes_fact("growth_of_resident_anonymous_memory", whole(growth->anon_growth),
                              "/proc/PID/statm, summed"),
                   "< copied"),
      held_against(bytes_fact("minor_faults_x_page_size", whole(growth->fault_bytes),
                              "minflt of /proc/PID/stat"),
                   ">= copied"),
      bytes_fact("still_shared", whole(growth->more_bytes), growth->source, growth->to),
      time_fact("seen_for", growth->to - growth->from, growth->source)};
  finding.alternatives = {
      {.cause = "DLP0505",
       .why_not = "new memory would raise the sum of RssAnon, which did not grow"},
      {.cause = "page cache and mapped files", .why_not = "only anonymous memory counts here"}};
  if (const auto limit = nearest_memory_limit(*facts.run, growth->to)) {
    add_limit(finding, *limit);
    const auto left = static_cast<double>(limit->left_bytes);
    if (growth->more_bytes > left) {
      const Growth trend = {
          .from = growth->from, .to = growth->to, .per_second = growth->bytes / seconds};
      finding.message +=
          ", which " + limit->name + " cannot hold (" + format_bytes(limit->left_bytes) + " left)";
      if (reaches_limit_soon(trend, left)) finding.severity = Severity::kError;
    }
  }
  finding.remedies = remedies_for_copy_on_write(*facts.run);
  return finding;
}

std::vector<Gap> gaps_of(const Facts& facts) {
  std::vector<Gap> gaps;
  if (facts.run->begin.preflight || facts.run->samples.empty()) return gaps;
  if (facts.host_looks.empty() && facts.cgroup_looks.empty()) {
    gaps.push_back({.what = "the memory limits of the subject",
                    .why = "neither its cgroup nor /proc/meminfo could be read",
                    .effect = "dlprobe cannot tell how long its memory lasts",
                    .remedy = "run dlprobe where /proc and /sys/fs/cgroup are mounted"});
  }
  return gaps;
}

std::vector<Gap> limits_of(const Facts& facts) {
  std::vector<Gap> limits;
  const std::vector<Sample>& samples = facts.run->samples;
  if (samples.empty() || facts.run->begin.preflight) return limits;
  const BootNs watched = watched_for(*facts.run);
  if (!slowest_growth_found(watched)) {
    limits.push_back({.what = "leaks (DLP0505)",
                      .why = "the watch of " + format_duration(std::chrono::nanoseconds(watched)) +
                             " is shorter than the 15 s that a leak needs to show",
                      .effect = "dlprobe cannot tell a leak from a warm-up; a slow leak (under 2 "
                                "MiB/s) takes four minutes",
                      .remedy = "watch longer: --for 5m"});
  }
  const bool has_pss = std::ranges::any_of(
      facts.processes, [](const Series& memory) { return !memory.looks.empty(); });
  const bool has_cgroup = std::ranges::any_of(
      facts.cgroup_looks, [](const auto& look) { return look.memory->anon_bytes.has_value(); });
  if (!has_pss && !has_cgroup && facts.processes.size() > 1) {
    limits.push_back({.what = "copy-on-write growth (DLP0504)",
                      .why = "neither Pss_Anon of /proc/PID/smaps_rollup nor the cgroup's "
                             "anonymous memory could be read",
                      .effect = "copied shared pages do not show in any RSS",
                      .remedy = "run dlprobe as the job's user, for more than a second"});
  }
  return limits;
}

}  // namespace dlprobe::probes::memory
