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

// A library of the program's own in which it computes at every look that shows one, in a forked
// copy, while its parent has a thread there: fork may have copied a lock of that library locked.
std::optional<std::string> library_of_lost_thread(const Facts& facts, const ThreadFacts& worker) {
  const ProcessSnapshot* parent = parent_of(facts, worker.process->key);
  if (parent == nullptr || !is_forked_copy(*facts.run, worker.process->key)) return std::nullopt;
  std::string library;
  for (const Look& look : worker.looks) {
    const std::string seen = blamed_library(*look.thread);
    if (!library.empty() && !seen.empty() && seen != library) return std::nullopt;
    if (!seen.empty()) library = seen;
  }
  const bool has_one = !library.empty() && !is_python(library) &&
                       std::ranges::any_of(parent->threads, [&](const ThreadSnapshot& thread) {
                         return thread.tid != parent->key.pid && is_pool_thread(thread, library);
                       });
  return has_one ? std::optional(library) : std::nullopt;
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
  const bool goes_well = ends_at_work(facts, way) || ends_by_itself(facts, worker) ||
                         ends_by_itself(facts, facts.threads[way.back()]);
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
  const auto lost = one_place ? library_of_lost_thread(facts, worker) : std::nullopt;
  if (lost) {
    finding.message += "; it computes in " + as_path(*lost) +
                       ", of which its parent has a thread, "
                       "and it has not: fork may have copied a lock that is spun on as it was";
    add_remedies_for_fork(finding, facts, worker);
  }
  add_remedy_for_answer(finding, facts, worker);
  const WaitedFile* file = polled_file(worker);
  if (file != nullptr && end_of_file(facts, *file) == nullptr)
    finding.remedies.push_back(remedy_for_file(*file));
  finding.remedies.push_back(remedy_for_long_work(facts, worker));
  return {std::move(finding), ends_at_work(facts, way) ? index : way.back()};
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
  const bool is_due = std::ranges::any_of(wakers_of(facts, trainer, way.back()), [&](size_t each) {
    return ends_when_due(facts, facts.threads[each]);
  });
  if (is_due || trainer.need.kind == NeedKind::kNothing) finding.severity = Severity::kInfo;
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

// A program that an event loop has started, of whose output the loop waits for more, and that waits
// for more input, or its end, from that process alone. kNone: there is none.
size_t program_without_input(const Facts& facts, const ThreadFacts& loop) {
  const auto is_of_loop = [&](size_t each) { return facts.threads[each].process == loop.process; };
  const auto writes = [&](const ChannelEnd& end, const ThreadFacts& program) {
    return end.pid == program.process->key.pid && end.writes &&
           std::ranges::any_of(loop.thread->wait.files, [&](const WaitedFile& file) {
             return other_end(file) == end.inode;
           });
  };
  const auto found = std::ranges::find_if(facts.threads, [&](const ThreadFacts& each) {
    const Need& need = each.need;
    return each.is_main() && need.kind == NeedKind::kChannel && need.relation == "written by" &&
           !need.others_may && !need.providers.empty() &&
           std::ranges::all_of(need.providers, is_of_loop) &&
           is_started_by_other(facts, each, loop) &&
           std::ranges::any_of(facts.last->channel_ends,
                               [&](const ChannelEnd& end) { return writes(end, each); });
  });
  return found == facts.threads.end() ? Facts::kNone
                                      : static_cast<size_t>(found - facts.threads.begin());
}

// Whose main task waits for an asyncio.Event or the like, maybe until Ctrl-C.
bool is_parked_in_loop(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.tasks, [](const WaitingTasks& tasks) {
    return tasks.is_main && std::ranges::any_of(tasks.stack, [](const StackFrame& frame) {
             return is_of_standard_library(frame.file, "asyncio/locks.py");
           });
  });
}

// A trainer in its event loop, and the program whose output it waits for: nobody moves.
std::optional<RootCause> loop_without_output(const Facts& facts, const Rank& rank) {
  const ThreadFacts& trainer = facts.threads[rank.trainer];
  const bool stands = trainer.still && runs_event_loop(*trainer.thread) &&
                      !is_parked_in_loop(*trainer.thread) &&
                      !has_timeout(trainer.thread->wait, facts.machine);
  const size_t program = stands ? program_without_input(facts, trainer) : Facts::kNone;
  if (program == Facts::kNone || nobody_moves(facts, trainer, false) != false) return std::nullopt;
  Finding finding = finding_about(facts, FindingCode::kLockCycle, Confidence::kLikely, trainer);
  const ThreadFacts& reader = facts.threads[program];
  finding.processes.push_back(reader.process->key);
  finding.message = words_of_wait(facts, reader) + "; " + words_of_wait(facts, trainer) +
                    ", for the output of that program: each waits for the other";
  finding.advise("End its input once all is written: the program waits for more",
                 {"out, _ = await process.communicate(data)", "process.stdin.close()"},
                 "dlprobe deadlock --pid PID");
  return RootCause{std::move(finding), rank.trainer};
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

// Of a trainer without children: it asks for ends that its own handler may have taken. PyTorch's
// DataLoader sets one, which takes none.
bool may_have_taken_ends(const Facts& facts, const ThreadFacts& trainer) {
  const bool has_child = std::ranges::any_of(facts.threads, [&](const ThreadFacts& each) {
    return each.info != nullptr && each.info->ppid == trainer.process->key.pid;
  });
  return !has_child && trainer.info != nullptr && !has_data_loader(*facts.run) &&
         trainer.info->catches(SIGCHLD).value_or(false);
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
  if (standing.empty() && may_have_taken_ends(facts, thread)) {
    finding.message += "; it has no child (any more), and a handler for SIGCHLD";
    finding.advise(
        "A handler that takes the ends of all children leaves multiprocessing none: is_alive() "
        "stays true for ever. Wait for the pids of your own programs there, or have no handler",
        {"os.waitpid(pid, os.WNOHANG)  # not: os.waitpid(-1, ...)",
         "signal.signal(signal.SIGCHLD, signal.SIG_DFL)"});
  }
  if (waits_for_compiler(thread)) {
    finding.advise(
        "They wait until another process has compiled an extension of torch. If none "
        "does, one was killed and left its lock file: remove it",
        {"find ${TORCH_EXTENSIONS_DIR:-~/.cache/torch_extensions} -name lock"});
  }
  finding.advise(
      polling.size() == 1
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
  const auto is_slow = [&](size_t each) {
    const ThreadFacts& worker = facts.threads[each];
    return worker.has_history && !has_done_its_work(facts, worker);
  };
  for (const size_t each : rank.workers) {
    if (!is_slow(each)) continue;
    RootCause cause = slow_worker(facts, each);
    // Who waits for another one that is slow is no news.
    const bool is_behind =
        cause.thread != each && facts.threads[cause.thread].need.kind == NeedKind::kNothing &&
        std::ranges::count(rank.workers, cause.thread) > 0 && is_slow(cause.thread);
    if (!is_behind) causes.push_back(std::move(cause));
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
  if (!cause) cause = loop_without_a_task(facts, ranks.front());
  if (!cause) cause = loop_without_output(facts, ranks.front());
  if (!cause) cause = standstill_within(facts, ranks.front());
  if (!cause) cause = trainers_at_rest(facts, ranks);
  if (cause) causes.push_back(std::move(*cause));
  return causes;
}

}  // namespace dlprobe::probes::deadlock
