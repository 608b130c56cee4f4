// DLP0603 process-limit-reached, where a process of the run was refused another one or a thread.

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/facts/grown_containers.h"
#include "probes/facts/starts.h"
#include "probes/facts/task_limits.h"

namespace dlprobe::probes::exits {
namespace {

// Between the refusal and the look at it some that counted have ended.
constexpr uint64_t kFew = 4;

bool is_near(const TaskLimit& limit) {
  constexpr uint64_t kPart = 10;
  return limit.left() <= std::max(kFew, limit.limit / kPart);
}

const TaskFacts* facts_before(const Run& run) {
  const auto found =
      std::ranges::find_if(run.task_facts, [](const TaskFacts& each) { return !each.process; });
  return found == run.task_facts.end() ? nullptr : &*found;
}

const TaskFacts* facts_at(const Run& run, const StartEvent& refused) {
  const auto found = std::ranges::find(run.task_facts, refused.process, &TaskFacts::process);
  return found == run.task_facts.end() ? nullptr : &*found;
}

// How often processes of the group were refused one since the command's start.
uint64_t refusals_of(const TaskGroup& group, const TaskFacts* before) {
  uint64_t until_then = 0;
  if (before != nullptr) {
    const auto same = std::ranges::find(before->groups, group.folder, &TaskGroup::folder);
    if (same != before->groups.end()) until_then = same->refusals.value_or(0);
  }
  return group.refusals.value_or(0) - std::min(group.refusals.value_or(0), until_then);
}

/// The limit that was reached, and how sure that is.
struct Reached {
  TaskLimit limit;
  uint64_t refusals = 0;  ///< that the groups counted
  bool is_proven = false;
};

// Whether no limit of memory can have refused the thread its stack, as the witness's count says,
// and the user had at least a part of what the limit allows: the others may have ended since.
bool is_likely_of_user(const ExitFacts& facts, const StartEvent& refused, const TaskLimit& limit) {
  constexpr uint64_t kPart = 4;
  return limit.scope == TaskScope::kUser && refused.count &&
         facts.header->host.overcommit_memory.value_or(2) != 2 &&
         limit.taken >= limit.limit / kPart;
}

std::optional<Reached> reached_limit(const ExitFacts& exit_facts, const StartEvent& refused) {
  const Run& run = *exit_facts.run;
  const TaskFacts* read = facts_at(run, refused);
  if (read == nullptr) return std::nullopt;
  TaskFacts facts = *read;
  if (facts.processes && facts.tasks_of_user) {
    facts.processes->soft = refused.limit;
    // What it saw itself: by the time of the look some that counted may have ended.
    const auto seen = static_cast<uint64_t>(refused.count.value_or(0));
    facts.tasks_of_user = std::max(*facts.tasks_of_user, seen);
  }
  Reached reached;
  for (const TaskGroup& group : facts.groups)
    reached.refusals += refusals_of(group, facts_before(run));
  std::vector<TaskLimit> limits = task_limits(facts);
  // The group's own count is the kernel's word. Of fork no other limit is left then.
  const bool is_known = refused.cause == StartRefusal::kNoProcess;
  std::erase_if(limits, [&](const TaskLimit& each) {
    if (reached.refusals > 0) return each.scope != TaskScope::kGroup;
    const bool is_what_remains = is_known && each.scope == TaskScope::kUser;
    return !is_what_remains && !is_near(each) && !is_likely_of_user(exit_facts, refused, each);
  });
  if (limits.empty()) return std::nullopt;
  reached.limit = limits.front();
  reached.is_proven = reached.refusals > 0 || is_known || reached.limit.left() <= kFew;
  return reached;
}

uint64_t comfortable(uint64_t limit) {
  constexpr uint64_t kLeast = 1024;
  return std::max(kLeast, std::bit_ceil(4 * limit));
}

Remedy more_for_group(const TaskLimit& limit, const std::string& container) {
  const OwnWords number = own(comfortable(limit.limit));
  if (container == "docker" || container == "podman") {
    return {.title = "Give the container more processes",
            .commands = {own(container) + " run --pids-limit " + number + " ..."},
            .applies_to = {"docker", "podman"},
            .verify = "cat /sys/fs/cgroup/pids.max"};
  }
  if (container == "kubernetes") {
    return {
        .title = "Ask the administrator for more processes per pod (podPidsLimit of the kubelet)",
        .commands = {"podPidsLimit: " + number},
        .applies_to = {"kubernetes"},
        .verify = "cat /sys/fs/cgroup/pids.max"};
  }
  const Message file = as_path(limit.folder + "/pids.max");
  return {.title = "Raise the limit of the cgroup (TasksMax= of a systemd unit)",
          .commands = {"echo " + number + " | sudo tee " + file},
          .applies_to = {"bare-host", "slurm"},
          .verify = "cat " + file};
}

Remedy more_for_user(const Run& run, const TaskLimit& limit) {
  const OwnWords number = own(comfortable(limit.limit));
  const TaskFacts* before = facts_before(run);
  const bool is_inherited =
      before != nullptr && before->processes && before->processes->soft == limit.limit;
  if (before != nullptr && !is_inherited) {
    return {
        .title = "The program or its launcher sets this limit: raise it there",
        .commands = {"resource.setrlimit(resource.RLIMIT_NPROC, (" + number + ", " + number + "))",
                     "ulimit -u " + number}};
  }
  const bool has_room = before != nullptr && before->processes &&
                        before->processes->hard.value_or(UINT64_MAX) >= comfortable(limit.limit);
  if (has_room) {
    return {.title = "Raise the soft limit in the shell that starts the job",
            .commands = {"ulimit -u " + number},
            .applies_to = {"bare-host", "docker", "slurm"},
            .verify = "ulimit -u"};
  }
  return {.title =
              "Ask the administrator to raise the limit (limits.conf(5), or LimitNPROC= of the "
              "service)",
          .commands = {"* hard nproc " + number, "* soft nproc " + number},
          .applies_to = {"bare-host", "slurm"},
          .verify = "ulimit -Hu"};
}

void add_remedies(Finding& finding, const ExitFacts& facts, const TaskLimit& limit) {
  switch (limit.scope) {
    case TaskScope::kUser:
      finding.remedies.push_back(more_for_user(*facts.run, limit));
      break;
    case TaskScope::kGroup:
      finding.remedies.push_back(more_for_group(limit, facts.header->host.container));
      break;
    case TaskScope::kMachine:
      finding.remedies.push_back(
          {.title = "Raise the machine's limit; first see what runs so many threads",
           .commands = {"ps -eLf | wc -l",
                        "sudo sysctl -w kernel.threads-max=" + own(comfortable(limit.limit))},
           .applies_to = {"bare-host"}});
      break;
  }
  Remedy fewer{.title = "Or start fewer: fewer workers, and one thread per library in each",
               .commands = {"export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1"},
               .verify = "dlprobe run -- COMMAND"};
  if (most_living_workers(*facts.run) > 0) add_smaller_loader(fewer, *facts.run);
  finding.remedies.push_back(std::move(fewer));
}

struct GrowingTasks {
  std::optional<ProcessKey> process;  ///< none: the processes of the job
  Growth growth;
  bool are_workers = false;  ///< of loaders of that process; else its threads
  bool are_zombies = false;  ///< its children that have ended
};

// That of a process, if it is a faster one.
void take_faster(const GrowingTasks& one, std::optional<GrowingTasks>& fastest) {
  if (!fastest || one.growth.per_second > fastest->growth.per_second) fastest = one;
}

using SeriesOfProcesses = std::map<ProcessKey, std::vector<SeriesPoint>>;

// Some live for less time than a growth needs to be told from what fills. Of those that were seen
// from their birth to their end all is known.
bool is_whole_life(const HostFacts& host, const Run& run, const ProcessKey& key, BootNs first_at) {
  return first_at < birth_of(host, key) + kSecond &&
         (has_subject_ended(run) || is_known_dead(run, key, run.samples.back().at));
}

std::optional<GrowingTasks> fastest_growth(const HostFacts& host, const Run& run,
                                           const LeastRise& least, SeriesOfProcesses all) {
  constexpr BootNs kTeardown = 10 * kSecond;
  std::optional<GrowingTasks> fastest;
  const BootNs last_at = run.samples.back().at;
  for (auto& [key, series] : all) {
    // One that has ended before the others holds none any more. Workers end before their trainer.
    const BootNs before = has_subject_ended(run) ? kTeardown : kSecond;
    if (series.back().at + before < last_at) continue;
    leave_out_end(run, series);
    auto growth = find_count_growth(series, least, birth_of(host, key));
    if (!growth && is_whole_life(host, run, key, series.front().at))
      growth = find_growth_of_life(series, least.of_life);
    if (growth) take_faster({.process = key, .growth = *growth}, fastest);
  }
  return fastest;
}

std::optional<GrowingTasks> growth_of_threads(const HostFacts& host, const Run& run) {
  SeriesOfProcesses threads;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& each : sample.processes)
      threads[each.key].push_back({.at = sample.at, .value = static_cast<double>(each.threads)});
  }
  return fastest_growth(host, run, kRiseOfThreads, std::move(threads));
}

bool is_zombie(const ProcessSample& process) {
  return process.state == 'Z' && process.threads <= 1;
}

// Children that have ended, of each that has such, and lives.
std::optional<GrowingTasks> growth_of_zombies(const HostFacts& host, const Run& run) {
  SeriesOfProcesses zombies;
  std::set<ProcessKey> parents;
  for (const Sample& sample : run.samples) {
    std::map<int32_t, uint64_t> children;
    for (const ProcessSample& each : sample.processes)
      if (is_zombie(each)) ++children[each.ppid];
    for (const ProcessSample& each : sample.processes) {
      if (is_zombie(each)) continue;
      const uint64_t count = children[each.key.pid];
      if (count > 0) parents.insert(each.key);
      zombies[each.key].push_back({.at = sample.at, .value = static_cast<double>(count)});
    }
  }
  std::erase_if(zombies, [&](const auto& series) { return !parents.contains(series.first); });
  auto growth = fastest_growth(host, run, kRiseOfProcesses, std::move(zombies));
  if (!growth) return std::nullopt;
  growth->are_zombies = true;
  growth->growth.is_long_watched = true;  // they are of no use: nothing that fills
  return growth;
}

// Living workers of torch's loaders, and threads, of one trainer.
struct OfTrainer {
  std::vector<SeriesPoint> workers;
  std::vector<SeriesPoint> threads;
};

// By worker of torch's loaders.
std::map<ProcessKey, ProcessKey> trainers_of_workers(const Run& run) {
  std::map<ProcessKey, ProcessKey> trainers;
  for (const ProcessInfo& info : run.processes) {
    if (info.role != Role::kWorker || !has_handlers_of_torch(info)) continue;
    if (const ProcessInfo* trainer = trainer_of(run, info)) trainers[info.key] = trainer->key;
  }
  return trainers;
}

std::map<ProcessKey, OfTrainer> workers_of_loaders(const Run& run) {
  const auto trainers = trainers_of_workers(run);
  std::map<ProcessKey, OfTrainer> series;
  for (const Sample& sample : run.samples) {
    std::map<ProcessKey, double> workers;
    for (const ProcessSample& each : sample.processes) {
      const auto trainer = trainers.find(each.key);
      if (trainer != trainers.end() && each.state != 'Z') ++workers[trainer->second];
    }
    for (const ProcessSample& each : sample.processes) {
      const auto count = workers.find(each.key);
      if (count == workers.end()) continue;
      OfTrainer& of = series[each.key];
      of.workers.push_back({.at = sample.at, .value = count->second});
      of.threads.push_back({.at = sample.at, .value = static_cast<double>(each.threads)});
    }
  }
  return series;
}

// The trainer feeds each worker of a loader by a thread, from when the last of them has started: a
// loader that takes long to start has none yet.
bool are_fed(const OfTrainer& trainer, const Growth& growth) {
  const auto rise = [&](const std::vector<SeriesPoint>& series) {
    const auto from = std::ranges::lower_bound(series, growth.from, {}, &SeriesPoint::at);
    const auto to = std::ranges::upper_bound(series, growth.to, {}, &SeriesPoint::at);
    return from < to ? std::prev(to)->value - from->value : 0;
  };
  return rise(trainer.threads) * 2 >= rise(trainer.workers);
}

// Of a crowded job there are few samples. When those that live began tells as much: they became
// more evenly since the first of them, and while it was watched.
std::optional<Growth> growth_of_births(const HostFacts& host, const Run& run,
                                       const ProcessKey& trainer, const OfTrainer& of) {
  constexpr BootNs kYoungest = 20 * kSecond;
  constexpr int kPoints = 60;
  if (of.workers.back().value - of.workers.front().value < kRiseOfWorkers.by_age)
    return std::nullopt;
  const auto trainers = trainers_of_workers(run);
  std::vector<BootNs> births;
  for (const ProcessSample& each : run.samples.back().processes) {
    const auto its = trainers.find(each.key);
    if (its != trainers.end() && its->second == trainer && !is_zombie(each))
      births.push_back(birth_of(host, each.key));
  }
  const BootNs now = run.samples.back().at;
  const BootNs first = births.empty() ? now : std::ranges::min(births);
  if (now - first < kYoungest) return std::nullopt;
  std::vector<SeriesPoint> series;
  for (int i = 0; i <= kPoints; ++i) {
    const BootNs at = first + (now - first) / kPoints * i;
    const auto living = std::ranges::count_if(births, [at](BootNs each) { return each <= at; });
    series.push_back({.at = at, .value = static_cast<double>(living)});
  }
  auto growth = find_growth_of_life(series, kRiseOfWorkers.at_once);
  if (growth) growth->is_by_age = true;
  return growth;
}

std::optional<GrowingTasks> growth_of_workers(const HostFacts& host, const Run& run) {
  std::optional<GrowingTasks> fastest;
  for (auto& [key, trainer] : workers_of_loaders(run)) {
    leave_out_end(run, trainer.workers);
    auto growth = find_count_growth(trainer.workers, kRiseOfWorkers, birth_of(host, key));
    if (!growth && !trainer.workers.empty()) growth = growth_of_births(host, run, key, trainer);
    if (!growth || !are_fed(trainer, *growth)) continue;
    take_faster({.process = key, .growth = *growth, .are_workers = true}, fastest);
  }
  return fastest;
}

std::optional<GrowingTasks> growth_of_processes(const Run& run) {
  std::vector<SeriesPoint> processes;
  processes.reserve(run.samples.size());
  for (const Sample& sample : run.samples) {
    const auto living = std::ranges::count_if(sample.processes, std::not_fn(is_zombie));
    processes.push_back({.at = sample.at, .value = static_cast<double>(living)});
  }
  leave_out_end(run, processes);
  const auto growth = find_count_growth(processes, kRiseOfProcesses);
  if (!growth) return std::nullopt;
  return GrowingTasks{.process = std::nullopt, .growth = *growth};
}

// What was left when the limits were read, less what the job took since.
std::optional<CountLimit> limit_ahead(const Run& run) {
  if (run.task_facts.empty() || run.samples.empty()) return std::nullopt;
  const TaskFacts& facts = run.task_facts.back();
  const auto limits = task_limits(facts);
  if (limits.empty()) return std::nullopt;
  const auto tasks = [](const Sample& sample) {
    uint64_t sum = 0;
    for (const ProcessSample& each : sample.processes)
      sum += static_cast<uint64_t>(std::max(each.threads, 1));
    return sum;
  };
  const auto first = std::ranges::lower_bound(run.samples, facts.at, {}, &Sample::at);
  const uint64_t before = first == run.samples.end() ? 0 : tasks(*first);
  const uint64_t now = tasks(run.samples.back());
  const uint64_t more = now - std::min(now, before);
  return CountLimit{.name = limits.front().name + " (" + own(limits.front().limit) + ")",
                    .left = limits.front().left() - std::min(limits.front().left(), more),
                    .has_ended = has_subject_ended(run)};
}

OwnWords message_of_growth(const Run& run, const GrowingTasks& tasks, uint64_t count) {
  if (tasks.process && tasks.are_workers) {
    return describe(run, *tasks.process) +
           " keeps iterators of its loaders, and so their workers: " + counted(count, "worker");
  }
  if (tasks.process && tasks.are_zombies) {
    return describe(run, *tasks.process) + " does not wait for its children: " + own(count) +
           " have ended and stay as zombies";
  }
  if (tasks.process) {
    return describe(run, *tasks.process) + " starts threads that never end: " + own(count) +
           " threads";
  }
  return "the job starts processes that never end: " + counted(count, "process");
}

void name_what_keeps(Finding& finding, const Run& run, const GrowingTasks& tasks) {
  const Risen risen{.process = tasks.process.value_or(ProcessKey{}),
                    .from = tasks.growth.from,
                    .to = tasks.growth.to,
                    .count_per_second = tasks.growth.per_second};
  const bool is_named = name_grown_container(finding, run, risen) != nullptr;
  if (!is_named && !tasks.are_workers && !tasks.are_zombies)
    name_crowd_of_threads(finding, run, risen);
}

Remedy remedy_of_growth(const GrowingTasks& tasks) {
  if (tasks.are_workers) {
    return {.title =
                "Make one loader, and let each iterator go before the next; or keep its workers "
                "for all epochs",
            .commands = {"for batch in loader: ...  # no list or attribute that keeps iter(loader)",
                         "loader = DataLoader(..., persistent_workers=True)  # once, before the "
                         "first epoch"},
            .verify = "ps --ppid PID"};
  }
  if (tasks.are_zombies) {
    return {.title = "Wait for each child: until then it counts against the limits of processes",
            .commands = {"subprocess.run(command)  # or process.wait() of a Popen",
                         "process.join()  # of multiprocessing", "os.waitpid(pid, 0)"},
            .verify = "ps --ppid PID"};
  }
  if (tasks.process) {
    return {.title = "Start them once and reuse them, or wait for each to end",
            .commands = {"executor = concurrent.futures.ThreadPoolExecutor(8)  # once, not per "
                         "sample",
                         "thread.join()"},
            .verify = "grep Threads /proc/PID/status"};
  }
  return {.title =
              "Make pools and loaders once and reuse them, close them at the end, and join each "
              "process",
          .commands = {"with multiprocessing.Pool(8) as pool: ...  # not one per epoch",
                       "process.join()", "os.waitpid(pid, 0)"},
          .verify = "ps --ppid PID"};
}

// Those whose threads came one after another, and none had ended when another one was refused. A
// pool comes at once.
struct Piled {
  std::vector<ProcessKey> processes;
  uint64_t threads = 0;
};

Piled piled_threads(const Run& run, BootNs until) {
  constexpr int32_t kLeast = 8;
  constexpr int kLeastSteps = 3;
  std::map<ProcessKey, std::vector<int32_t>> threads;
  for (const Sample& sample : run.samples) {
    if (sample.at > until) break;
    for (const ProcessSample& each : sample.processes)
      threads[each.key].push_back(each.threads);
  }
  Piled piled;
  for (const auto& [key, counts] : threads) {
    const int32_t rise = counts.back() - counts.front();
    int steps = 0;
    bool is_pile = rise >= kLeast && std::ranges::is_sorted(counts);
    for (size_t i = 1; i < counts.size(); ++i) {
      const int32_t step = counts[i] - counts[i - 1];
      if (step > 0) ++steps;
      is_pile = is_pile && step * 2 <= rise;
    }
    if (!is_pile || steps < kLeastSteps) continue;
    piled.processes.push_back(key);
    piled.threads += static_cast<uint64_t>(counts.back());
  }
  return piled;
}

// That most of what was allowed is threads of the job that never ended.
void add_piled_threads(Finding& finding, const Run& run, const TaskLimit& limit, BootNs at) {
  const Piled piled = piled_threads(run, at);
  const auto& who = piled.processes;
  if (who.empty() || piled.threads * 2 < limit.taken) return;
  finding.message += "; " + own(piled.threads) + " of them are threads of " +
                     (who.size() == 1 ? describe(run, who.front())
                                      : counted(who.size(), "process") + " of the job") +
                     ", which came one after another and never ended";
  finding.remedies.insert(
      finding.remedies.begin(),
      remedy_of_growth({.process = who.front(), .growth = {}, .are_workers = false}));
}

// That most of it is children that have ended, and that nobody waited for.
void add_zombies(Finding& finding, const Run& run, const TaskLimit& limit, BootNs at) {
  const auto next = std::ranges::upper_bound(run.samples, at, {}, &Sample::at);
  if (next == run.samples.begin()) return;
  const auto& last = std::prev(next)->processes;
  const auto count = static_cast<uint64_t>(std::ranges::count_if(last, is_zombie));
  if (count * 2 < limit.taken) return;
  finding.message += say("; {} of them have ended, and nobody waited for them", own(count));
  finding.remedies.insert(finding.remedies.begin(),
                          remedy_of_growth({.process = {}, .growth = {}, .are_zombies = true}));
}

}  // namespace

std::optional<Finding> growing_tasks(const ExitFacts& facts) {
  const Run& run = *facts.run;
  if (run.samples.empty()) return std::nullopt;
  // With each process a pool or a loader starts threads of its own.
  auto tasks = growth_of_workers(facts.header->host, run);
  if (!tasks) tasks = growth_of_zombies(facts.header->host, run);
  if (!tasks) tasks = growth_of_processes(run);
  if (!tasks) tasks = growth_of_threads(facts.header->host, run);
  if (!tasks) return std::nullopt;
  Finding finding = new_finding(FindingCode::kProcessLimitReached, Confidence::kLikely);
  const auto count = static_cast<uint64_t>(tasks->growth.value);
  const bool are_threads = tasks->process && !tasks->are_workers && !tasks->are_zombies;
  finding.discriminator = are_threads ? "growing-threads" : "growing-processes";
  finding.message = message_of_growth(run, *tasks, count);
  const ProcessInfo* trainer = first_of_role(run, Role::kTrainer);
  if (tasks->process) finding.processes = {*tasks->process};
  if (!tasks->process && trainer != nullptr) finding.processes = {trainer->key};
  const char* source = are_threads ? "num_threads of /proc/PID/stat" : "the process tree";
  finding.prove(count_fact("taken", count, source, tasks->growth.to));
  tell_count_growth(finding, tasks->growth, source, limit_ahead(run), "a pool that starts");
  if (tasks->process) name_what_keeps(finding, run, *tasks);
  finding.remedies.push_back(remedy_of_growth(*tasks));
  return finding;
}

std::optional<Finding> no_room_for_tasks(const ExitFacts& facts) {
  const Run& run = *facts.run;
  std::vector<const StartEvent*> refused = events_of(run, StartEventKind::kRefused);
  std::erase_if(refused, [](const StartEvent* event) {
    return event->cause != StartRefusal::kNoProcess && event->cause != StartRefusal::kNoThread;
  });
  if (refused.empty() || !ends_badly(run)) return std::nullopt;
  const StartEvent& first = *refused.front();
  const auto reached = reached_limit(facts, first);
  if (!reached) return std::nullopt;
  const TaskLimit& limit = reached->limit;
  Finding finding = new_finding(FindingCode::kProcessLimitReached,
                                reached->is_proven ? Confidence::kCertain : Confidence::kLikely);
  finding.discriminator = "refused";
  finding.message =
      say("{} could not start another {}{}: {} allows {}", describe(run, first.process),
          first.cause == StartRefusal::kNoProcess ? "process" : "thread", place_of(first),
          limit.name, own(limit.limit) + " processes and threads");
  finding.processes = processes_of(refused);
  add_exception(finding, first);
  finding.prove(count_fact("limit", limit.limit, limit.source, first.at));
  finding.prove(count_fact("taken", limit.taken, limit.source, facts_at(run, first)->at));
  if (reached->refusals > 0)
    finding.prove(count_fact("refusals", reached->refusals, "\"max\" of pids.events"));
  finding.rule_out("DLP0514", "this call fails only at a limit");
  add_remedies(finding, facts, limit);
  add_piled_threads(finding, run, limit, first.at);
  add_zombies(finding, run, limit, first.at);
  finding.first_seen = first.at;
  finding.last_seen = refused.back()->at;
  return finding;
}

}  // namespace dlprobe::probes::exits
