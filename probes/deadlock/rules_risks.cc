#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/foreign/libraries.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

// By the whole path: two libraries of one name may be loaded.
bool began_in(const ThreadSnapshot& thread, std::string_view file) {
  return is_pool_thread(thread, base_name(file)) &&
         std::ranges::find(thread.stack, file, &StackFrame::file) != thread.stack.end();
}

size_t threads_begun_in(const ProcessSnapshot& process, std::string_view file) {
  return static_cast<size_t>(std::ranges::count_if(
      process.threads, [&](const ThreadSnapshot& thread) { return began_in(thread, file); }));
}

/// A library whose threads the workers lack.
struct LostThreads {
  std::string file;
  Severity severity = Severity::kInfo;
  size_t in_parent = 0;    ///< threads that were there before the fork, or the pool says were
  uint32_t next_team = 0;  ///< of OpenMP: what its next parallel region asks for; 0: not known
  std::vector<ProcessKey> workers;
};

// Threads of the library that the parent had when it made the copy.
size_t threads_before_fork(const Facts& facts, const ProcessSnapshot& copy,
                           const std::string& file) {
  const ProcessSnapshot* parent = parent_of(facts, copy.key);
  if (parent == nullptr) return 0;
  ProcessSnapshot older{.key = parent->key};
  std::ranges::copy_if(
      parent->threads, std::back_inserter(older.threads), [&](const ThreadSnapshot& thread) {
        return thread.start_ticks != 0 && thread.start_ticks < copy.key.start_ticks;
      });
  return threads_begun_in(older, file);
}

// What the library would do without its threads; nothing where it has lost none, or needs none.
std::optional<LostThreads> lost_threads(const Facts& facts, const ProcessSnapshot& copy,
                                        const MappedLibrary& library) {
  const ThreadKeeper keeper = thread_keeper(library.file);
  if (keeper == ThreadKeeper::kNone || keeper == ThreadKeeper::kOtherOpenMp) return std::nullopt;
  LostThreads lost{.file = library.file, .workers = {copy.key}};
  if (library.pool) {
    // The pool's own words: of the thread that made the copy, whichever its parent has now.
    if (library.pool->threads < 2 || library.pool->next_team < 2) return std::nullopt;
    lost.in_parent = library.pool->threads - 1;
    lost.next_team = library.pool->next_team;
    lost.severity = Severity::kWarning;
    return lost;
  }
  lost.in_parent = threads_before_fork(facts, copy, library.file);
  if (lost.in_parent == 0) return std::nullopt;
  if (keeper == ThreadKeeper::kPolars) lost.severity = Severity::kWarning;
  return lost;
}

bool has_all_stacks(const ProcessSnapshot& process) {
  return std::ranges::none_of(process.threads, [](const ThreadSnapshot& thread) {
    return thread.stack.empty() && thread.state != 'Z';
  });
}

// By library; the workers of each together.
std::vector<LostThreads> find_lost_threads(const Facts& facts) {
  std::vector<LostThreads> all;
  for (const ProcessSnapshot& process : facts.last->processes) {
    if (!is_forked_copy(*facts.run, process.key) || !has_all_stacks(process)) continue;
    for (const MappedLibrary& library : process.libraries) {
      if (threads_begun_in(process, library.file) > 0) continue;
      auto lost = lost_threads(facts, process, library);
      if (!lost) continue;
      const auto same = std::ranges::find_if(all, [&](const LostThreads& each) {
        return each.file == lost->file && each.severity == lost->severity;
      });
      if (same == all.end()) {
        all.push_back(std::move(*lost));
      } else {
        same->workers.push_back(process.key);
      }
    }
  }
  return all;
}

OwnWords name_of_all(const Run& run, const std::vector<ProcessKey>& keys) {
  const OwnWords first = describe(run, keys.front());
  return keys.size() == 1 ? first : first + " and " + own(keys.size() - 1) + " more";
}

Message text_of(const LostThreads& lost) {
  Message text = as_path(base_name(lost.file)) + ": " + counted(lost.in_parent, "thread") +
                 " before the fork, none in " + counted(lost.workers.size(), "worker");
  if (lost.next_team > 0) {
    text += "; its next parallel region asks for " + own(lost.next_team);
  }
  return text;
}

Finding finding_of(const Facts& facts, Severity severity,
                   std::span<const LostThreads* const> libraries) {
  const bool is_known =
      std::ranges::all_of(libraries, [](const LostThreads* each) { return each->next_team > 0; });
  Confidence confidence = is_known ? Confidence::kCertain : Confidence::kLikely;
  if (severity == Severity::kInfo) confidence = Confidence::kPossible;
  Finding finding = new_finding(FindingCode::kForkUnsafeLibraryLoaded, confidence);
  finding.severity = severity;
  finding.last_seen = facts.last->at;
  std::vector<Message> names;
  for (const LostThreads* each : libraries) {
    names.push_back(as_path(base_name(each->file)));
    for (const ProcessKey& key : each->workers) {
      if (std::ranges::find(finding.processes, key) == finding.processes.end())
        finding.processes.push_back(key);
    }
    finding.prove(text_fact("lost_threads", text_of(*each),
                            each->next_team > 0 ? "the library's own data in the worker's memory"
                                                : "stacks and start times of all threads",
                            facts.last->at));
  }
  const Message libraries_named = joined(names);
  finding.discriminator = libraries_named.plain();
  finding.message = name_of_all(*facts.run, finding.processes) + " lost the threads of " +
                    libraries_named + " at fork; ";
  finding.message += severity == Severity::kWarning
                         ? "the next use of them there hangs"
                         : "the library may or may not start them again there";
  finding.rule_out("DLP0302", "no worker waits for these threads now");
  const auto copy =
      std::ranges::find(facts.last->processes, finding.processes.front(), &ProcessSnapshot::key);
  add_remedy_of_clean_start(finding, facts, copy == facts.last->processes.end() ? nullptr : &*copy);
  for (const LostThreads* each : libraries)
    add_remedy_for_library(finding, each->file);
  return finding;
}

/// One OpenMP runtime of a process.
struct Runtime {
  const MappedLibrary* library = nullptr;
  size_t threads = 0;
  size_t busy = 0;  ///< of these
};

std::vector<Runtime> runtimes_of(const Facts& facts, const ProcessSnapshot& process) {
  constexpr double kBusy = 0.5;
  std::vector<Runtime> runtimes;
  for (const MappedLibrary& library : process.libraries) {
    if (!is_openmp(library.file)) continue;
    Runtime runtime{.library = &library, .threads = threads_begun_in(process, library.file)};
    for (const ThreadFacts& thread : facts.threads) {
      const bool is_of_pool = thread.process == &process && began_in(*thread.thread, library.file);
      if (is_of_pool && thread.busy_share >= kBusy) ++runtime.busy;
    }
    runtimes.push_back(runtime);
  }
  return runtimes;
}

// Two pools at work at the same time, on more threads than there are cores.
bool crowd_each_other(std::span<const Runtime> runtimes, int cpus) {
  size_t busy = 0;
  size_t at_work = 0;
  for (const Runtime& runtime : runtimes) {
    busy += runtime.busy;
    if (runtime.busy > 0) ++at_work;
  }
  return at_work >= 2 && cpus > 0 && std::cmp_greater(busy, cpus);
}

std::optional<Finding> two_runtimes(const Facts& facts, int cpus) {
  std::vector<Runtime> shown;
  bool crowded = false;
  std::vector<ProcessKey> processes;
  for (const ProcessSnapshot& process : facts.last->processes) {
    auto runtimes = runtimes_of(facts, process);
    if (runtimes.size() < 2) continue;
    processes.push_back(process.key);
    const bool crowds = crowd_each_other(runtimes, cpus);
    if (shown.empty() || (crowds && !crowded)) shown = std::move(runtimes);
    crowded = crowded || crowds;
  }
  if (processes.empty()) return std::nullopt;
  Finding finding = new_finding(FindingCode::kTwoOpenMpRuntimes,
                                crowded ? Confidence::kLikely : Confidence::kCertain);
  if (crowded) finding.severity = Severity::kWarning;
  finding.last_seen = facts.last->at;
  Message words;
  for (const Runtime& runtime : shown) {
    const std::string name(base_name(runtime.library->file));
    words += (words.empty() ? "" : ", ") + as_path(name) + " (" +
             counted(runtime.threads, "thread") + ")";
    finding.discriminator += (finding.discriminator.empty() ? "" : ", ") + name;
    finding.prove(text_fact("openmp_runtime",
                            as_path(runtime.library->file) + ": " +
                                counted(runtime.threads, "thread") + ", " + own(runtime.busy) +
                                " busy",
                            "/proc/PID/maps, stacks of all threads", facts.last->at));
  }
  finding.message = name_of_all(*facts.run, processes) + " loaded " + own(shown.size()) +
                    " OpenMP runtimes: " + words;
  if (crowded) finding.message += ", which together run more threads than there are cores";
  finding.processes = std::move(processes);
  finding.remedies.push_back({.title = "Limit the threads of all runtimes at once",
                              .commands = {"OMP_NUM_THREADS=1 python train.py",
                                           "threadpoolctl.threadpool_limits(limits=1)"},
                              .verify = "dlprobe deadlock --pid PID",
                              .settings = {{SettingKind::kEnvironment, "OMP_NUM_THREADS", "1"}}});
  return finding;
}

}  // namespace

std::vector<Finding> find_risks(const Facts& facts, const std::vector<RootCause>& causes,
                                int cpus) {
  std::vector<Finding> findings;
  const bool hangs_already = std::ranges::any_of(causes, [](const RootCause& cause) {
    return cause.finding.code == FindingCode::kForkLostThreadPool;
  });
  const auto lost = hangs_already ? std::vector<LostThreads>{} : find_lost_threads(facts);
  const bool has_cause = std::ranges::any_of(
      causes, [](const RootCause& cause) { return cause.finding.severity != Severity::kInfo; });
  for (const Severity severity : {Severity::kWarning, Severity::kInfo}) {
    // What may do no harm at all is no word worth beside what does.
    if (severity == Severity::kInfo && has_cause) continue;
    std::vector<const LostThreads*> libraries;
    for (const LostThreads& each : lost)
      if (each.severity == severity) libraries.push_back(&each);
    if (!libraries.empty()) findings.push_back(finding_of(facts, severity, libraries));
  }
  if (auto finding = two_runtimes(facts, cpus)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace dlprobe::probes::deadlock
