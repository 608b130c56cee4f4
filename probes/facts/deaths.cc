#include "probes/facts/deaths.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "lib/base/units.h"
#include "probes/facts/facts.h"

namespace dlprobe {
namespace {

// A process that is killed gives back its memory first, which takes up to seconds.
constexpr BootNs kSlowestDeath = 5 * kSecond;
// The log is read with the next look.
constexpr BootNs kLogDelay = kSecond;
// Counters are read once a second, and within milliseconds of a death.
constexpr BootNs kCounterAge = kSecond;
constexpr BootNs kCounterDelay = 400 * kMillisecond;
constexpr int32_t kFromKernel = 128;  // SI_KERNEL

const SignalSent* first_signal(const Run& run, const Death& death) {
  for (const SignalSent& signal : run.signals) {
    const bool fits = signal.target == death.process->key && signal.signal == death.signal &&
                      signal.at <= death.exit->at && signal.at >= death.exit->at - kSlowestDeath;
    if (fits) return &signal;
  }
  return nullptr;
}

/// CPython 3.6 ends each process of its fork server by code 1, whatever became of its work: its own
/// code goes through a pipe (main in multiprocessing/forkserver.py). The witness tells of failures.
bool is_code_of_server(const Run& run, const ProcessInfo& process, int status) {
  if (process.start_method != StartMethod::kForkserver || WEXITSTATUS(status) != 1) return false;
  const bool is_old = std::ranges::any_of(run.start_events, [](const StartEvent& event) {
    return event.kind == StartEventKind::kInterpreter && event.type.starts_with("3.6.");
  });
  return is_old && std::ranges::none_of(run.start_events, [&](const StartEvent& event) {
           const bool is_end =
               event.kind == StartEventKind::kFailed || event.kind == StartEventKind::kExits;
           return is_end && event.process == process.key;
         });
}

Death death_from(const Run& run, const ProcessInfo& process, const ProcessExit& exit) {
  Death death;
  death.process = &process;
  death.exit = &exit;
  const int status = *exit.wait_status;
  if (WIFSIGNALED(status)) {
    death.signal = WTERMSIG(status);
    death.sent = first_signal(run, death);
  } else {
    death.exit_code = is_code_of_server(run, process, status) ? 0 : WEXITSTATUS(status);
  }
  for (const KernelLogLine& line : run.kernel_log) {
    const bool near = line.at >= exit.at - kSlowestDeath && line.at <= exit.at + kLogDelay;
    if (line.process == process.key && near) death.log.push_back(&line);
  }
  return death;
}

/// Whether `group` is `path` or above it.
bool is_ancestor(std::string_view group, std::string_view path) {
  if (group == "/" || group == path) return true;
  return path.starts_with(group) && path.substr(group.size()).starts_with('/');
}

std::optional<CounterMove> move_of(std::optional<uint64_t> before, std::optional<uint64_t> after) {
  if (!before || !after || *after < *before) return std::nullopt;
  return CounterMove{.before = *before, .after = *after};
}

/// A counter is recorded when it has moved: between two records it stood still.
std::optional<OomMoves> moves_of(const ExitFacts& facts, const Death& death,
                                 std::string_view cgroup) {
  const OomCounters* before = nullptr;
  const OomCounters* after = nullptr;
  for (const OomCounters& counters : facts.run->oom_counters) {
    if (counters.cgroup != cgroup || counters.at > death.exit->at + kCounterDelay) continue;
    if (before == nullptr || counters.at <= death.at() - kCounterAge) before = &counters;
    after = &counters;
  }
  // First read after the death, they say nothing of it.
  if (before == nullptr || before->at > death.at()) return std::nullopt;
  OomMoves moves;
  moves.cgroup = cgroup;
  moves.kills = move_of(before->kills, after->kills).value_or(CounterMove{});
  moves.limit_hits = move_of(before->limit_hits, after->limit_hits);
  moves.limit_meets = move_of(before->limit_meets, after->limit_meets);
  moves.group_kills = move_of(before->group_kills, after->group_kills);
  moves.limit_bytes = after->limit_bytes;
  return moves;
}

}  // namespace

ExitFacts exit_facts(const RecordingHeader& header, const Run& run) {
  ExitFacts facts;
  facts.header = &header;
  facts.run = &run;
  facts.ending = ending_of(run);
  const auto asked_to_end = when_dlprobe_ended_it(run);
  for (const ProcessExit& exit : run.exits) {
    if (asked_to_end && exit.at >= *asked_to_end) continue;
    const ProcessInfo* process = run.find_process(exit.key);
    if (process != nullptr && exit.wait_status && death_of(facts, exit.key) == nullptr) {
      facts.deaths.push_back(death_from(run, *process, exit));
    }
  }
  std::ranges::stable_sort(facts.deaths, {}, &Death::at);
  for (const Event& event : run.events) {
    if (event.kind == "signals-not-traced") {
      facts.signals_traced = false;
      facts.why_signals_hidden = event.text;
    }
  }
  return facts;
}

const ProcessInfo* trainer_of(const Run& run, const ProcessInfo& worker) {
  const ProcessInfo* only = nullptr;
  size_t trainers = 0;
  for (const ProcessInfo& process : run.processes) {
    if (process.role != Role::kTrainer) continue;
    if (process.key.pid == worker.ppid) return &process;
    only = &process;
    ++trainers;
  }
  return trainers == 1 ? only : nullptr;
}

const ProcessInfo* trainer_of(const ExitFacts& facts, const ProcessInfo& worker) {
  return trainer_of(*facts.run, worker);
}

const Death* death_of(const ExitFacts& facts, const ProcessKey& key) {
  const auto found = std::ranges::find_if(
      facts.deaths, [&](const Death& death) { return death.process->key == key; });
  return found == facts.deaths.end() ? nullptr : &*found;
}

bool lives_at(const ExitFacts& facts, const ProcessInfo& process, BootNs at) {
  const ProcessExit* exit = facts.run->find_exit(process.key);
  return process.seen_at <= at && (exit == nullptr || exit->at > at);
}

const ProcessInfo* sender_in_tree(const ExitFacts& facts, const SignalSent& signal) {
  if (signal.sender) return facts.run->find_process(*signal.sender);
  // One that was found only after it had sent it.
  for (const ProcessInfo& process : facts.run->processes) {
    const ProcessExit* exit = facts.run->find_exit(process.key);
    const bool lived =
        process.seen_at <= signal.at + kSecond && (exit == nullptr || exit->at >= signal.at);
    if (process.key.pid == signal.sender_pid && lived) return &process;
  }
  return nullptr;
}

bool is_from_kernel(const SignalSent& signal) {
  return signal.code > 0;
}

bool is_own_fault(const SignalSent& signal) {
  return signal.code > 0 && signal.code != kFromKernel;
}

OwnWords signal_name(int signal) {
  // glibc 2.32
  if (const char* name = ::sigabbrev_np(signal)) return "SIG" + own(name);
  return "signal " + own(signal);
}

bool has_handlers_of_torch(const ProcessInfo& process) {
  constexpr std::array kSignals = {SIGBUS, SIGSEGV, SIGFPE, SIGTERM};
  return std::ranges::all_of(kSignals,
                             [&](int signal) { return process.catches(signal).value_or(false); });
}

bool has_data_loader(const Run& run) {
  return run.begin.subject == SubjectKind::kReferenceLoader ||
         std::ranges::count(run.start_events, StartEventKind::kLoaderMade, &StartEvent::kind) > 0 ||
         std::ranges::any_of(run.processes, [](const ProcessInfo& process) {
           return process.role == Role::kWorker && has_handlers_of_torch(process);
         });
}

Message describe_sender(const ExitFacts& facts, const SignalSent& signal) {
  if (const ProcessInfo* sender = sender_in_tree(facts, signal)) {
    if (sender->key == signal.target) return "itself";
    const bool is_known_by_role = sender->role == Role::kTrainer || sender->role == Role::kWorker;
    if (is_known_by_role || signal.sender_comm.empty()) return describe(*facts.run, sender->key);
    const auto script = std::ranges::find_if(
        sender->cmdline, [](const std::string& word) { return word.ends_with(".py"); });
    const Message name =
        script == sender->cmdline.end() ? as_name(signal.sender_comm) : as_path(*script);
    return describe(*facts.run, sender->key) + " (" + name + ")";
  }
  if (signal.sender_pid == 0) return "a process outside dlprobe's pid namespace";
  const OwnWords text = "process " + own(signal.sender_pid);
  const Message name =
      signal.sender_command.empty() ? as_name(signal.sender_comm) : as_text(signal.sender_command);
  return name.empty() ? text + ", which ended before dlprobe could read its name"
                      : text + " (" + name + ")";
}

std::optional<OomMoves> host_oom_moves(const ExitFacts& facts, const Death& death) {
  return moves_of(facts, death, "");
}

std::vector<OomMoves> cgroup_oom_moves(const ExitFacts& facts, const Death& death) {
  std::vector<OomMoves> all;
  if (!death.process->cgroup) return all;
  std::vector<std::string> groups;
  for (const OomCounters& counters : facts.run->oom_counters) {
    const bool above =
        !counters.cgroup.empty() && is_ancestor(counters.cgroup, *death.process->cgroup);
    if (above && std::ranges::count(groups, counters.cgroup) == 0)
      groups.push_back(counters.cgroup);
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, &std::string::size);
  for (const std::string& group : groups) {
    if (auto moves = moves_of(facts, death, group)) all.push_back(std::move(*moves));
  }
  return all;
}

const Sample* last_sample_before(const ExitFacts& facts, BootNs at) {
  const auto after = std::ranges::upper_bound(facts.run->samples, at, {}, &Sample::at);
  return after == facts.run->samples.begin() ? nullptr : &*std::prev(after);
}

const ProcessSample* last_memory_of(const ExitFacts& facts, const Death& death) {
  const auto after = std::ranges::upper_bound(facts.run->samples, death.at(), {}, &Sample::at);
  for (auto sample = std::make_reverse_iterator(after); sample != facts.run->samples.rend();
       ++sample) {
    for (const ProcessSample& process : sample->processes) {
      const bool has_memory =
          process.key == death.process->key && process.rss_bytes && *process.rss_bytes > 0;
      if (has_memory) return &process;
    }
  }
  return nullptr;
}

}  // namespace dlprobe
