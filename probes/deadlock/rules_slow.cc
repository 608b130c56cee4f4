#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <optional>
#include <ranges>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/rules.h"
#include "probes/deadlock/within.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"

namespace dlprobe::probes::deadlock {
namespace {

constexpr double kBusy = 0.9;  // running, or ready to
constexpr BootNs kWorthAWord = 2 * kSecond;

// A wait that a process outside, or a thread that listens to one, is to end: as that of a
// collective operation for another rank.
bool may_wait_for_a_rank(const Facts& facts, const ThreadFacts& trainer) {
  switch (trainer.need.kind) {
    case NeedKind::kOutside:
    case NeedKind::kNotification:
    case NeedKind::kJoin:
    case NeedKind::kTeam:
    case NeedKind::kGil:
      return true;
    case NeedKind::kChannel:
      return trainer.need.others_may ||
             std::ranges::any_of(trainer.need.providers, [&](size_t each) {
               const ThreadFacts& provider = facts.threads[each];
               return provider.process != trainer.process && provider.role() != Role::kWorker;
             });
    default:
      return false;
  }
}

// The user's own code was at the same place at every look. The innermost line alone is not enough:
// a recursion is often on one and the same line, at another depth.
bool stays_on_line(const ThreadFacts& worker) {
  if (user_frame(*worker.thread) == nullptr) return worker.same_stack;
  return std::ranges::all_of(worker.looks, [&](const Look& look) {
    return look.thread->stack.empty() || same_user_frames(*look.thread, *worker.thread);
  });
}

// It waits for a task, or for room for its results.
bool has_done_its_work(const Facts& facts, const ThreadFacts& worker) {
  return waits_for_task(facts, worker) || waits_for_room(worker);
}

// A worker that takes long, from one batch to the next.
RootCause worker_that_hands_on(const Facts& facts, size_t index) {
  const ThreadFacts& worker = facts.threads[index];
  Finding finding = finding_about(facts, FindingCode::kSlowSample, Confidence::kLikely, worker);
  finding.severity = Severity::kInfo;
  const Message waits = worker.need.words.empty() ? "" : ": it waits for " + worker.need.words;
  finding.message = name_of(facts, worker) + " is slow, not stuck" + waits + place_of(worker) +
                    "; the trainer waits for it";
  finding.advise(
      "Look at that line: should it take so long? More workers "
      "hide slow samples",
      {"DataLoader(..., num_workers=N)"}, "dlprobe stacks " + own(worker.process->key.pid));
  return {std::move(finding), index};
}

// One that was made to keep others out, and outlived who made it.
Remedy remedy_for_file(const WaitedFile& file) {
  return {.title =
              "If it is the lock file of a process that has ended, remove it. A lock of flock(2) "
              "ends with its process",
          .commands = {"ls -l " + as_path(file.path), "fcntl.flock(file, fcntl.LOCK_EX)"}};
}

RootCause slow_worker(const Facts& facts, size_t index) {
  const ThreadFacts& worker = facts.threads[index];
  if (hands_on(facts, worker)) return worker_that_hands_on(facts, index);
  const std::vector<size_t> way = way_through(facts, index);
  const bool busy = worker.busy_share >= kBusy;
  const bool one_place = busy && stays_on_line(worker);
  Finding finding = finding_about(
      facts, one_place ? FindingCode::kWorkerBusyNoProgress : FindingCode::kSlowSample,
      Confidence::kLikely, worker);
  const bool is_short = busy && facts.span < long_work(worker);  // who computes may do so for long
  const bool goes_well = ends_at_work(facts, way) || ends_by_itself(facts, worker);
  if (!is_worth_a_warning(facts, worker) || is_short || goes_well)
    finding.severity = Severity::kInfo;
  finding.message =
      name_of(facts, worker) +
      (one_place ? " computed all the time on one line" : " worked all the time on one batch") +
      place_of(worker) + "; the trainer waited for it";
  if (!busy && worker.need.words.empty()) {
    finding.message = name_of(facts, worker) + " works on one batch, now and then" +
                      place_of(worker) + "; the trainer waited for it";
  } else if (!busy) {
    finding.message = name_of(facts, worker) + " is in the middle of a batch and waits for " +
                      worker.need.words + place_of(worker) + words_of_way(facts, way) +
                      "; the trainer waits for it";
  }
  if (asks_a_person(worker)) {
    finding.message = name_of(facts, worker) + " waits in the middle of a batch for " +
                      worker.need.words + ", as input() and breakpoint() do" + place_of(worker) +
                      "; the trainer waits for it";
    finding.advise(
        "Let no worker ask. To debug there, let the trainer load, which has the terminal",
        {"DataLoader(..., num_workers=0)"}, "dlprobe stacks " + own(worker.process->key.pid));
  }
  finding.prove(number_fact("busy_share", worker.busy_share, "1", "/proc/PID/task/TID/schedstat",
                            facts.last->at));
  if (busy) add_crowd(finding, facts);
  add_remedy_for_answer(finding, facts, worker);
  const WaitedFile* file = polled_file(worker);
  if (file != nullptr && end_of_file(facts, *file) == nullptr)
    finding.remedies.push_back(remedy_for_file(*file));
  finding.remedies.push_back(remedy_for_long_work(worker));
  return {std::move(finding), ends_at_work(facts, way) ? index : way.back()};
}

// Of a pipe that nobody but its reader has.
bool is_its_own_pipe(const Facts& facts, const ThreadFacts& thread) {
  const Need& need = thread.need;
  return need.kind == NeedKind::kChannel && !need.others_may && !need.providers.empty() &&
         std::ranges::all_of(need.providers, [&](size_t each) {
           return facts.threads[each].process == thread.process;
         });
}

// An event loop that serves whoever connects is between two requests.
bool lets_clients_in(const ThreadFacts& thread) {
  return std::ranges::any_of(thread.thread->wait.files, [](const WaitedFile& file) {
    return file.kind == FileKind::kListeningSocket;
  });
}

// At every look, at one line of the program; of a running thread a native stack may not be read.
// Of ranks the rules about ranks know for what.
bool waits_for_gpu_all_along(const ThreadFacts& thread) {
  const bool is_rank = thread.info != nullptr && thread.info->rank_of_several() != nullptr;
  return !is_rank && thread.looks.size() > 1 && lasts_long(thread, thread.looks.size()) &&
         waits_for_gpu(*thread.thread) && std::ranges::all_of(thread.looks, [&](const Look& look) {
           const bool is_unread = std::ranges::all_of(look.thread->stack, &StackFrame::python);
           return (is_unread || waits_for_gpu(*look.thread)) &&
                  same_user_frames(*look.thread, *thread.thread);
         });
}

// A trainer that takes batches lets them make more.
bool have_not_run(const Facts& facts, const std::vector<size_t>& workers) {
  return std::ranges::all_of(workers, [&](size_t each) {
    const ThreadFacts& worker = facts.threads[each];
    return (worker.still && worker.since <= worker.looks.back().at) ||
           (worker.polls_again && !goes_on(facts, worker));
  });
}

void add_remedy_to_look(Finding& finding, const Facts& facts, const std::vector<size_t>& way) {
  const ThreadFacts& trainer = facts.threads[way.front()];
  const QueueWait queue = queue_wait(*trainer.thread);
  OwnWords title =
      "Look at what the trainer waits for: another rank of a collective operation, a "
      "server, or its own lock";
  if (queue != QueueWait::kNone)
    title =
        "Find out which thread is at the other end of that queue: it waits elsewhere, or has "
        "ended";
  if (way.size() > 1) title = "Look at the last of these lines: that wait has to end";
  if (ends_at_work(facts, way)) title = "Look at that line: should it take so long?";
  const ThreadFacts& end = facts.threads[way.back()];
  finding.advise(std::move(title), {"dlprobe stacks " + own(end.process->key.pid)});
}

// An event loop whose wait ends at the time of its next timer: a coroutine sleeps (asyncio.sleep).
bool has_timer(const Facts& facts, const ThreadFacts& thread) {
  return thread.need.kind == NeedKind::kNotification && !thread.thread->wait.files.empty() &&
         has_timeout(thread.thread->wait, facts.machine);
}

// Ends by itself, at a time.
bool ends_in_time(const Facts& facts, const ThreadFacts& thread) {
  const bool is_timed = thread.thread->futex && thread.thread->futex->timed;
  return thread.need.kind == NeedKind::kNothing || is_timed || has_timer(facts, thread);
}

// A kernel of the GPU takes its time, and so does a thread that sleeps between two requests, and
// may wake the trainer.
bool stands_for_long(const Facts& facts, const ThreadFacts& trainer, const ThreadFacts& end,
                     bool is_on_gpu) {
  if (is_on_gpu) return trainer.looks.front().at - trainer.looks.back().at >= kLongRest;
  const bool may_be_woken = end.need.kind == NeedKind::kNotification &&
                            std::ranges::any_of(end.need.providers, [&](size_t each) {
                              return ends_in_time(facts, facts.threads[each]);
                            });
  const bool rests = may_be_woken || (end.process == trainer.process && ends_in_time(facts, end));
  return rests ? facts.last->at - trainer.since >= kLongRest : is_worth_a_warning(facts, trainer);
}

std::optional<RootCause> stuck_consumer(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const bool is_on_gpu = waits_for_gpu_all_along(trainer) && have_not_run(facts, rank.workers);
  const bool all_done = std::ranges::all_of(
      rank.workers, [&](size_t each) { return has_done_its_work(facts, facts.threads[each]); });
  if (is_on_gpu)
    if (auto circle = lock_behind_gpu(facts, rank.trainer)) return circle;
  if (rank.workers.empty() || !all_done || !(trainer.still || is_on_gpu)) return std::nullopt;
  const size_t workers = rank.workers.size();
  const std::vector<size_t> way = way_through(facts, rank.trainer);
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, trainer);
  const bool is_asking = asks_a_person(trainer);
  const bool is_long = stands_for_long(facts, trainer, facts.threads[way.back()], is_on_gpu);
  const bool is_work = ends_at_work(facts, way) || goes_on(facts, facts.threads[way.back()]);
  const bool is_parked = kind_of(trainer.thread->wait, facts.machine) == WaitKind::kSignal;
  if (!is_long || lets_clients_in(trainer) || is_asking || is_parked || is_work)
    finding.severity = Severity::kInfo;
  const bool is_loader = has_data_loader(*facts.run);
  finding.message =
      (is_loader ? "The loader is fine: " : "") + all_of(workers, "worker") +
      (workers == 1 ? " has done its work and waits; " : " have done their work and wait; ") +
      name_of(facts, trainer) + " waits for " +
      (is_on_gpu ? Message("the GPU") : trainer.need.words) +
      (is_its_own_pipe(facts, trainer) ? ", whose other end only its own process holds" : "") +
      place_of(trainer) + words_of_way(facts, way);
  if (queue_wait(*facts.threads[way.back()].thread) != QueueWait::kNone)
    finding.message += words_of_others(facts, others_in_code(facts, way));
  finding.message += words_of_end(facts, way);
  finding.prove(count_fact("idle_workers", workers, "/proc/PID/task/TID/syscall, /proc/PID/fd",
                           facts.last->at));
  if (is_asking) {
    finding.advise(
        "Give it what it asks for (input(), breakpoint()), or let "
        "it read nothing",
        {"COMMAND < /dev/null"});
  } else {
    if (is_at_end_of_program(*trainer.thread))
      finding.remedies.push_back(remedy_at_end_of_program());
    add_remedy_to_look(finding, facts, way);
  }
  return RootCause{std::move(finding), ends_at_work(facts, way) ? rank.trainer : way.back()};
}

/// What the ranks of a job tell of who is late.
struct Ranks {
  std::vector<RootCause> late;     ///< who stands for a reason of their own
  std::vector<RootCause> waiting;  ///< who may wait for another rank
  std::vector<size_t> going_on;    ///< trainers of whom neither is known
};

void sort_in(const Facts& facts, const Rank& rank, Ranks& ranks) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  std::vector<RootCause> causes;
  if (waits_for_batch(facts, trainer)) {
    causes = find_slow_workers(facts, rank);
  } else if (auto busy = busy_in_loader(facts, rank)) {
    causes.push_back(std::move(*busy));
  } else if (auto cause = stuck_consumer(facts, rank)) {
    causes.push_back(std::move(*cause));
    if (may_wait_for_a_rank(facts, trainer)) {
      ranks.waiting.push_back(std::move(causes.front()));
      return;
    }
  }
  if (causes.empty()) ranks.going_on.push_back(rank.trainer);
  std::ranges::move(causes, std::back_inserter(ranks.late));
}

// Of several ranks the one to blame is the one that does not wait for another.
std::vector<RootCause> late_ranks(const Facts& facts, const std::vector<Rank>& all) {
  Ranks ranks;
  for (const Rank& rank : all)
    sort_in(facts, rank, ranks);
  if (ranks.late.empty()) {
    for (RootCause& cause : ranks.waiting) {
      if (ranks.going_on.empty()) continue;
      cause.finding.severity = Severity::kInfo;
      cause.finding.message +=
          ", maybe for " + join_names(facts, ranks.going_on) + ", which is at work";
    }
    return std::move(ranks.waiting);
  }
  if (ranks.waiting.empty()) {
    // A sleep that nobody waits for ends by itself.
    std::erase_if(ranks.late, [&](const RootCause& cause) {
      const ThreadFacts& thread = facts.threads[cause.thread];
      return thread.is_main() && thread.role() == Role::kTrainer &&
             thread.need.kind == NeedKind::kNothing;
    });
    return std::move(ranks.late);
  }
  std::vector<size_t> waiting;
  waiting.reserve(ranks.waiting.size());
  for (const RootCause& cause : ranks.waiting)
    waiting.push_back(cause.thread);
  for (RootCause& cause : ranks.late) {
    cause.finding.message += "; " + join_names(facts, waiting) +
                             (waiting.size() == 1 ? " waits" : " wait") + ", too, maybe for it";
  }
  return std::move(ranks.late);
}

// Whether it waits for one and the same thing, in one wait or again and again; not in a loop with a
// short sleep, or from one message to the next.
bool rests(const ThreadFacts& thread) {
  if (thread.still) return true;
  if (!thread.waits_again || thread.need.kind == NeedKind::kNothing) return false;
  constexpr size_t kWakesPerLook = 4;
  const uint64_t slices = thread.thread->timeslices - thread.looks.back().thread->timeslices;
  return !thread.is_main() || slices <= kWakesPerLook * thread.looks.size();
}

// What nobody outside of the job can end, nor a signal.
bool ends_from_outside(const Facts& facts, const ThreadFacts& thread) {
  // Beside its work a worker may serve what it has shared (multiprocessing's resource_sharer).
  const bool is_workers = thread.role() == Role::kWorker;
  if (is_workers && (!thread.is_main() || waits_for_task(facts, thread))) return false;
  switch (thread.need.kind) {
    case NeedKind::kOutside:
    case NeedKind::kNewClient:
    case NeedKind::kKernel:
      return true;
    case NeedKind::kNothing:
      return false;  // a sleep, or it runs: see rests()
    case NeedKind::kChannel:
      return thread.need.providers.empty() || thread.need.others_may;
    default:
      break;
  }
  const bool may_serve =
      may_be_woken_by_signal(thread) || catches_one_of(thread, std::array{SIGTERM, SIGHUP});
  return thread.is_main() && thread.role() == Role::kTrainer && may_serve;
}

// Whether one of the job sleeps, or waits for a lock of a file, while all stand; nothing where one
// does not. What keeps a program alive at its end may sleep again and again.
std::optional<bool> nobody_moves(const Facts& facts, const ThreadFacts& trainer, bool is_at_end) {
  bool one_sleeps = false;
  for (const ThreadFacts& thread : facts.threads) {
    if (thread.role() == Role::kLauncher) continue;  // it waits for the end of the job
    const bool sleeps = thread.need.kind == NeedKind::kNothing;
    const bool keeps_alive = is_at_end && polls_by_sleep(thread);
    const bool stands = (sleeps && &thread == &trainer) || keeps_alive || rests(thread);
    if (!stands || ends_from_outside(facts, thread)) return std::nullopt;
    one_sleeps = one_sleeps || sleeps || thread.need.kind == NeedKind::kFileLock;
  }
  return one_sleeps;
}

// A trainer that stands, and with it all of its job: for something of its own, where no client, no
// signal and no other program is waited for. What a sleep ends, or whoever has a file's lock, may
// be meant to take so long; a trainer's own sleep is.
std::optional<RootCause> standstill_within(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const bool is_at_end = is_at_end_of_program(*trainer.thread);
  const auto one_sleeps = nobody_moves(facts, trainer, is_at_end);
  if (!one_sleeps) return std::nullopt;
  const bool is_long = *one_sleeps ? is_worth_a_warning(facts, trainer)
                                   : is_worth_a_warning(facts, trainer, kWorthAWarning);
  if (!trainer.still || polls_by_sleep(trainer) || !is_long) return std::nullopt;
  std::vector<size_t> way = way_within(facts, rank.trainer);
  if (way.size() == 1) way = way_to_the_end(facts, rank.trainer);
  const ThreadFacts& end = facts.threads[way.back()];
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, end);
  const bool sleeps = trainer.need.kind == NeedKind::kNothing || has_timer(facts, trainer);
  if (sleeps) finding.severity = Severity::kInfo;
  const bool is_kept = is_at_end && way.size() > 1;
  finding.message = is_kept ? name_of(facts, trainer) + " is through, and is kept alive: "
                            : Message("nothing moves: ");
  Message words;
  for (const size_t each : way | std::views::drop(is_kept ? 1 : 0))
    words += (words.empty() ? "" : "; ") + words_of_wait(facts, facts.threads[each]);
  finding.message += words;
  add_remedy_for_answer(finding, facts, end);
  if (is_finalizing(*trainer.thread) && !is_at_end) {
    finding.message +=
        "; its interpreter is ending (Py_FinalizeEx): a daemon thread that had that "
        "lock was ended with it";
    finding.confidence = Confidence::kPossible;
    finding.advise(
        "Let each thread end before the program does: Python ends "
        "daemon threads wherever they are, locks and all",
        {"stop.set(); thread.join()"});
  }
  if (is_at_end) finding.remedies.push_back(remedy_at_end_of_program());
  if (runs_event_loop(*end.thread)) {
    finding.advise("If another thread has set what it waits for, that alone does not wake the loop",
                   {"loop.call_soon_threadsafe(future.set_result, value)"});
  }
  finding.advise("Look at that line, and at what the other threads of the process wait for",
                 {"dlprobe stacks " + own(end.process->key.pid)});
  return RootCause{std::move(finding), way.back()};
}

bool does_nothing(const Facts& facts, const ThreadFacts& thread) {
  if (thread.role() == Role::kLauncher || thread.serves_group) return true;
  const bool polls = polls_by_sleep(thread) && !goes_on(facts, thread);
  return (polls || rests(thread)) && !ends_from_outside(facts, thread);
}

// torch.utils.cpp_extension: one process compiles, the others ask for its lock file every 0.1 s.
bool waits_for_compiler(const ThreadFacts& thread) {
  return std::ranges::any_of(thread.thread->stack, [](const StackFrame& frame) {
    return frame.python && is_of_torch(frame.file) &&
           frame.file.ends_with("torch/utils/file_baton.py");
  });
}

// Trainers none of which does anything: some stand, or all ask again and again whether something
// has come, as ranks do in a barrier made of files.
std::optional<RootCause> trainers_at_rest(const Facts& facts, const std::vector<Rank>& ranks) {
  const std::optional<BootNs> rest = nothing_goes_on_for(facts);
  if (!rest) return std::nullopt;
  std::vector<size_t> standing;
  std::vector<size_t> polling;
  for (const Rank& rank : ranks)
    (polls_by_sleep(facts.threads[rank.trainer]) ? polling : standing).push_back(rank.trainer);
  if (polling.empty()) return std::nullopt;
  std::ranges::stable_sort(standing, {}, [&](size_t each) { return facts.threads[each].since; });
  const size_t end = standing.empty() ? polling.front() : standing.front();
  const ThreadFacts& thread = facts.threads[end];
  Finding finding = finding_about(facts, FindingCode::kConsumerStuck, Confidence::kLikely, thread);
  const bool is_long = standing.empty() ? *rest >= kLongRest : is_worth_a_warning(facts, thread);
  if (!is_long) finding.severity = Severity::kInfo;
  finding.message = "nothing goes on: ";
  for (const size_t each : standing | std::views::take(3))
    finding.message += words_of_wait(facts, facts.threads[each]) + "; ";
  finding.message += join_names(facts, polling) + (polling.size() == 1 ? " polls" : " poll") +
                     place_of(facts.threads[polling.front()]) + ", for " +
                     format_duration(std::chrono::nanoseconds(*rest)) + " at least";
  if (waits_for_compiler(thread)) {
    finding.advise(
        "They wait until another process has compiled an extension of torch. If none "
        "does, one was killed and left its lock file: remove it",
        {"find ${TORCH_EXTENSIONS_DIR:-~/.cache/torch_extensions} -name lock"});
  }
  finding.advise(polling.size() == 1
                     ? "Find out who was to make what it asks for, and whether that one has failed; "
                       "let the loop give up after a time"
                     : "Find out who was to make what they ask for; a barrier with a timeout says "
                       "who has not come",
                 {"dlprobe stacks " + own(thread.process->key.pid)});
  return RootCause{std::move(finding), end};
}

}  // namespace

std::optional<BootNs> nothing_goes_on_for(const Facts& facts) {
  const bool all_rest = std::ranges::all_of(
      facts.threads, [&](const ThreadFacts& each) { return does_nothing(facts, each); });
  if (!all_rest) return std::nullopt;
  std::optional<BootNs> idle;
  for (const ThreadFacts& each : facts.threads) {
    if (each.role() != Role::kTrainer && each.role() != Role::kWorker) continue;
    if (const auto own_idle = idle_for(facts, each))
      idle = std::min(idle.value_or(*own_idle), *own_idle);
  }
  constexpr BootNs kBetweenSamples = 2 * kSecond;
  if (idle && *idle + kBetweenSamples < facts.span) return std::nullopt;
  return std::max(idle.value_or(0), facts.span);
}

std::vector<RootCause> find_slow_workers(const Facts& facts, const Rank& rank) {
  std::vector<RootCause> causes;
  for (const size_t each : rank.workers) {
    const ThreadFacts& worker = facts.threads[each];
    if (worker.has_history && !has_done_its_work(facts, worker)) {
      causes.push_back(slow_worker(facts, each));
    }
  }
  // Who lets clients in ends no wait of one that is connected.
  const auto serves = [&](const RootCause& cause) {
    return facts.threads[cause.thread].need.kind == NeedKind::kNewClient;
  };
  if (!std::ranges::all_of(causes, serves)) std::erase_if(causes, serves);
  // Whoever has the lock before those who ask for it.
  std::ranges::stable_partition(causes, [&](const RootCause& cause) {
    return !may_sleep_for_a_lock(facts, facts.threads[cause.thread]);
  });
  return causes;
}

namespace {

// A main thread that stands, though others of the job move: that is not nothing.
Message describe_one_that_stands(const Facts& facts, const std::vector<RootCause>& causes) {
  constexpr BootNs kWorthSaying = 5 * kSecond;
  for (const ThreadFacts& thread : facts.threads) {
    const BootNs stands = facts.last->at - thread.since;
    const bool is_it = causes.empty() && thread.is_main() && thread.role() == Role::kTrainer &&
                       rests(thread) && thread.need.kind != NeedKind::kNothing &&
                       stands >= kWorthSaying && user_frame(*thread.thread) != nullptr &&
                       !waits_for_batch(facts, thread);
    if (is_it)
      return "others of the job go on, " + words_of_wait(facts, thread) + ", for " +
             format_duration(std::chrono::nanoseconds(stands)) + " so far";
  }
  return {};
}

}  // namespace

Message describe_standstill(const Facts& facts, const std::vector<RootCause>& causes) {
  std::vector<size_t> trainers;
  std::vector<size_t> workers;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    if (thread.role() != Role::kTrainer && thread.role() != Role::kWorker) continue;
    if (!rests(thread) || hands_on(facts, thread)) return describe_one_that_stands(facts, causes);
    if (thread.is_main()) (thread.role() == Role::kTrainer ? trainers : workers).push_back(i);
  }
  if (trainers.empty()) return {};
  const ThreadFacts& first =
      facts.threads[causes.empty() ? trainers.front() : causes.front().thread];
  const OwnWords how_long =
      ", for " + format_duration(std::chrono::nanoseconds(facts.last->at - first.since)) +
      " so far";
  if (!causes.empty()) {
    const Finding& cause = causes.front().finding;
    // Of ranks it says for how long the others have waited.
    const bool is_of_ranks = info(cause.code).code.starts_with("DLP07");
    return is_of_ranks ? cause.message : cause.message + how_long;
  }
  return "nothing moved while dlprobe watched: " + join_names(facts, trainers) +
         (workers.empty() ? "" : " and " + all_of(workers.size(), "worker")) +
         (trainers.size() + workers.size() == 1 ? " waits for " : " wait, the first for ") +
         first.need.words + place_of(first) + how_long;
}

std::vector<RootCause> find_slow_parts(const Facts& facts) {
  const std::vector<Rank> ranks = ranks_of(facts);
  if (ranks.empty()) return orphans_at_work(facts);
  if (facts.span < kWorthAWord) return {};
  if (auto fifos = fifos_without_peer(facts, ranks); !fifos.empty()) return fifos;
  if (ranks.size() > 1) {
    std::vector<RootCause> late = late_ranks(facts, ranks);
    if (auto rest = late.empty() ? trainers_at_rest(facts, ranks) : std::nullopt)
      late.push_back(std::move(*rest));
    return late;
  }
  if (auto spins = computes_since_failure(facts)) return {std::move(*spins)};
  const ThreadFacts& trainer = facts.threads[ranks.front().trainer];
  std::vector<RootCause> causes;
  if (waits_for_batch(facts, trainer)) causes = find_slow_workers(facts, ranks.front());
  if (!causes.empty()) return causes;
  auto cause = busy_in_loader(facts, ranks.front());
  // A sleep ends by itself, unless it is far too long.
  if (!cause && (trainer.need.kind != NeedKind::kNothing || waits_for_gpu(*trainer.thread)))
    cause = stuck_consumer(facts, ranks.front());
  if (!cause) cause = output_kept_open(facts, ranks.front());
  if (!cause) cause = deserted_listener(facts, ranks.front());
  if (!cause) cause = standstill_within(facts, ranks.front());
  if (!cause) cause = trainers_at_rest(facts, ranks);
  if (cause) causes.push_back(std::move(*cause));
  return causes;
}

}  // namespace dlprobe::probes::deadlock
