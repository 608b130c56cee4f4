#include "probes/facts/starts.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/foreign/python_code.h"
#include "probes/facts/facts.h"
#include "probes/facts/handled.h"

namespace dlprobe {
namespace {

// multiprocessing starts a child by "python -c 'from multiprocessing.spawn import spawn_main; ...'
// --multiprocessing-fork" (spawn.get_command_line), the reference loader by "dlp-worker
// --internal-role worker 7" (tools/reference_loader/launcher.cc).
bool is_spawned_child(const ProcessInfo& process) {
  return std::ranges::any_of(process.cmdline, [](const std::string& word) {
    return word == "--multiprocessing-fork" || word == "--internal-role";
  });
}

// "train.py" and "/data/job/train.py": a program that starts itself often knows its whole path.
bool is_same_word(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.ends_with(a) && (a.size() == b.size() || b[b.size() - a.size() - 1] == '/');
}

bool runs_the_same(const ProcessInfo& parent, const ProcessInfo& child) {
  if (is_spawned_child(child)) return true;
  return !child.cmdline.empty() && std::ranges::equal(parent.cmdline, child.cmdline, is_same_word);
}

// The helpers of multiprocessing are no part of a recursion.
bool counts(const ProcessInfo& process) {
  return process.role != Role::kResourceTracker && process.role != Role::kForkserver &&
         process.role != Role::kShmManager;
}

}  // namespace

namespace {

Message place_in(std::string_view file, const StartEvent& event) {
  return as_path(file) + (file.empty() || event.line <= 0 ? "" : ":" + own(event.line));
}

}  // namespace

Message whole_place(const StartEvent& event) {
  return place_in(event.file, event);
}

Message short_place(const StartEvent& event) {
  return place_in(base_name(event.file), event);
}

Message place_of(const StartEvent& event) {
  const Message place = short_place(event);
  if (place.empty()) return "";
  if (event.function.empty() || event.function == "<module>") return say(" at {}", place);
  return say(" at {} in {}", place, as_name(event.function));
}

void add_exception(Finding& finding, const StartEvent& event) {
  finding.prove(text_fact("exception", as_text(event.message), kShimSource, event.at));
  if (event.file.empty()) return;
  finding.prove(text_fact("raised_at", whole_place(event), kShimSource, event.at));
  add_source(finding, event.file, event.line, "raised at");
}

namespace {

/// A failure that the parent of its process knew what to do about.
bool is_met(const Run& run, const StartEvent& event) {
  constexpr std::array kFailures = {StartEventKind::kFailed, StartEventKind::kExits,
                                    StartEventKind::kRefused, StartEventKind::kMainNotImported};
  return std::ranges::count(kFailures, event.kind) > 0 && is_handled_child(run, event.process);
}

}  // namespace

std::vector<const StartEvent*> events_of(const Run& run, StartEventKind kind) {
  std::vector<const StartEvent*> events;
  for (const StartEvent& event : run.start_events) {
    if (event.kind == kind && !is_met(run, event)) events.push_back(&event);
  }
  return events;
}

std::vector<const StartEvent*> refusals_of(const Run& run, StartRefusal cause) {
  std::vector<const StartEvent*> events = events_of(run, StartEventKind::kRefused);
  std::erase_if(events, [cause](const StartEvent* event) { return event->cause != cause; });
  return events;
}

Message method_name(std::string_view method) {
  return from_string<StartMethod>(method) ? own(method) : as_name(method);
}

Message method_of(const Run& run) {
  if (run.begin.trial) return own(to_string(run.begin.trial->start_method));
  for (const StartEvent& event : run.start_events) {
    if (!event.method.empty()) return method_name(event.method);
  }
  return "spawn";
}

std::vector<ProcessKey> processes_of(std::span<const StartEvent* const> events) {
  std::set<ProcessKey> keys;
  for (const StartEvent* event : events)
    keys.insert(event->process);
  return {keys.begin(), keys.end()};
}

Descent deepest_descent(const Run& run) {
  std::map<int32_t, const ProcessInfo*> by_pid;
  for (const ProcessInfo& process : run.processes)
    by_pid[process.key.pid] = &process;
  Descent deepest;
  for (const ProcessInfo& process : run.processes) {
    if (!counts(process)) continue;
    std::vector<const ProcessInfo*> chain = {&process};
    // A parent that is younger than its child has a pid that was used again.
    for (auto parent = by_pid.find(process.ppid);
         parent != by_pid.end() && chain.size() <= by_pid.size();
         parent = by_pid.find(parent->second->ppid)) {
      const ProcessInfo& above = *parent->second;
      if (above.key.start_ticks > chain.back()->key.start_ticks) break;
      if (!counts(above)) continue;
      if (!runs_the_same(above, *chain.back())) break;
      chain.push_back(&above);
    }
    if (chain.size() > deepest.chain.size()) deepest.chain = std::move(chain);
  }
  std::ranges::reverse(deepest.chain);
  return deepest;
}

namespace {

std::optional<ProcessKey> root_of(const Run& run) {
  if (run.begin.root) return run.begin.root;
  const ProcessInfo* root = nullptr;
  for (const ProcessInfo& process : run.processes) {
    const bool has_parent = std::ranges::any_of(
        run.processes, [&](const ProcessInfo& other) { return other.key.pid == process.ppid; });
    const bool is_older = root == nullptr || process.key.start_ticks < root->key.start_ticks;
    if (!has_parent && is_older) root = &process;
  }
  if (root == nullptr) return std::nullopt;
  return root->key;
}

}  // namespace

const ProcessExit* end_of_command(const Run& run) {
  const auto root = root_of(run);
  return root ? run.find_exit(*root) : nullptr;
}

bool command_failed(const Run& run) {
  if (was_ended_by_dlprobe(run)) return false;
  const ProcessExit* exit = end_of_command(run);
  return exit != nullptr && exit->wait_status && WIFEXITED(*exit->wait_status) &&
         WEXITSTATUS(*exit->wait_status) != 0;
}

namespace {

struct CodePlace {
  std::string_view file;
  std::string_view function;
};

// Of "/usr/lib/python3.11/threading.py:971 start", where the exception was raised.
CodePlace innermost_of(const StartEvent& event) {
  const std::string_view text = event.raised_in;
  const size_t colon = text.rfind(':');
  const size_t space = text.rfind(' ');
  if (colon == std::string::npos || space == std::string::npos || space < colon) return {};
  return {.file = text.substr(0, colon), .function = text.substr(space + 1)};
}

// The function of torch.distributed in which it was raised.
std::string collective_at(const StartEvent& event) {
  const auto [file, function] = innermost_of(event);
  if (!is_of_torch(file)) return "";
  if (file.ends_with("torch/autograd/graph.py")) return "backward";
  if (file.ends_with("torch/distributed/rendezvous.py")) return "init_process_group";
  if (file.contains("torch/distributed/elastic/rendezvous/")) return "next_rendezvous";
  return file.ends_with("torch/distributed/distributed_c10d.py") ? std::string(function) : "";
}

}  // namespace

std::string collective_of(const StartEvent& event) {
  std::string operation = collective_at(event);
  // A key of the store that no rank has set (torch 2.13; in 1.13 it is a RuntimeError).
  if (operation.empty() && event.type == "torch.distributed.DistStoreError") operation = "TCPStore";
  return operation;
}

bool is_of_timeout(const StartEvent& event) {
  const auto [file, function] = innermost_of(event);
  // The other exceptions of a loader are raised in _try_get_data.
  if (is_of_torch(file) && file.ends_with("torch/utils/data/dataloader.py"))
    return function == "_get_data";
  const bool says_so = event.type.ends_with("TimeoutError") || event.type.ends_with("Empty");
  return says_so &&
         (is_of_multiprocessing(file, "queues.py") || is_of_multiprocessing(file, "pool.py") ||
          is_of_standard_library(file, "concurrent/futures/_base.py"));
}

const StartEvent* first_to_give_up(const Run& run, BootNs from) {
  if (!command_failed(run)) return nullptr;
  const auto is_it = [&](const StartEvent& event) {
    return event.kind == StartEventKind::kFailed && event.at >= from &&
           (!collective_of(event).empty() || is_of_timeout(event));
  };
  const auto found = std::ranges::find_if(run.start_events, is_it);
  return found == run.start_events.end() ? nullptr : &*found;
}

std::optional<BootNs> gave_up_at(const Run& run, BootNs from) {
  const StartEvent* event = first_to_give_up(run, from);
  return event == nullptr ? std::nullopt : std::optional(event->at);
}

bool had_rank_given_up(const Run& run, BootNs at) {
  return command_failed(run) && std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
           return event.kind == StartEventKind::kFailed && event.ended == Ended::kProcess &&
                  event.at <= at && !collective_of(event).empty() && !is_met(run, event);
         });
}

const ProcessExit* aborted_rank(const Run& run, BootNs from) {
  if (!command_failed(run)) return nullptr;
  const auto found = std::ranges::find_if(run.exits, [&](const ProcessExit& exit) {
    if (exit.at < from || !exit.wait_status || !WIFSIGNALED(*exit.wait_status)) return false;
    const ProcessInfo* process = run.find_process(exit.key);
    return WTERMSIG(*exit.wait_status) == SIGABRT && process != nullptr &&
           process->role == Role::kTrainer && process->rank_of_several() != nullptr;
  });
  return found == run.exits.end() ? nullptr : &*found;
}

bool ends_badly(const Run& run) {
  const ProcessExit* exit = end_of_command(run);
  if (exit == nullptr || !exit->wait_status) return run.end.has_value();
  return *exit->wait_status != 0;
}

namespace {

bool ended_its_process(const Run& run, const StartEvent& event) {
  if (event.ended != Ended::kProcess && event.ended != Ended::kInitializer) return false;
  const ProcessExit* exit = run.find_exit(event.process);
  return exit != nullptr && exit->wait_status && *exit->wait_status != 0;
}

bool is_of_launcher(const Run& run, const StartEvent& event) {
  const ProcessInfo* process = run.find_process(event.process);
  return process != nullptr && process->role == Role::kLauncher;
}

/// Of several programs of one command the first that failed: what others then say is of that.
Ending last_exception(const Run& run, const std::vector<const StartEvent*>& failures) {
  std::vector<const StartEvent*> ends;
  std::ranges::copy_if(failures, std::back_inserter(ends), [&](const StartEvent* event) {
    return event->ended == Ended::kProcess && ended_its_process(run, *event);
  });
  const auto root = root_of(run);
  const auto own = std::ranges::find_if(ends, [&](const StartEvent* event) {
    return root == event->process && !is_of_launcher(run, *event);
  });
  if (own != ends.end()) return {.last = *own, .is_certain = true};
  std::vector<const StartEvent*> of_programs;
  std::ranges::remove_copy_if(ends, std::back_inserter(of_programs),
                              [&](const StartEvent* event) { return is_of_launcher(run, *event); });
  if (!of_programs.empty()) {
    // A program that raised nothing, and exits with an error, may have a reason of its own.
    const bool chose_its_code = std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
      return event.kind == StartEventKind::kInterpreter && root == event.process;
    });
    const bool launcher_failed = of_programs.size() < ends.size();
    return {.last = of_programs.front(),
            .is_certain = of_programs.size() == 1 && (launcher_failed || !chose_its_code)};
  }
  if (!ends.empty()) return {.last = ends.front(), .is_certain = true};
  return {.last = failures.back()};
}

/// How well an event explains what was raised again elsewhere; 0: not at all. Who left with code 0
/// may have been done with its work.
int weight_as_first(const StartEvent& event, const StartEvent& last) {
  const bool is_elsewhere = event.process != last.process || event.ended != last.ended;
  if (event.at >= last.at || !is_elsewhere) return 0;
  if (event.kind == StartEventKind::kExits) return event.count != 0 ? 2 : 1;
  // torch hands on an exception of a worker as another one where its class takes more arguments.
  if (event.kind != StartEventKind::kFailed) return 0;
  const bool is_same = event.ended == Ended::kWorker;
  const bool is_lost = event.ended == Ended::kInitializer || event.ended == Ended::kFeeder;
  if (event.type == last.again) return 3;
  if (is_same || is_lost) return 2;
  // Whoever waits in vain waited for a thread of its own, or for another process.
  const bool is_thread = event.ended == Ended::kThread && event.process == last.process;
  return is_thread || (event.ended == Ended::kProcess && event.process != last.process) ? 1 : 0;
}

bool lived_at(const Run& run, const ProcessKey& key, BootNs time) {
  const ProcessExit* exit = run.find_exit(key);
  return exit == nullptr || exit->at >= time;
}

// Of what a child made text of before, and its parent then raised one of its own with.
const StartEvent* told_in_words(const Run& run, const StartEvent& last) {
  const auto found = std::ranges::find_if(run.start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kPutInWords && event.process != last.process &&
           event.at < last.at && event.message.contains(": ") &&
           last.message.size() > event.message.size() && last.message.contains(event.message);
  });
  return found == run.start_events.end() ? nullptr : &*found;
}

/// What `last` was before it was raised again.
void find_first(const Run& run, Ending& ending) {
  const StartEvent& last = *ending.last;
  const StartEvent* words = last.again.empty() ? told_in_words(run, last) : nullptr;
  ending.first = words == nullptr ? &last : words;
  if (words != nullptr) ending.is_certain = false;
  if (last.again.empty()) return;
  int most = 1;
  for (const StartEvent& event : run.start_events) {
    const int weight = weight_as_first(event, last);
    if (weight < most || is_met(run, event)) continue;
    // Of workers that all failed the loader hands on the first; one that has ended since was of an
    // earlier loader.
    const bool both_workers =
        event.ended == Ended::kWorker && ending.first->ended == Ended::kWorker;
    if (weight == most && both_workers && lived_at(run, ending.first->process, last.at)) continue;
    ending.first = &event;
    most = weight;
  }
  if (most == 1 && ending.first != &last) ending.is_certain = false;
}

}  // namespace

const StartEvent& origin_of(const Run& run, const StartEvent& event) {
  Ending ending{.last = &event};
  find_first(run, ending);
  return *ending.first;
}

std::optional<Ending> ending_of(const Run& run) {
  const auto failures = events_of(run, StartEventKind::kFailed);
  if (failures.empty() || !command_failed(run)) return std::nullopt;
  Ending ending = last_exception(run, failures);
  find_first(run, ending);
  return ending;
}

std::vector<const StartEvent*> fatal_exceptions(const Run& run) {
  if (!ends_badly(run)) return {};
  std::vector<const StartEvent*> failures = events_of(run, StartEventKind::kFailed);
  if (const auto ending = ending_of(run)) {
    std::erase_if(failures, [&](const StartEvent* event) {
      return event != ending->first && event != ending->last && !ended_its_process(run, *event);
    });
  }
  return failures;
}

bool lacks_inodes(const StartEvent& event) {
  return event.free_inodes && *event.free_inodes <= 1;
}

size_t allowed_processes(const Run& run) {
  int32_t workers = 0;
  for (const StartEvent& event : run.start_events) {
    if (event.kind == StartEventKind::kLoaderMade)
      workers = std::max(workers, event.workers.value_or(0));
  }
  const int32_t allowed = run.begin.trial ? run.begin.trial->most_processes : 0;
  return static_cast<size_t>(std::max(allowed, 0) + std::max(workers, 0));
}

bool reads_a_stream(const Run& run) {
  return std::ranges::any_of(run.start_events, [](const StartEvent& event) {
    return event.kind == StartEventKind::kLoaderMade && event.wanted == "stream";
  });
}

Remedy share_out_a_stream() {
  return {.title =
              "Give every rank the same number of batches: at least as many shards as there are "
              "ranks times workers, or shards drawn again and again and a length of the epoch",
          .commands = {"WebDataset(urls, resampled=True).with_epoch(batches)",
                       "itertools.islice(loader, batches)  # as many as each rank has"},
          .verify = "dlprobe run -- COMMAND"};
}

Remedy pass_to_processes(const Message& what) {
  return {
      .title = say("Pass {} to the processes (as an argument, an attribute of the dataset, "
                   "initializer= or worker_init_fn=), or define it at module level, above the main "
                   "guard",
                   what),
      .verify = "dlprobe spawn-recursion -- COMMAND"};
}

Crowd largest_crowd(const Run& run) {
  std::vector<std::pair<BootNs, int>> changes;
  changes.reserve(run.processes.size() + run.exits.size());
  for (const ProcessInfo& process : run.processes)
    changes.emplace_back(process.seen_at, 1);
  for (const ProcessExit& exit : run.exits)
    changes.emplace_back(exit.at, -1);
  std::ranges::sort(changes);
  Crowd crowd;
  int living = 0;
  for (const auto& [at, change] : changes) {
    living += change;
    if (std::cmp_less_equal(living, crowd.processes)) continue;
    crowd = {.processes = static_cast<size_t>(living), .at = at};
  }
  return crowd;
}

}  // namespace dlprobe
