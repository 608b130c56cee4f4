// DLP0514 uncaught-exception, and what a child was told to have ended by.

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/foreign/python_code.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/shared_handles.h"
#include "probes/facts/starts.h"
#include "probes/facts/vain_starts.h"

namespace dlprobe::probes::exits {
namespace {

bool is_raised_by_user(const StartEvent& event) {
  return !event.file.empty() &&
         event.raised_in.starts_with(event.file + ":" + own(event.line) + " ");
}

bool has_left(const StartEvent& event) {
  return event.kind == StartEventKind::kExits;
}

Message where(const StartEvent& event) {
  if (!event.file.empty() || event.raised_in.empty()) return place_of(event);
  // "torch/utils/data/_utils/collate.py:275 collate_tensor_fn" is enough, and fits into a line.
  const auto in_library = path_in_library(event.raised_in);
  return say(" in {}", as_text(in_library.value_or(event.raised_in)));
}

// Launchers and collate functions print whole tables into an exception, CUDA a whole paragraph: as
// many words of its first line as a headline has room for, and the rest of a sentence.
std::string first_line(std::string_view text) {
  constexpr size_t kLong = 160;
  constexpr size_t kLongest = 240;
  const std::string_view line = trim(text.substr(0, text.find('\n')));
  if (line.size() <= kLong) return std::string(line);
  size_t end = std::min(line.find(". ", kLong), line.size());
  if (end > kLongest) end = std::min(line.rfind(' ', kLong), line.size());
  return end == line.size() ? std::string(line) : std::string(line.substr(0, end)) + " ...";
}

// What it was raised from at first (`raise ... from`), or handled where it left, as the witness
// tells it: "KeyError: 'x' at /job/data.py:7 in load", the place only where there is a line of the
// user's own.
std::optional<StartEvent> first_cause_of(const StartEvent& event) {
  constexpr std::string_view kNoCause = "while handling ";
  const auto is_no_cause = [&](const std::string& each) { return each.starts_with(kNoCause); };
  const auto begin = std::next(event.chain.begin(), has_left(event) && !event.chain.empty());
  const auto end = std::find_if(begin, event.chain.end(), is_no_cause);
  if (end == event.chain.begin() || !event.again.empty()) return std::nullopt;
  std::string_view text = *std::prev(end);
  if (is_no_cause(*std::prev(end))) text.remove_prefix(kNoCause.size());
  StartEvent cause{.at = event.at, .message = std::string(text)};
  const size_t place = text.rfind(" at ");
  const size_t in = text.rfind(" in ");
  if (place == std::string_view::npos || in == std::string_view::npos || in < place) return cause;
  const std::string_view where = text.substr(place + 4, in - place - 4);
  const size_t colon = where.rfind(':');
  const auto line = parse_int<int32_t>(where.substr(std::min(where.size(), colon + 1)));
  if (colon == std::string_view::npos || !line) return cause;
  cause.message = text.substr(0, place);
  cause.file = where.substr(0, colon);
  cause.line = *line;
  cause.function = text.substr(in + 4);
  return cause;
}

Message caused_by(const StartEvent& event) {
  const auto cause = first_cause_of(event);
  if (!cause) return "";
  return say("{}{}{}", has_left(event) ? " while it handled " : ", caused by ",
             as_text(first_line(cause->message)), where(*cause));
}

OwnWords exit_code_of_command(const Run& run) {
  const ProcessExit* exit = end_of_command(run);
  return own(exit != nullptr && exit->wait_status ? WEXITSTATUS(*exit->wait_status) : 0);
}

Message message_of(const Run& run, const StartEvent& event, const StartEvent& last) {
  const OwnWords who = describe(run, event.process);
  if (has_left(event)) {
    return say("{} called {}{}{}, and the job ended with {}", who, as_name(event.message),
               where(event), caused_by(event), as_text(first_line(last.message)));
  }
  Message what = as_text(first_line(event.message)) + where(event) + caused_by(event);
  if (const auto reason = reason_of(run, event)) what += reason->clause;
  if (event.kind == StartEventKind::kPutInWords) {
    return say("{} failed: {}; {} was told so and ended with {}{}", who, what,
               describe(run, last.process), as_name(last.type), where(last));
  }
  switch (event.ended) {
    case Ended::kWorker:
      if (&event != &last) return say("{} failed and its trainer with it: {}", who, what);
      // Nobody raised it again: the trainer caught it, or had a reason of its own to fail.
      return event.type == "StopIteration"
                 ? say("the data set raised {} in {}", what, who)
                 : say("{} failed: {}; its trainer exited with code {} without an exception that "
                       "dlprobe saw",
                       who, what, exit_code_of_command(run));
    case Ended::kTask:
      return say("a task in {} failed, and the job with it: {}", who, what);
    case Ended::kThread:
      return event.wanted == "callback"
                 ? say("a callback of a Pool of {} failed, which drops the exception and the "
                       "task's result: {}",
                       who, what)
                 : say("an uncaught exception ended a thread of {}: {}", who, what);
    case Ended::kFeeder:
      return say("an object that {} put into a queue was lost: {}", who, what);
    case Ended::kInitializer:
      return say("the initializer of {} failed: {}", who, what);
    case Ended::kProcess:
    case Ended::kNothing:
      break;
  }
  return say("{} ended with an uncaught exception: {}", who, what);
}

void add_evidence(const Run& run, std::vector<Evidence>& evidence, const StartEvent& event) {
  const bool is_exit = has_left(event);
  evidence.push_back(
      text_fact(is_exit ? "called" : "exception", as_text(event.message), kShimSource, event.at));
  if (!event.file.empty()) {
    evidence.push_back(
        text_fact(is_exit ? "called_at" : "raised_at", whole_place(event), kShimSource, event.at));
  }
  if (!event.raised_in.empty() && !is_raised_by_user(event))
    evidence.push_back(text_fact("raised_in", as_text(event.raised_in), kShimSource, event.at));
  if (!event.shared_file.empty())
    evidence.push_back(text_fact("shared", as_text(event.shared_file), kShimSource, event.at));
  for (const std::string& cause : event.chain)
    evidence.push_back(text_fact("raised_from", as_text(cause), kShimSource, event.at));
  if (auto reason = reason_of(run, event))
    std::ranges::move(reason->evidence, std::back_inserter(evidence));
}

const std::string* script_in(const std::vector<std::string>& command) {
  const auto script =
      std::ranges::find_if(command, [](const std::string& word) { return word.ends_with(".py"); });
  return script == command.end() ? nullptr : &*script;
}

/// How to have it raised in the main thread of the trainer: a debugger stops nowhere else.
struct Move {
  Message words;
  Message command;  ///< empty: it is raised there
};

// Empty: there is no way, or none is known. A rank needs its launcher.
std::optional<Move> move_to_main_thread(const Run& run, const StartEvent& event) {
  constexpr const char* kCall = "; to see it in a debugger, call the function in the main process";
  const ProcessInfo* process = run.find_process(event.process);
  const bool is_worker = process != nullptr && process->role == Role::kWorker;
  const bool is_of_loader = is_worker && has_handlers_of_torch(*process);
  if (event.ended == Ended::kWorker || is_of_loader) {
    return Move{.words = "; with num_workers=0 a debugger stops there",
                .command = "DataLoader(..., num_workers=0)"};
  }
  if (event.ended == Ended::kTask) {
    return Move{
        .words = kCall,
        .command = event.called_at.empty()
                       ? "list(map(function, arguments))  # instead of pool.map"
                       : say("{}  # instead of the call of the pool", as_text(event.called_at))};
  }
  const bool is_rank = process != nullptr && process->rank_of_several() != nullptr;
  if (event.ended != Ended::kProcess || is_rank) return std::nullopt;
  if (!is_worker) return Move{};
  return Move{.words = kCall,
              .command = "target(*args)  # instead of Process(target=..., args=...)"};
}

Remedy what_to_do(const Run& run, const StartEvent& event) {
  if (auto reason = reason_of(run, event)) return std::move(reason->remedy);
  const auto cause = first_cause_of(event);
  const Message place = short_place(cause && cause->line > 0 ? *cause : event);
  const Message where = place.empty() ? "where it is raised" : "at " + place;
  Remedy remedy{.title = say("Fix it {}", where), .verify = "dlprobe run -- COMMAND"};
  const auto move = move_to_main_thread(run, event);
  if (!move) return remedy;
  remedy.title += move->words;
  if (!move->command.plain().empty()) remedy.commands.push_back(move->command);
  remedy.commands.push_back(say("python -m pdb -c continue {}", script_of(run, event.process)));
  return remedy;
}

// What a fork shares makes wrong data: that may be why, and may be locked well.
Message maybe_shared(const StartEvent& event) {
  const Message what = event.shared_file.starts_with('/')
                           ? "the file position of " + as_path(base_name(event.shared_file))
                           : "its connection to " + as_text(event.shared_file);
  return say("; maybe because it shares {} with other workers since fork (DLP0205)", what);
}

Remedy open_in_worker(const StartEvent& event) {
  const bool is_file = event.shared_file.starts_with('/');
  return {.title = say("Open {} in the worker (in __getitem__ or worker_init_fn), not before the "
                       "fork",
                       is_file ? as_path(base_name(event.shared_file)) : "the connection"),
          .commands = {is_file ? "def __getitem__(self, i): self.file = self.file or open(path, "
                                 "'rb')"
                               : "DataLoader(..., worker_init_fn=connect)"},
          .verify = "dlprobe run -- COMMAND"};
}

// A NameError of a spawned process for a name that the main module of the process which it failed
// has.
bool is_missing_in_child(const Run& run, const StartEvent& first, const StartEvent& last) {
  const ProcessInfo* process = run.find_process(first.process);
  const bool starts_anew =
      process != nullptr && process->start_method && *process->start_method != StartMethod::kFork;
  return starts_anew && first.type == "NameError" && last.type == first.type &&
         last.process != first.process && !last.path.empty();
}

FindingCode code_of(const Run& run, const StartEvent& first, const StartEvent& last) {
  if (has_left(first)) return FindingCode::kWorkerExited;
  return is_missing_in_child(run, first, last) ? FindingCode::kStateNotInherited
                                               : FindingCode::kUncaughtException;
}

// It was raised once the user had interrupted the run: launchers raise exceptions of their own
// then.
bool is_of_interrupt(const Run& run, const StartEvent& event) {
  if (!run.end || run.end->reason != RunEndReason::kInterrupted) return false;
  return event.type == "KeyboardInterrupt" ||
         std::ranges::any_of(run.signals, [&](const SignalSent& sent) {
           return sent.signal == SIGINT && sent.at <= event.at;
         });
}

}  // namespace

Message script_of(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  for (size_t steps = 0; process != nullptr && steps < run.processes.size(); ++steps) {
    if (const std::string* script = script_in(process->cmdline)) return as_path(*script);
    const auto parent = std::ranges::find_if(run.processes, [&](const ProcessInfo& each) {
      return each.key.pid == process->ppid && each.key.start_ticks <= process->key.start_ticks;
    });
    process = parent == run.processes.end() ? nullptr : &*parent;
  }
  const std::string* script = script_in(run.begin.command);
  return script == nullptr ? Message("train.py") : as_path(*script);
}

std::optional<Finding> uncaught_exception(const Run& run) {
  const auto ending = ending_of(run);
  if (!ending) return std::nullopt;
  const auto& [first, last, is_certain] = *ending;
  if (is_of_interrupt(run, *first)) return std::nullopt;
  Finding finding = new_finding(code_of(run, *first, *last),
                                is_certain ? Confidence::kCertain : Confidence::kLikely);
  finding.message = message_of(run, *first, *last);
  finding.discriminator = std::string(to_string(first->ended)) + "-" + first->type;
  finding.processes = {first->process};
  if (last->process != first->process) finding.processes.push_back(last->process);
  add_evidence(run, finding.evidence, *first);
  if (!first->file.empty())
    add_source(finding, first->file, first->line, has_left(*first) ? "called at" : "raised at");
  finding.rule_out("killed by a signal (DLP0501, DLP0503, DLP0509)",
                   "its wait status is an exit code, not a signal");
  if (finding.code == FindingCode::kStateNotInherited) {
    finding.message +=
        say("; the main module of {} has {}", describe(run, last->process), as_name(last->path));
    finding.prove(text_fact("in_main_module", as_name(last->path), kShimSource, last->at));
    finding.remedies.push_back(pass_to_processes(as_name(last->path)));
  } else {
    if (has_shared_handle(run, *first)) {
      finding.message += maybe_shared(*first);
      finding.remedies.push_back(open_in_worker(*first));
    }
    finding.remedies.push_back(what_to_do(run, *first));
  }
  finding.first_seen = first->at;
  finding.last_seen = last->at;
  return finding;
}

namespace {

bool is_root(const Run& run, const ProcessKey& key) {
  const ProcessExit* end = end_of_command(run);
  return run.begin.root == key || (end != nullptr && end->key == key);
}

// Whoever started it started another one later: it was tried again.
bool was_replaced(const Run& run, const StartEvent& failed) {
  const ProcessInfo* process = run.find_process(failed.process);
  return process != nullptr && std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
           return event.kind == StartEventKind::kStarted && event.at > failed.at &&
                  event.process.pid == process->ppid;
         });
}

bool has_event_of_child(const Run& run, const ProcessKey& key, StartEventKind kind) {
  return std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    return event.kind == kind && event.child_pid == key.pid;
  });
}

// By a program that asked for its exit code, or of which it is too brief a child to be known as
// one, and none that multiprocessing started.
bool was_expected(const Run& run, const ProcessKey& key) {
  const bool is_known = run.find_process(key) != nullptr;
  return has_event_of_child(run, key, StartEventKind::kCodeRead) ||
         (!is_known && !has_event_of_child(run, key, StartEventKind::kStarted));
}

// Its peer, or who started it, was done and went.
bool is_of_an_end(const StartEvent& event) {
  const bool is_peer = event.error_number == EPIPE || event.error_number == ECONNRESET;
  return !event.again.empty() || is_peer || event.type == "KeyboardInterrupt";
}

// What nobody handled, and the program goes on without.
bool is_lost_part(const Run& run, const StartEvent& event) {
  switch (event.ended) {
    case Ended::kThread:
      return event.wanted != "threading.excepthook";  // which is the program's own
    case Ended::kFeeder:
      return true;
    case Ended::kProcess:
      return !is_root(run, event.process) && !was_replaced(run, event) && !is_of_an_end(event) &&
             !was_expected(run, event.process);
    case Ended::kWorker:
      return event.type == "StopIteration";
    default:
      return false;
  }
}

// What a trainer went on without: the part of a worker whose data ended by an exception.
bool is_rest_of_data(const StartEvent& event) {
  return event.ended == Ended::kWorker && event.wanted == "end";
}

// The exception of a task whose result nobody asked for, or of a worker's data: as its own process
// told it, else as who got the result. Null: of an end of its process, which tells itself, or of no
// code of the user's.
const StartEvent* task_of(const Run& run, const StartEvent& lost) {
  if (lost.again.empty()) return &lost;
  const auto failures = events_of(run, StartEventKind::kFailed);
  const auto found = std::ranges::find_if(failures, [&](const StartEvent* event) {
    const bool is_lost = lost.loader ? is_rest_of_data(*event) : event->ended == Ended::kTask;
    return is_lost && event->type == lost.type && !event->file.empty();
  });
  return found == failures.end() ? nullptr : *found;
}

const StartEvent* unasked_task(const Run& run) {
  for (const StartEvent* lost : events_of(run, StartEventKind::kResultLost))
    if (const StartEvent* task = task_of(run, *lost)) return task;
  return nullptr;
}

Message of_unasked_task(const Run& run, const StartEvent& event) {
  if (is_rest_of_data(event))
    return say("an exception ended the data of {}, and its other samples never came: {}{}{}",
               describe(run, event.process), as_text(first_line(event.message)), where(event),
               caused_by(event));
  return say("a task in {} failed, and nobody asked for its result: {}{}{}",
             describe(run, event.process), as_text(first_line(event.message)), where(event),
             caused_by(event));
}

// `lost` is what it became where it was raised again: in a thread that had asked for a batch.
Message message_of_part(const Run& run, const StartEvent& event, const StartEvent& lost) {
  if (&event == &lost) return message_of(run, event, event);
  return say("{} failed, and a thread of {} ended by it: {}{}{}", describe(run, event.process),
             describe(run, lost.process), as_text(first_line(event.message)), where(event),
             caused_by(event));
}

Message without_it(const StartEvent& event, bool has_ended) {
  if (is_rest_of_data(event))
    return "; the program caught it and took on batches of the other workers";
  if (event.ended == Ended::kWorker)
    return "; the loop over the loader takes it for the end of the data";
  return has_ended ? "; its program ended well without it" : "; its program did not end with it";
}

}  // namespace

std::optional<Finding> failing_initializer(const Run& run) {
  const ProcessExit* end = end_of_command(run);
  const auto vain = vain_starts(run);
  const bool is_initializer = vain && vain->first != nullptr && !has_left(*vain->first);
  const bool ended_well = end != nullptr && end->wait_status && *end->wait_status == 0;
  if (!is_initializer || ended_well) return std::nullopt;
  const StartEvent& event = *vain->first;
  Finding finding = new_finding(FindingCode::kUncaughtException, Confidence::kCertain);
  finding.message = say("the initializer of the pool of {} fails in each worker: {}{}{}",
                        describe(run, vain->trainer), as_text(first_line(event.message)),
                        where(event), caused_by(event));
  finding.discriminator = "initializer-" + event.type;
  finding.processes = vain->workers;
  if (std::ranges::count(finding.processes, event.process) == 0)
    finding.processes.push_back(event.process);
  add_evidence(run, finding.evidence, event);
  finding.prove(count_fact("failed_workers", vain->workers.size(), "wait status", event.at));
  if (!event.file.empty()) add_source(finding, event.file, event.line, "raised at");
  finding.rule_out("killed by a signal (DLP0501, DLP0503, DLP0509)",
                   "their wait statuses are exit codes, not signals");
  finding.remedies.push_back(what_to_do(run, event));
  finding.first_seen = event.at;
  finding.last_seen = event.at;
  return finding;
}

std::optional<Finding> lost_part(const Run& run, std::span<const Finding> known) {
  if (command_failed(run)) return std::nullopt;
  const ProcessExit* end = end_of_command(run);
  const bool has_ended = end != nullptr && end->wait_status && *end->wait_status == 0;
  const auto failures = events_of(run, StartEventKind::kFailed);
  const auto found = std::ranges::find_if(
      failures, [&](const StartEvent* event) { return is_lost_part(run, *event); });
  const bool is_unasked = found == failures.end();
  const StartEvent* lost = is_unasked ? unasked_task(run) : *found;
  if (lost == nullptr) return std::nullopt;
  const StartEvent& event = lost->ended == Ended::kThread ? origin_of(run, *lost) : *lost;
  Finding finding = new_finding(FindingCode::kUncaughtException, Confidence::kLikely);
  finding.severity = Severity::kWarning;
  finding.message =
      (is_unasked ? of_unasked_task(run, event) : message_of_part(run, event, *lost)) +
      without_it(*lost, has_ended);
  finding.discriminator = "lost-" + event.type;
  finding.processes = {event.process};
  if (lost->process != event.process) finding.processes.push_back(lost->process);
  add_evidence(run, finding.evidence, event);
  if (!event.file.empty()) add_source(finding, event.file, event.line, "raised at");
  if (is_rest_of_data(event))
    finding.advise(
        "Catch it within __iter__, around the sample or file that fails: what a generator "
        "raises ends it",
        {}, "dlprobe run -- COMMAND");
  else if (is_unasked)
    finding.advise("Ask for each result: that raises the exception",
                   {"result.get()  # of apply_async, map_async", "future.result()  # of submit",
                    "list(executor.map(...))"},
                   "dlprobe run -- COMMAND");
  finding.remedies.push_back(what_to_do(run, event));
  finding.first_seen = event.at;
  finding.last_seen = event.at;
  const bool holds_others = std::ranges::any_of(known, [&](const Finding& each) {
    return each.consequence_of == finding.code &&
           std::ranges::count(each.processes, lost->process) > 0;
  });
  if (holds_others) finding.severity = Severity::kError;
  return finding;
}

namespace {

// A program that called sys.exit, and ended by something else.
bool went_on(const Run& run, const StartEvent& event) {
  constexpr int64_t kByte = 0xFF;
  const ProcessInfo* process = run.find_process(event.process);
  const bool is_child = process == nullptr || process->role == Role::kWorker;
  if (event.kind != StartEventKind::kExits || event.message != kCallOfExit || is_child)
    return false;
  const ProcessExit* exit = run.find_exit(event.process);
  return exit != nullptr && exit->wait_status && event.count &&
         (!WIFEXITED(*exit->wait_status) ||
          WEXITSTATUS(*exit->wait_status) != (*event.count & kByte));
}

// The last that a process said of its own end; null: nothing.
const StartEvent* last_word_of(const Run& run, const ProcessKey& key) {
  const StartEvent* word = nullptr;
  for (const StartEvent& event : run.start_events) {
    const bool is_end = event.kind == StartEventKind::kExits ||
                        (event.kind == StartEventKind::kFailed &&
                         (event.ended == Ended::kProcess || event.ended == Ended::kInitializer));
    if (event.process == key && is_end && !went_on(run, event)) word = &event;
  }
  return word;
}

}  // namespace

std::optional<ExitWord> word_of(const Run& run, const ProcessKey& key) {
  const StartEvent* word = last_word_of(run, key);
  if (word == nullptr) return std::nullopt;
  ExitWord said{.kind = word->kind == StartEventKind::kExits ? word->message : word->type};
  if (word->kind == StartEventKind::kExits) {
    said.clause = say(": it called {}{}{}", as_name(word->message), where(*word), caused_by(*word));
    if (!word->file.empty())
      said.evidence.push_back(text_fact("called_at", whole_place(*word), kShimSource, word->at));
    for (const std::string& cause : word->chain)
      said.evidence.push_back(text_fact("raised_from", as_text(cause), kShimSource, word->at));
    const ProcessInfo* process = run.find_process(key);
    const bool is_worker = process != nullptr && process->role == Role::kWorker;
    if (first_cause_of(*word)) {
      said.remedy = what_to_do(run, *word);
    } else if (word->message == kCallOfAbort || !is_worker) {
      said.remedy = Remedy{.title = say("See why the program gives up{}; an exception raised there "
                                        "would tell it",
                                        where(*word)),
                           .verify = "dlprobe run -- COMMAND"};
    }
  } else {
    said.clause =
        say(": nobody caught {}{}{}", as_text(word->message), where(*word), caused_by(*word));
    if (const auto reason = reason_of(run, *word)) said.clause += reason->clause;
    add_evidence(run, said.evidence, *word);
    said.remedy = what_to_do(run, *word);
    if (has_shared_handle(run, *word)) {
      said.clause += maybe_shared(*word);
      said.remedy = open_in_worker(*word);
    }
  }
  return said;
}

}  // namespace dlprobe::probes::exits
