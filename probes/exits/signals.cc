// Signals that somebody sent, and exits.

#include <algorithm>
#include <csignal>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

constexpr const char* kTracepoint = "tracepoint signal_generate";
constexpr BootNs kLimitSlack = 2 * kSecond;

OwnWords code_words(const SignalSent& sent) {
  switch (sent.code) {
    case 0:
      return "0: by kill(2)";
    case -6:
      return "-6: by tgkill(2)";
    case 128:
      return "128: by the kernel";
    default:
      return own(sent.code) + (sent.code > 0 ? ": by the kernel, for a fault of its own" : "");
  }
}

/// The CPU time that its last sample shows and the limit, where that is reached.
std::optional<uint64_t> reached_cpu_limit(const ExitFacts& facts, const Death& death) {
  if (!death.process->cpu_time_limit) return std::nullopt;
  const Limit& limit = *death.process->cpu_time_limit;
  const std::optional<uint64_t> seconds = death.signal == SIGKILL ? limit.hard : limit.soft;
  const ProcessSample* last = last_memory_of(facts, death);
  const uint64_t rate = facts.header->host.ticks_per_second;
  if (!seconds || last == nullptr || rate == 0) return std::nullopt;
  const uint64_t used =
      (last->utime_ticks + last->stime_ticks) * static_cast<uint64_t>(kSecond) / rate;
  const auto reached = *seconds * static_cast<uint64_t>(kSecond);
  if (used + static_cast<uint64_t>(kLimitSlack) < reached) return std::nullopt;
  return seconds;
}

Remedy look_up_sender() {
  return {.title =
              "Find out why it was killed: see the records of the scheduler, container runtime, "
              "systemd or a watchdog",
          .commands = {"sacct -j <job> --format=State,ExitCode,MaxRSS",
                       "docker inspect <container>", "journalctl --since -1h | grep -i kill"},
          .applies_to = {"slurm", "docker", "bare-host"},
          .verify = "dlprobe run -- COMMAND"};
}

// Its own records say why, the system's do not.
Remedy ask_sender(const ExitFacts& facts, const SignalSent& sent) {
  return {.title = say("Find out why {} sent it: its log and configuration say so",
                       describe_sender(facts, sent)),
          .commands = {"ps -o pid,ppid,lstart,args -p " + own(sent.sender_pid)},
          .applies_to = {"bare-host"},
          .verify = "dlprobe run -- COMMAND"};
}

Remedy live_as_long() {
  return {.title =
              "Start the workers (the first iter() of the loader) from a thread that lives as "
              "long as they do, as the main thread; the signal is tied to the thread, not to "
              "its process",
          .commands = {"prctl(PR_SET_PDEATHSIG, 0)  # in the worker: or ask for none"},
          .verify = "dlprobe run -- COMMAND"};
}

// Those that the kernel sends for what the process itself did; nobody else's records have them.
std::optional<OwnWords> own_doing(int32_t signal) {
  switch (signal) {
    case SIGPIPE:
      return "It wrote to a pipe or socket whose other end is closed: find out why the reader "
             "ended, or catch BrokenPipeError (signal(SIGPIPE, SIG_IGN))";
    case SIGALRM:
    case SIGVTALRM:
    case SIGPROF:
      return "A timer of its own ran out (alarm, setitimer): set a handler in each process that "
             "sets the timer, or none; a spawned worker has no handler of its parent";
    default:
      return std::nullopt;
  }
}

Remedy find_sender(const ExitFacts& facts, const Death& death) {
  const StartEvent* call = call_that_sent(facts, death);
  if (call != nullptr && !call->file.empty())
    return {.title = say("See at {} why the job ends it", short_place(*call)),
            .verify = "dlprobe run -- COMMAND"};
  if (death.sent != nullptr && !is_from_kernel(*death.sent)) {
    if (death.sent->sender_pid != death.process->key.pid) return ask_sender(facts, *death.sent);
    return {.title =
                "It sent that signal itself: look for os.kill, signal.raise_signal and abort in "
                "the code that it ran, and read what it printed last",
            .verify = "dlprobe run -- COMMAND"};
  }
  if (auto doing = own_doing(death.signal))
    return {.title = std::move(*doing), .verify = "dlprobe run -- COMMAND"};
  return look_up_sender();
}

bool uses_mpi(const Run& run, const ProcessKey& key) {
  return std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kMpiReady && event.process == key;
  });
}

ExitCause cpu_limit_cause(const Death& death, uint64_t seconds) {
  ExitCause cause;
  cause.clause = "was killed by " + signal_name(death.signal) +
                 ": it reached its CPU time limit of " + own(seconds) +
                 " s (RLIMIT_CPU, ulimit -t)";
  cause.discriminator = "cpu-limit";
  cause.prove(count_fact("cpu_time_limit", seconds, "Max cpu time of /proc/PID/limits"));
  cause.evidence.back().unit = "s";
  cause.remedies.push_back({.title = "Raise or remove the limit of CPU time",
                            .commands = {"ulimit -t unlimited"},
                            .applies_to = {"bare-host", "slurm"},
                            .verify = "grep 'cpu time' /proc/self/limits"});
  return cause;
}

/// The kernel sends SIGXFSZ in the name of whoever writes (send_sig in generic_write_check_limits),
/// just as if it had sent it to itself, which nobody does. The limit may have been set after the
/// process was first seen.
bool is_of_file_size(const Death& death) {
  return death.signal == SIGXFSZ && (death.sent == nullptr || is_from_kernel(*death.sent) ||
                                     death.sent->sender_pid == death.process->key.pid);
}

ExitCause file_size_cause(const Death& death) {
  ExitCause cause;
  cause.clause =
      "was killed by SIGXFSZ: it wrote a file larger than its limit (RLIMIT_FSIZE, ulimit -f)";
  cause.discriminator = "file-size-limit";
  const std::optional<uint64_t> limit = death.process->file_size_limit.value_or(Limit{}).soft;
  if (limit) {
    cause.prove(bytes_fact("file_size_limit", *limit, "Max file size of /proc/PID/limits"));
  } else {
    cause.confidence = Confidence::kLikely;
  }
  cause.remedies.push_back({.title = "Raise or remove the limit of file sizes",
                            .commands = {"ulimit -f unlimited"},
                            .applies_to = {"bare-host", "slurm"},
                            .verify = "grep 'file size' /proc/self/limits"});
  return cause;
}

/// Whose terminal or session went; nothing: somebody sent SIGHUP for another reason.
std::optional<Message> hangup_words(const ExitFacts& facts, const Death& death) {
  if (death.signal != SIGHUP) return std::nullopt;
  if (death.sent == nullptr) return "its terminal or login session closed, or a process sent it";
  if (is_from_kernel(*death.sent)) return "its terminal closed, or the leader of its session ended";
  const bool by_leader = death.sent->sender_pid == death.process->session;
  if (!by_leader || death.sent->sender_pid == death.process->key.pid) return std::nullopt;
  return "the leader of its session, " + describe_sender(facts, *death.sent) + ", passed it on";
}

ExitCause hangup_cause(const Death& death, const Message& words) {
  ExitCause cause;
  cause.code = FindingCode::kSessionHangup;
  cause.confidence = death.sent == nullptr ? Confidence::kLikely : Confidence::kCertain;
  cause.clause = "was ended by SIGHUP: " + words;
  cause.discriminator = "hangup";
  cause.prove(count_fact("session", static_cast<uint64_t>(death.process->session),
                         "field 6 of /proc/PID/stat"));
  cause.remedies.push_back({.title = "Start the job independent of a terminal. nohup alone fails "
                                     "if a launcher installs its own handlers",
                            .commands = {"tmux new -d 'python train.py'",
                                         "setsid -f python train.py > log 2>&1 < /dev/null",
                                         "systemd-run --user --unit train python train.py"},
                            .applies_to = {"bare-host"},
                            .verify = "ps -o pid,sid,tty,cmd -p <pid>  # TTY must be ?"});
  return cause;
}

ExitCause kernel_kill_cause(const Death& death) {
  ExitCause cause;
  cause.clause = "was killed by " + signal_name(death.signal) + ", sent by the kernel itself";
  cause.discriminator = "kernel";
  cause.rule_out("killed by another process", "no process called kill: the signal's code is 128");
  return cause;
}

ExitCause parents_thread_cause(const ExitFacts& facts, const Death& death) {
  ExitCause cause;
  cause.confidence = Confidence::kLikely;  // the thread may have called kill as its last act
  cause.clause =
      say("was killed by {}: the thread of {} that had started it ended, and it had asked "
          "for that signal then (PR_SET_PDEATHSIG)",
          signal_name(death.signal), describe_sender(facts, *death.sent));
  cause.discriminator = "parents-thread";
  cause.together = own(death.sent->sender_pid);
  cause.remedies.push_back(live_as_long());
  return cause;
}

// Another library could do so, too: which one called raise is not seen.
ExitCause forked_copy_cause(const Death& death, const Event& library) {
  ExitCause cause;
  cause.code = FindingCode::kWorkerCrashed;
  cause.confidence = Confidence::kLikely;
  cause.clause =
      say("was ended by {}, which it sent itself: Numba's threads on OpenMP do so in a "
          "process that was forked after its parent had used them",
          signal_name(death.signal));
  cause.discriminator = "forked-copy";
  cause.together = "forked-copy";
  cause.prove(text_fact("code", library.text, "/proc/PID/maps, at the signal", library.at));
  cause.remedies.push_back(
      {.title = "Let Numba use threads that survive a fork",
       .commands = {"NUMBA_THREADING_LAYER=forksafe python train.py",
                    "numba.config.THREADING_LAYER = 'forksafe'  # where the code sets another"},
       .verify = "dlprobe run -- COMMAND",
       .settings = {{SettingKind::kEnvironment, "NUMBA_THREADING_LAYER", "forksafe"}}});
  cause.remedies.push_back(
      {.title = "Or start the workers by spawn or forkserver, or call no parallel function before",
       .commands = {"multiprocessing.get_context(\"forkserver\")"},
       .verify = "dlprobe run --start-method forkserver -- COMMAND",
       .settings = {{SettingKind::kStartMethod, "", "forkserver"}}});
  return cause;
}

// Its trainer, where the same sender sent it the same signal, and it lived on: by a handler that a
// spawned worker does not have. Other signals than these ask for an end.
const ProcessInfo* trainer_that_caught(const ExitFacts& facts, const Death& death) {
  const ProcessInfo* trainer = trainer_of(facts, *death.process);
  const bool is_message = death.signal == SIGUSR1 || death.signal == SIGUSR2;
  if (!is_message || trainer == nullptr || death.sent == nullptr) return nullptr;
  const Death* end = death_of(facts, trainer->key);
  if (end != nullptr && end->signal == death.signal) return nullptr;
  const bool was_sent = std::ranges::any_of(facts.run->signals, [&](const SignalSent& each) {
    return each.target == trainer->key && each.signal == death.signal &&
           each.sender_pid == death.sent->sender_pid && each.at <= death.sent->at + kTogether &&
           each.at + kTogether >= death.sent->at;
  });
  return was_sent ? trainer : nullptr;
}

void add_handler_of_trainer(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  const ProcessInfo* trainer = trainer_that_caught(facts, death);
  if (trainer == nullptr) return;
  const OwnWords name = signal_name(death.signal);
  cause.clause +=
      say("; {}, which was sent it too, has a handler for it", describe(*facts.run, trainer->key));
  cause.remedies.push_back(
      {.title = say("Ignore {} in the workers as well, or handle it there: a process that starts "
                    "anew has no handler of its parent",
                    name),
       .commands = {say("signal.signal(signal.{}, signal.SIG_IGN)  # in worker_init_fn or the "
                        "initializer",
                        name)},
       .verify = "dlprobe run -- COMMAND"});
}

ExitCause sent_kill_cause(const ExitFacts& facts, const Death& death) {
  if (auto timer = timer_cause(facts, death)) return std::move(*timer);
  ExitCause cause;
  const OwnWords name = signal_name(death.signal);
  const StartEvent* call = call_that_sent(facts, death);
  if (call != nullptr) {
    const bool by_itself = call->process == death.process->key;
    cause.clause = say("was killed by {}, which {} sent{}{}", name,
                       by_itself ? OwnWords("it") : describe(*facts.run, call->process),
                       by_itself ? " itself" : "", place_of(*call));
    if (death.sent == nullptr) cause.confidence = Confidence::kLikely;
    cause.discriminator = "sent";
    cause.together = own(call->process.pid);
    if (!call->file.empty())
      cause.prove(text_fact("sent_at", whole_place(*call), kShimSource, call->at));
  } else if (death.sent == nullptr) {
    cause.clause = "was killed by " + name + "; dlprobe could not see who sent it";
    cause.discriminator = "unknown-sender";
    Message why = facts.why_signals_hidden;
    if (facts.signals_traced) {
      why = is_traced_signal(death.signal)
                ? "it was sent before dlprobe watched, or the kernel ended the process itself "
                  "(seccomp)"
                : "dlprobe does not record who sends this signal";
    }
    cause.prove(text_fact("sender", "not seen: " + why, kTracepoint));
  } else {
    const bool by_itself = death.sent->sender_pid == death.process->key.pid;
    cause.clause = "was killed by " + name + ", which " +
                   (by_itself ? "it sent itself" : describe_sender(facts, *death.sent) + " sent");
    cause.discriminator = "sent";
    cause.together = own(death.sent->sender_pid);
    add_handler_of_trainer(facts, death, cause);
  }
  return cause;
}

}  // namespace

std::vector<Evidence> signal_evidence(const ExitFacts& facts, const Death& death) {
  std::vector<Evidence> evidence;
  evidence.push_back(text_fact("exit_signal",
                               signal_name(death.signal) + " (" + own(death.signal) + ")",
                               "wait status by " + own(death.exit->source), death.exit->at));
  if (death.sent == nullptr) return evidence;
  const OwnWords source(kTracepoint);
  evidence.push_back(text_fact("signal_code", code_words(*death.sent), source, death.sent->at));
  if (!is_from_kernel(*death.sent)) {
    evidence.push_back(
        text_fact("sender", describe_sender(facts, *death.sent), source, death.sent->at));
  }
  return evidence;
}

ExitCause kill_cause(const ExitFacts& facts, const Death& death) {
  const std::optional<uint64_t> cpu = reached_cpu_limit(facts, death);
  const bool by_process = death.sent != nullptr && !is_from_kernel(*death.sent);
  const bool of_limit = death.signal == SIGXCPU || death.signal == SIGKILL;
  ExitCause cause;
  if (cpu && of_limit && !by_process) {
    cause = cpu_limit_cause(death, *cpu);
    if (death.sent == nullptr) cause.confidence = Confidence::kLikely;
  } else if (is_of_file_size(death)) {
    cause = file_size_cause(death);
  } else if (const auto hangup = hangup_words(facts, death)) {
    cause = hangup_cause(death, *hangup);
  } else if (death.sent != nullptr && is_from_kernel(*death.sent)) {
    cause = kernel_kill_cause(death);
  } else if (death.sent != nullptr && is_of_parents_thread(*death.process, *death.sent)) {
    cause = parents_thread_cause(facts, death);
  } else if (const Event* library = library_that_ends_copies(facts, death)) {
    cause = forked_copy_cause(death, *library);
  } else {
    cause = sent_kill_cause(facts, death);
  }
  for (Evidence& each : signal_evidence(facts, death))
    cause.prove(std::move(each));
  if (death.signal == SIGKILL) rule_out_oom(facts, death, cause);
  if (cause.remedies.empty()) cause.remedies.push_back(find_sender(facts, death));
  cause.together += " " + std::string(info(cause.code).code) + signal_name(death.signal);
  cause.discriminator = signal_name(death.signal) + "-" + cause.discriminator;
  return cause;
}

const Event* library_that_ends_copies(const ExitFacts& facts, const Death& death) {
  constexpr int kByTgkill = -6;
  const SignalSent* sent = death.sent;
  if (death.signal != SIGTERM || sent == nullptr || sent->code != kByTgkill ||
      sent->sender_pid != death.process->key.pid)
    return nullptr;
  // What lives too shortly to be looked at has the same libraries as its siblings.
  const auto found = std::ranges::find_if(facts.run->events, [&](const Event& event) {
    const ProcessInfo* other = event.process ? facts.run->find_process(*event.process) : nullptr;
    return event.kind == "library-that-ends-forked-copies" && other != nullptr &&
           other->ppid == death.process->ppid;
  });
  return found == facts.run->events.end() ? nullptr : &*found;
}

bool is_of_parents_thread(const ProcessInfo& process, const SignalSent& sent) {
  return sent.by_ended && sent.code == 0 && sent.sender_pid == process.ppid;
}

const SignalSent* caught_signal(const ExitFacts& facts, const Death& death) {
  constexpr BootNs kSoon = 2 * kSecond;
  const SignalSent* caught = nullptr;
  if (death.signal != 0) return caught;
  const auto left = std::ranges::find_if(facts.run->start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kExits && event.process == death.process->key;
  });
  const bool has_left = left != facts.run->start_events.end();
  for (const SignalSent& sent : facts.run->signals) {
    const bool is_just_before = sent.at <= death.at() && sent.at >= death.at() - kSoon;
    // A pool ends its workers so, also one that is about to end by itself.
    const bool is_answered = has_left || sent.sender_pid != death.process->ppid ||
                             is_of_parents_thread(*death.process, sent);
    const bool is_too_late = has_left && sent.at > left->at;
    const bool is_it = is_just_before && is_answered && !is_too_late && !sent.by_dlprobe;
    if (sent.target == death.process->key && is_it) caught = &sent;
  }
  return caught;
}

ExitCause caught_cause(const ExitFacts& facts, const Death& death, const SignalSent& caught) {
  const OwnWords name = signal_name(caught.signal);
  const bool is_of_thread = is_of_parents_thread(*death.process, caught);
  ExitCause cause;
  cause.confidence = Confidence::kLikely;  // it may have been about to leave
  cause.clause = "was sent " + name + " by " + describe_sender(facts, caught) +
                 ", caught it and exited with code " + own(death.exit_code);
  if (is_of_thread) {
    cause.clause =
        say("was sent {} and exited: the thread of {} that had started it ended, and it "
            "had asked for that signal then (PR_SET_PDEATHSIG)",
            name, describe_sender(facts, caught));
  }
  cause.discriminator = own(caught.signal) + "-caught";
  cause.together = cause.discriminator;
  cause.prove(text_fact("exit_code", own(death.exit_code),
                        "wait status by " + own(death.exit->source), death.exit->at));
  cause.prove(text_fact("sender", describe_sender(facts, caught), kTracepoint, caught.at));
  if (const auto word = word_of(*facts.run, death.process->key))
    std::ranges::copy(word->evidence, std::back_inserter(cause.evidence));
  cause.rule_out("DLP0510", "it did not exit on its own: the signal came just before");
  cause.remedies.push_back(is_of_thread ? live_as_long() : ask_sender(facts, caught));
  return cause;
}

void put_handler_first(const ExitFacts& facts, Finding& raised) {
  if (!facts.ending) return;
  const StartEvent& last = *facts.ending->last;
  const ProcessExit* end = end_of_command(*facts.run);
  if (last.ended != Ended::kThread || end == nullptr || end->key != last.process) return;
  const Death* death = death_of(facts, last.process);
  const SignalSent* caught = death == nullptr ? nullptr : caught_signal(facts, *death);
  if (caught == nullptr || caught->at < last.at) return;
  raised.message = say("{} {}; before, {}", describe(*facts.run, last.process),
                       caught_cause(facts, *death, *caught).clause, raised.message);
  raised.severity = Severity::kWarning;
}

namespace {

// How it ended, where it did not tell.
Message untold_exit(const ExitFacts& facts, const Death& death) {
  const bool is_worker = death.process->role == Role::kWorker;
  if (is_worker && is_witnessed(*facts.run, death.process->key))
    return ": native code called exit(3) or _exit(2)";
  if (uses_mpi(*facts.run, death.process->key))
    return ": native code called exit(3), as MPI_Abort does";
  if (death.exit_code == 1 && is_worker) return ": an uncaught exception, or sys.exit";
  return ": it called os._exit or sys.exit";
}

Remedy look_for_exit(const ExitFacts& facts, const Death& death, bool was_told) {
  Remedy remedy{.title =
                    "Read the traceback above, and look for sys.exit and os._exit in the code "
                    "that it ran",
                .verify = "dlprobe run -- COMMAND"};
  const bool is_worker = death.process->role == Role::kWorker;
  if (was_told) {
    remedy.title = "Raise an exception there instead, or print the traceback before";
  } else if (uses_mpi(*facts.run, death.process->key)) {
    remedy.title = "Read what it printed last, and look for Abort() in its code";
  } else if (is_worker && death.exit_code != 0 && is_witnessed(*facts.run, death.process->key)) {
    remedy.title =
        "Read what it printed last, and see in a debugger which native code leaves: call the "
        "function in the main process, or attach to a worker";
    remedy.commands = {"gdb -ex 'catch syscall exit_group' -ex run -ex bt --args python train.py",
                       "gdb -ex 'catch syscall exit_group' -ex continue -ex bt -p <worker>"};
  }
  if (has_data_loader(*facts.run) && is_worker)
    remedy.commands.emplace_back("DataLoader(..., num_workers=0)  # then a debugger stops there");
  return remedy;
}

}  // namespace

ExitCause exit_cause(const ExitFacts& facts, const Death& death) {
  ExitCause cause;
  // What a process of the user's own exits with may be an answer to whoever started it.
  const auto word = word_of(*facts.run, death.process->key);
  if (!has_handlers_of_torch(*death.process) && !word) cause.confidence = Confidence::kLikely;
  // A trainer that then raised something of its own may have lived with the worker's end.
  const auto& ending = facts.ending;
  if (ending && ending->last->again.empty() && ending->last->process != death.process->key)
    cause.confidence = Confidence::kLikely;
  const bool lost_manager = std::ranges::any_of(facts.run->start_events, [&](const auto& event) {
    return event.process == death.process->key && event.wanted == "manager";
  });
  if (lost_manager) cause.confidence = Confidence::kLikely;  // why that was gone comes first
  cause.code = FindingCode::kWorkerExited;
  cause.clause = "exited by itself with code " + own(death.exit_code);
  const bool left_task = left_task_of_pool(facts, death);
  if (death.exit_code == 0 && !left_task) {
    // Without the trainer's exception it is one of the reasons why a trainer fails.
    cause.confidence = ending ? Confidence::kLikely : Confidence::kPossible;
    cause.clause += " while its trainer waited for it";
  } else if (word) {
    cause.clause += word->clause;
    if (left_task) cause.clause += "; its Pool never gets the result of that task";
  } else {
    cause.clause += untold_exit(facts, death);
  }
  cause.discriminator = "code-" + std::to_string(death.exit_code);
  // What one ended by is not what another one did.
  if (word) cause.discriminator += "-" + word->kind;
  cause.together = cause.discriminator;
  cause.prove(text_fact("exit_code", own(death.exit_code),
                        "wait status by " + own(death.exit->source), death.exit->at));
  if (word) std::ranges::copy(word->evidence, std::back_inserter(cause.evidence));
  cause.rule_out("killed by a signal (DLP0501, DLP0503, DLP0509)",
                 "its wait status is an exit code, not a signal");
  if (word && word->remedy) {
    cause.remedies.push_back(*word->remedy);
    return cause;
  }
  cause.remedies.push_back(look_for_exit(facts, death, word.has_value()));
  return cause;
}

}  // namespace dlprobe::probes::exits
