// What interpreters tell of the processes that they start, and why that fails.

#include "probes/spawn/rules.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <iterator>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::spawn {
namespace {

using Events = std::vector<const StartEvent*>;

// Work of the main module's own, beside its imports, that is worth a word in each worker.
constexpr double kHeavySeconds = 1.0;
constexpr uint64_t kHeavyBytes = uint64_t{256} << 20U;

Finding start_finding(FindingCode code, const Events& events) {
  Finding finding = new_finding(code, Confidence::kCertain);
  finding.processes = processes_of(events);
  finding.first_seen = events.front()->at;
  finding.last_seen = events.back()->at;
  finding.discriminator = std::string(to_string(events.front()->cause));
  return finding;
}

void add_place(Finding& finding, const StartEvent& event, std::string_view name) {
  if (event.file.empty()) return;
  finding.prove(text_fact(name, whole_place(event), kShimSource, event.at));
  std::string what(name);
  std::ranges::replace(what, '_', ' ');
  add_source(finding, event.file, event.line, own(what));
}

void add_message(Finding& finding, const StartEvent& event) {
  if (event.message.empty()) return;
  finding.prove(text_fact("exception", as_text(event.message), kShimSource, event.at));
}

Message place_or(const StartEvent& event, const char* otherwise) {
  const Message place = short_place(event);
  return place.empty() ? otherwise : place;
}

// The start method that the event names, else the run's.
Message under(const Run& run, const StartEvent& event) {
  return event.method.empty() ? method_of(run) : method_name(event.method);
}

bool makes_loaders(const Run& run) {
  return !events_of(run, StartEventKind::kLoaderMade).empty();
}

// The line that asks for a start method, in a program of this kind.
Message line_for(const Run& run, std::string_view method) {
  return makes_loaders(run)
             ? say("DataLoader(..., multiprocessing_context=\"{}\")", method_name(method))
             : say("multiprocessing.get_context(\"{}\").Process(...)", method_name(method));
}

// Not where the script must run elsewhere (Windows, macOS), and not beside threads or CUDA.
void add_fork_remedy(const Run& run, Finding& finding, const char* what) {
  finding.remedies.push_back({.title = OwnWords("Or use fork, which needs no ") + what,
                              .commands = {line_for(run, "fork")},
                              .verify = "dlprobe run --start-method fork -- COMMAND",
                              .settings = {{SettingKind::kStartMethod, "", "fork"}}});
}

std::optional<Finding> missing_guard(const Run& run) {
  const Events refused = refusals_of(run, StartRefusal::kBootstrapping);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  Finding finding = start_finding(FindingCode::kMissingMainGuard, refused);
  const Message place = place_or(first, "the main module");
  const bool sets_method = !first.wanted.empty();
  finding.message =
      say("{} {} while its module is imported: under {} each worker re-imports the module and runs "
          "this line again",
          place, sets_method ? "sets the start method" : "starts a process", under(run, first));
  add_place(finding, first, "statement");
  finding.prove(
      count_fact("children_that_came_to_it", finding.processes.size(), kShimSource, first.at));
  finding.prove(text_fact("refused_by",
                          sets_method
                              ? "multiprocessing.context.set_start_method (RuntimeError)"
                              : "multiprocessing.spawn._check_not_importing_main (RuntimeError)",
                          kShimSource, first.at));
  finding.rule_out("DLP0407", "the child imported the main module, up to that line");
  const char* guard = "if __name__ == \"__main__\":";
  finding.advise(first.is_main
                     ? say("Put {} and the code that needs it under the main guard: "
                           "workers do not run that",
                           place)
                     : say("Move {} into a function, and call it under the program's main "
                           "guard: an import must not start processes",
                           place),
                 {guard, "    main()"}, "dlprobe spawn-recursion -- COMMAND");
  add_fork_remedy(run, finding, "guard");
  return finding;
}

Message what_is_unpicklable(const StartEvent& event) {
  if (event.path.empty()) return "an object sent to the process";
  Message text = as_name(event.path);
  if (!event.type.empty()) text += " (" + as_name(event.type);
  const Message place = short_place(event);
  const bool has_place = !event.type.empty() && !place.empty();
  if (has_place) text += " at " + place;
  return event.type.empty() ? text : text + ")";
}

// It was on its way back.
bool is_of_worker(const Run& run, const StartEvent& event) {
  const ProcessInfo* process = run.find_process(event.process);
  return event.method.empty() && process != nullptr && process->role == Role::kWorker;
}

void add_pickle_remedies(const Run& run, const StartEvent& event, Finding& finding) {
  const auto remedy = [&](Message title, std::vector<Message> lines) {
    finding.advise(std::move(title), std::move(lines), "dlprobe spawn-recursion -- COMMAND");
  };
  const bool is_function =
      event.type == "lambda" || event.type == "local function" || event.type == "function";
  if (is_function) {
    remedy(
        "Define it with def at module level; functools.partial carries its "
        "arguments",
        {});
  } else if (event.type.contains("local class")) {
    remedy("Define the class at module level: workers look it up by name", {});
  } else if (is_of_worker(run, event)) {
    remedy("Return plain data from the worker: what the object holds, not the object itself",
           {"return dict(row)  # of a row of a database; tuple(row), list(generator)",
            "return file.read()  # of a file or a response"});
  } else {
    remedy("Create it in the worker: on first use, or in worker_init_fn", {});
    remedy("Or do not pickle it",
           {"def __getstate__(self):", "    return {**self.__dict__, \"NAME\": None}"});
  }
}

// A lock of multiprocessing, or what is made of one, in a task or a queue.
std::optional<Finding> only_inherited(const Run& run, const StartEvent& refused) {
  if (refused.wanted != "inheritance") return std::nullopt;
  Finding finding = start_finding(FindingCode::kUnpicklableObject, {&refused});
  finding.discriminator += "-inheritance";
  finding.message =
      say("{} puts a {} of multiprocessing into a task or a queue, and {} can only "
          "give it to a process that it starts",
          place_or(refused, "the program"), as_name(refused.type), describe(run, refused.process));
  add_place(finding, refused, "statement");
  add_message(finding, refused);
  finding.prove(text_fact("type", as_name(refused.type), kShimSource, refused.at));
  finding.advise("Give it to the processes when they start, or take that of a Manager",
                 {"Pool(..., initializer=init, initargs=(shared,))  # init keeps it in a global",
                  "multiprocessing.Manager().Lock()  # Value, Queue likewise: slower"},
                 "dlprobe spawn-recursion -- COMMAND");
  return finding;
}

std::optional<Finding> unpicklable(const Run& run) {
  const Events refused = refusals_of(run, StartRefusal::kUnpicklable);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  if (auto finding = only_inherited(run, first)) return finding;
  Finding finding = start_finding(FindingCode::kUnpicklableObject, refused);
  finding.discriminator += "-" + first.type;
  // What goes through a queue is pickled under any start method; no start is told for it.
  const bool is_sent_later = first.method.empty();
  const Message what = what_is_unpicklable(first);
  if (is_of_worker(run, first)) {
    finding.message =
        say("{} cannot be pickled, so {} cannot send it back", what, describe(run, first.process));
  } else if (is_sent_later) {
    finding.message =
        say("{} cannot be pickled, so it cannot go to the processes of a pool or queue", what);
  } else {
    finding.message = say("{} cannot be pickled, and {} sends it to each process it starts", what,
                          under(run, first));
  }
  if (!first.path.empty())
    finding.prove(text_fact("path", as_name(first.path), kShimSource, first.at));
  if (!first.type.empty())
    finding.prove(text_fact("type", as_name(first.type), kShimSource, first.at));
  add_place(finding, first, "defined_at");
  add_message(finding, first);
  finding.rule_out("DLP0407",
                   "pickling failed in the process that starts the worker; the worker was not "
                   "reached");
  add_pickle_remedies(run, first, finding);
  if (!is_sent_later) add_fork_remedy(run, finding, "pickling");
  return finding;
}

bool is_lock_of_fork(const StartEvent* event) {
  return event->wanted == "fork";
}

// Of the processes that it started by another method those that died of an address that is none.
std::vector<ProcessKey> crashed_children(const Run& run, const StartEvent& sent) {
  std::vector<ProcessKey> crashed;
  for (const ProcessExit& exit : run.exits) {
    const ProcessInfo* child = run.find_process(exit.key);
    const int32_t status = exit.wait_status.value_or(0);
    if (child == nullptr || !WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV) continue;
    const ProcessInfo* trainer = trainer_of(run, *child);
    const bool is_of_it =
        child->ppid == sent.process.pid || (trainer != nullptr && trainer->key == sent.process);
    const bool starts_anew = child->start_method.value_or(StartMethod::kFork) != StartMethod::kFork;
    if (is_of_it && starts_anew) crashed.push_back(exit.key);
  }
  return crashed;
}

// A lock that has no name by which another process could open it. Some interpreters say so, others
// send its address, and that who uses it crashes is the proof.
std::optional<Finding> lock_of_fork(const Run& run) {
  Events sent = refusals_of(run, StartRefusal::kNotRebuilt);
  std::erase_if(sent, std::not_fn(is_lock_of_fork));
  if (sent.empty()) return std::nullopt;
  const StartEvent& first = *sent.front();
  const std::vector<ProcessKey> crashed = crashed_children(run, first);
  if (first.message.empty() && crashed.empty()) return std::nullopt;
  Finding finding = start_finding(FindingCode::kUnpicklableObject, {&first});
  finding.discriminator += "-fork";
  const Message what = first.path.empty() ? Message("a lock") : as_name(first.path);
  finding.message =
      say("{} ({}) was made for fork, and {} sends it to a process of {}, which cannot "
          "have its lock",
          what, as_name(first.type), place_or(first, "the program"), method_name(first.method));
  if (!crashed.empty())
    finding.message += say("; {} crashed when it was used", describe_some(run, crashed));
  std::ranges::copy(crashed, std::back_inserter(finding.processes));
  add_place(finding, first, "statement");
  add_message(finding, first);
  finding.prove(text_fact("type", as_name(first.type), kShimSource, first.at));
  if (!first.path.empty())
    finding.prove(text_fact("path", as_name(first.path), kShimSource, first.at));
  finding.advise("Make it with the context that starts the processes which use it",
                 {say("context = multiprocessing.get_context(\"{}\")", method_name(first.method)),
                  "shared = context.Lock()  # Value, Queue, Event likewise; then "
                  "context.Process(...)"},
                 "dlprobe spawn-recursion -- COMMAND");
  return finding;
}

// A class whose instances pickle, and cannot be made again from that: an exception with two
// arguments, of which its base was given one.
std::optional<Finding> not_rebuilt(const Run& run) {
  Events refused = refusals_of(run, StartRefusal::kNotRebuilt);
  std::erase_if(refused, is_lock_of_fork);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  Finding finding = start_finding(FindingCode::kUnpicklableObject, refused);
  finding.message = say("{} cannot unpickle what it received: {}", describe(run, first.process),
                        as_text(first.message));
  add_message(finding, first);
  finding.rule_out("DLP0407", "its class was found; creating an instance failed");
  finding.advise(
      "Make the class picklable: an exception passes all its arguments to its base; "
      "other classes define __reduce__, or defaults in __init__",
      {"def __reduce__(self):", "    return (type(self), (self.first, self.second))"},
      "python -c 'import pickle; pickle.loads(pickle.dumps(THING))'");
  return finding;
}

std::optional<Finding> daemonic(const Run& run) {
  const Events refused = refusals_of(run, StartRefusal::kDaemonic);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  Finding finding = start_finding(FindingCode::kDaemonicProcessHasChildren, refused);
  const bool is_elsewhere = first.wanted == "elsewhere";
  finding.message =
      say("{} starts a process inside {}, which is daemonic, like all workers of a Pool or "
          "DataLoader, and must not have children",
          place_or(first, "the program"),
          is_elsewhere ? "another process" : describe(run, first.process));
  add_place(finding, first, "statement");
  add_message(finding, first);
  finding.remedies.push_back(
      {.title =
           "Use num_workers=0 in the inner process, or concurrent.futures.ProcessPoolExecutor, "
           "whose workers are not daemonic (Python 3.9+)",
       .commands = {"DataLoader(..., num_workers=0)"},
       .verify = "dlprobe spawn-recursion -- COMMAND",
       .settings = {{SettingKind::kNumWorkers, "", "0"}}});
  return finding;
}

std::optional<Finding> context_set(const Run& run) {
  const Events refused = refusals_of(run, StartRefusal::kContextSet);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  Finding finding = start_finding(FindingCode::kStartMethodAlreadySet, refused);
  finding.message =
      say("{} sets the start method to {}, but it was already set to {}{}",
          place_or(first, "the program"), method_name(first.wanted), method_name(first.method),
          first.path.empty() ? "" : " (at " + as_path(first.path) + ")");
  add_place(finding, first, "second_time");
  if (!first.path.empty())
    finding.prove(text_fact("first_time", as_path(first.path), kShimSource, first.at));
  finding.prove(text_fact("start_method", method_name(first.method), kShimSource, first.at));
  finding.advise("Pass a context to what starts the processes; do not set the default",
                 {line_for(run, first.wanted)}, "dlprobe spawn-recursion -- COMMAND");
  finding.advise(
      "Or set it once, as the first line under the main guard, before anything that a library "
      "starts",
      {say("multiprocessing.set_start_method(\"{}\")", method_name(first.wanted))});
  return finding;
}

std::optional<Finding> cuda_after_fork(const Run& run) {
  const Events refused = refusals_of(run, StartRefusal::kCudaAfterFork);
  if (refused.empty()) return std::nullopt;
  const StartEvent& first = *refused.front();
  Finding finding = start_finding(FindingCode::kCudaInForkedChild, refused);
  finding.message = say("{} uses CUDA in {}, which was forked after its parent initialised CUDA",
                        place_or(first, "the program"), describe(run, first.process));
  add_place(finding, first, "statement");
  finding.prove(text_fact("torch.cuda._is_in_bad_fork", "True", kShimSource, first.at));
  finding.remedies.push_back({.title = "Start workers by spawn or forkserver",
                              .commands = {"DataLoader(..., multiprocessing_context=\"spawn\")"},
                              .verify = "dlprobe run --start-method spawn -- COMMAND",
                              .settings = {{SettingKind::kStartMethod, "", "spawn"}}});
  finding.advise("Or move batches to the GPU in the training loop, not in the dataset");
  return finding;
}

// A child's import of its main module, where the child did not come to a start of its own.
Events failed_imports(const Run& run) {
  Events failed = events_of(run, StartEventKind::kMainNotImported);
  const Events guarded = refusals_of(run, StartRefusal::kBootstrapping);
  std::erase_if(failed, [&](const StartEvent* event) {
    return std::ranges::any_of(
        guarded, [&](const StartEvent* other) { return other->process == event->process; });
  });
  return failed;
}

// What failed runs at module level, in the main module or in one that it imports.
void add_place_of_import(Finding& finding, const StartEvent& event) {
  finding.message += say(" at {}", as_text(base_name(event.called_at)));
  finding.prove(text_fact("raised_at", as_text(event.called_at), kShimSource, event.at));
  finding.advise(
      "What stands at module level there runs again in each worker: put it into a "
      "function, or call it under the main guard",
      {"if __name__ == \"__main__\":"}, "dlprobe spawn-recursion -- COMMAND");
}

// A forked process finds what its parent had by then.
bool is_defined_later(const Run& run, const StartEvent& refused) {
  const ProcessInfo* process = run.find_process(refused.process);
  return process != nullptr && process->start_method == StartMethod::kFork;
}

Remedy start_later(const Run& run, const StartEvent& refused) {
  Message place;
  for (const StartEvent* started : events_of(run, StartEventKind::kStarted))
    if (started->child_pid == refused.process.pid && place.empty()) place = place_of(*started);
  return {.title = say("Start the workers after it is defined: they are copies of their parent as "
                       "it was when they were started{}",
                       place),
          .commands = {"pool = multiprocessing.Pool(...)  # below the last definition"},
          .verify = "dlprobe spawn-recursion -- COMMAND"};
}

Remedy define_in_module(bool has_main) {
  return {.title = has_main
                       ? "Define it at module level, outside the main guard, or in its own module"
                       : "Put what workers need into a module file, and import it: workers cannot "
                         "see what was typed at a prompt, in a notebook or on standard input",
          .commands = {"from my_dataset import MyDataset"},
          .verify = "dlprobe spawn-recursion -- COMMAND"};
}

std::optional<Finding> not_importable(const Run& run) {
  Events events = failed_imports(run);
  const bool is_import = !events.empty();
  if (!is_import) events = refusals_of(run, StartRefusal::kNotFoundThere);
  if (events.empty()) return std::nullopt;
  const StartEvent& first = *events.front();
  Finding finding = start_finding(FindingCode::kMainNotImportable, events);
  finding.discriminator = is_import ? "import" : "lookup";
  if (is_import) {
    finding.message =
        say("{} could not import the main module {}: {}", describe(run, first.process),
            as_path(first.file), as_text(first.message));
  } else {
    finding.message = say("{} cannot find what it was sent: {}", describe(run, first.process),
                          as_text(first.message));
  }
  add_message(finding, first);
  if (is_import) finding.prove(text_fact("main_module", as_path(first.file), kShimSource));
  finding.rule_out("DLP0402", "pickling worked; the worker lacks its definition");
  const bool has_main = !is_import && !first.file.empty();
  if (has_main) finding.prove(text_fact("main_module", as_path(first.file), kShimSource, first.at));
  if (!first.called_at.empty())
    add_place_of_import(finding, first);
  else
    finding.remedies.push_back(is_defined_later(run, first) ? start_later(run, first)
                                                            : define_in_module(has_main));
  add_fork_remedy(run, finding, "import");
  return finding;
}

std::optional<Finding> reimported(const Run& run) {
  Events heavy = events_of(run, StartEventKind::kMainImported);
  std::erase_if(heavy, [](const StartEvent* event) {
    return event->seconds.value_or(0) < kHeavySeconds && event->bytes.value_or(0) < kHeavyBytes;
  });
  if (heavy.empty()) return std::nullopt;
  const auto most = [&](auto value) { return *std::ranges::max_element(heavy, {}, value); };
  const double seconds =
      most([](const StartEvent* e) { return e->seconds.value_or(0); })->seconds.value_or(0);
  const uint64_t bytes =
      most([](const StartEvent* e) { return e->bytes.value_or(0); })->bytes.value_or(0);
  Finding finding = start_finding(FindingCode::kMainModuleReimported, heavy);
  finding.discriminator = "main";
  finding.message = say("{} ran the main module's work again at {} start: {} s and {} each",
                        counted(finding.processes.size(), "process"),
                        finding.processes.size() == 1 ? "its" : "their",
                        own(fmt::format("{:.1f}", seconds)), format_bytes(bytes));
  finding.prove(held_against(number_fact("own_work", seconds, "s", kShimSource, heavy.front()->at),
                             ">= 1 s, its imports left out"));
  finding.prove(
      held_against(bytes_fact("own_memory", bytes, kShimSource, heavy.front()->at), ">= 256 MiB"));
  finding.prove(
      text_fact("main_module", as_path(heavy.front()->file), kShimSource, heavy.front()->at));
  finding.advise(
      "Put the loading of data and models under the main guard; "
      "pass workers what they need as arguments of the dataset",
      {"if __name__ == \"__main__\":", "    main()"}, "dlprobe spawn-recursion -- COMMAND");
  if (makes_loaders(run)) {
    finding.advise("Pay for it once, not every epoch",
                   {"DataLoader(..., persistent_workers=True)"});
  }
  return finding;
}

// It began to initialise MPI in a child of a process that has done so, and ended before it was
// done.
std::optional<Finding> mpi_in_child(const Run& run) {
  const Events ready = events_of(run, StartEventKind::kMpiReady);
  Events stopped = events_of(run, StartEventKind::kMpiBegins);
  std::erase_if(stopped, [&](const StartEvent* event) {
    const bool done = std::ranges::any_of(
        ready, [&](const StartEvent* other) { return other->process == event->process; });
    const ProcessExit* exit = run.find_exit(event->process);
    return done || exit == nullptr || (exit->wait_status && *exit->wait_status == 0);
  });
  if (stopped.empty() || ready.empty()) return std::nullopt;
  const StartEvent& first = *stopped.front();
  Finding finding = start_finding(FindingCode::kMpiInSpawnedWorker, stopped);
  finding.discriminator = "mpi4py";
  finding.message =
      say("{} imported mpi4py, which initialises MPI a second time after its parent, and ended "
          "there",
          describe(run, first.process));
  add_place(finding, first, "statement");
  finding.prove(text_fact("initialised_by", describe(run, ready.front()->process), kShimSource,
                          ready.front()->at));
  finding.advise("Import mpi4py under the main guard: workers then skip it",
                 {"if __name__ == \"__main__\":", "    from mpi4py import MPI"},
                 "dlprobe spawn-recursion -- COMMAND");
  return finding;
}

// What a child dies of as a rule: it did not do its work, whatever became of its parent.
bool is_of_child(const Finding& finding) {
  return finding.code == FindingCode::kMissingMainGuard ||
         finding.code == FindingCode::kMainNotImportable ||
         finding.code == FindingCode::kMpiInSpawnedWorker;
}

bool has_failed(const ProcessExit& exit) {
  const int32_t status = exit.wait_status.value_or(0);
  return WIFEXITED(status) && WEXITSTATUS(status) != 0;
}

// Whether the processes of which it tells lived on, whatever their parent makes of it. A pool ends
// its workers by SIGTERM.
bool was_survived(const Run& run, const Finding& finding) {
  return std::ranges::all_of(finding.processes, [&](const ProcessKey& key) {
    const ProcessExit* exit = run.find_exit(key);
    // What became of a child that nobody saw end is not known.
    if (exit == nullptr || !exit->wait_status) return !is_of_child(finding);
    return !has_failed(*exit);
  });
}

// A start that was refused, and a program that went on and ended well: it knew what to do.
void lower_where_survived(const Run& run, std::vector<Finding>& findings) {
  const ProcessExit* exit = end_of_command(run);
  const bool ended_well = exit != nullptr && exit->wait_status && *exit->wait_status == 0 &&
                          run.end && run.end->text.empty();
  // A program that still runs may know what to do; a child that failed is gone.
  const bool goes_on = !run.end && !run.begin.trial;
  if (!ended_well && !goes_on) return;
  for (Finding& finding : findings) {
    const bool may_be_met = goes_on ? !is_of_child(finding) : was_survived(run, finding);
    if (finding.severity != Severity::kError || !may_be_met) continue;
    finding.severity = Severity::kWarning;
    if (ended_well) finding.message += "; the command went on and ended with exit code 0";
  }
}

// The same events, from a program that tells of itself.
void name_loader_as_source(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (Evidence& fact : finding.evidence) {
      if (fact.source == kShimSource) fact.source = kLoaderSource;
      if (fact.name == "refused_by")
        fact.value = "the reference loader, as multiprocessing.spawn._check_not_importing_main";
    }
  }
}

}  // namespace

std::vector<Finding> findings_of_starts(const Run& run) {
  std::vector<Finding> findings;
  add(findings, missing_guard(run));
  add(findings, mpi_in_child(run));
  add(findings, unpicklable(run));
  add(findings, lock_of_fork(run));
  add(findings, not_rebuilt(run));
  add(findings, context_set(run));
  add(findings, daemonic(run));
  add(findings, cuda_after_fork(run));
  add(findings, not_importable(run));
  add(findings, reimported(run));
  lower_where_survived(run, findings);
  if (run.begin.subject == SubjectKind::kReferenceLoader) name_loader_as_source(findings);
  return findings;
}

std::optional<Finding> recursion_of(const Run& run) {
  const auto event = std::ranges::find_if(run.events, [](const Event& each) {
    return each.kind == kTooManyProcesses || each.kind == kTooDeep;
  });
  if (event == run.events.end()) return std::nullopt;
  const Descent descent = deepest_descent(run);
  const bool is_deep = event->kind == kTooDeep;
  // Many beside one another are no recursion.
  if (!is_deep && descent.chain.size() < 3) return std::nullopt;
  const Crowd crowd = largest_crowd(run);
  // A recursion that would have come to its end looks the same up to here.
  Finding finding = new_finding(FindingCode::kRecursiveProcessCreation, Confidence::kLikely);
  finding.first_seen = finding.last_seen = event->at;
  finding.message =
      say("{} generations of the same process, each started by the previous one, {} alive at once; "
          "dlprobe ended them all after {}",
          descent.chain.size(), counted(crowd.processes, "process"),
          format_duration(std::chrono::nanoseconds(event->at - run.begin.at)));
  finding.prove(held_against(
      count_fact("processes", crowd.processes, "/proc/PID/task/TID/children", crowd.at),
      fmt::format("<= {}", allowed_processes(run))));
  finding.prove(held_against(
      count_fact("descents", descent.chain.size() - 1, "parents by /proc/PID/stat", event->at),
      fmt::format("<= {}", run.begin.trial ? run.begin.trial->most_depth : 0)));
  for (const ProcessInfo* process : descent.chain) {
    finding.processes.push_back(process->key);
    finding.prove(text_fact(
        "descent",
        own(process->key.pid) + ": " + as_text(fmt::format("{}", fmt::join(process->cmdline, " "))),
        "/proc/PID/cmdline", process->seen_at));
  }
  finding.advise(
      "Stop the children from starting more: put the start under the main guard, or "
      "check an argument or environment variable first",
      {}, "dlprobe spawn-recursion -- COMMAND");
  finding.remedies.push_back(
      {.title = "If the recursion ends by itself, allow more generations",
       .commands = {"dlprobe spawn-recursion --depth 8 --process-budget 64 -- COMMAND"},
       .applies_to = {"bare-host"}});
  return finding;
}

}  // namespace dlprobe::probes::spawn
