// What the rules about ranks have to know of each, from the facts of this machine.

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <utility>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "lib/model/run_words.h"
#include "probes/deadlock/patience.h"
#include "probes/deadlock/ranks.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::deadlock {
namespace {

RankMotion motion_of(const ThreadFacts& thread) {
  constexpr BootNs kBetweenTimeouts = 2 * kSecond;
  if (thread.still) return RankMotion::kStill;
  if (!thread.waits_again) return RankMotion::kRuns;
  const Look& first = thread.looks.back();
  const uint64_t wakes = thread.thread->timeslices - first.thread->timeslices;
  const bool is_seldom =
      std::cmp_less_equal(wakes, (thread.looks.front().at - first.at) / kBetweenTimeouts);
  return is_seldom ? RankMotion::kSeldom : RankMotion::kAgain;
}

// Not for the GPU, for a call that it made, or at the end of its program: these take their time.
bool waits_for_all(const Look& look) {
  const auto in = collective_of(*look.thread);
  return in && !in->is_on_gpu && !in->is_call && !in->is_end;
}

// One that waits for the first batch of another rank is met in the same wait each time.
RankLooks looks_at(const ThreadFacts& thread) {
  RankLooks looks{.motion = motion_of(thread)};
  for (size_t i = 1; i < thread.looks.size(); ++i) {
    const Look& look = thread.looks[i - 1];
    ++looks.all;
    if (waits_for_all(look) && look.thread->cpu_ns != thread.looks[i].thread->cpu_ns)
      ++looks.waiting;
    if (is_in_loader(*look.thread)) ++looks.in_loader;
  }
  return looks;
}

bool waited_before(const ThreadFacts& thread) {
  return std::ranges::any_of(
      thread.looks, [](const Look& look) { return collective_of(*look.thread).has_value(); });
}

MeetingKind kind_of(const Collective& in) {
  if (in.is_on_gpu) return MeetingKind::kGpu;
  if (in.is_rendezvous) return MeetingKind::kRendezvous;
  if (in.is_message) return MeetingKind::kMessage;
  if (in.is_call) return MeetingKind::kCall;
  return in.is_end ? MeetingKind::kEnd : MeetingKind::kCollective;
}

// Of a running thread a native stack may not be read; its Python frames are there all the same.
bool has_native_frames(const Look& look) {
  return !std::ranges::all_of(look.thread->stack, &StackFrame::python);
}

// It was in one and the same operation all the time: asleep in it, or, as MPI libraries do, asking
// again and again whether the others have come, and asleep at no futex. What wakes now and then may
// be in another round, but of the meeting, which there is once.
bool stands_in_it(const ThreadFacts& thread, const Collective& in, const RankState& state) {
  if (state.sleeps() || in.is_end) return true;
  const bool may_be_another = thread.waits_again && !in.is_rendezvous;
  return !may_be_another && thread.looks.size() > 1 && lasts_long(thread, thread.looks.size()) &&
         std::ranges::all_of(thread.looks, [&](const Look& look) {
           return (in.is_rendezvous || !look.thread->futex) &&
                  (!has_native_frames(look) || collective_of(*look.thread) == in) &&
                  same_user_frames(*look.thread, *thread.thread);
         });
}

// What the rank's memory told of its collectives at the looks that count: once others have given
// up, it goes on.
auto records_of(const Facts& facts, const ThreadFacts& thread) {
  return facts.run->snapshots | std::views::filter([&](const TreeSnapshot& snapshot) {
           return snapshot.at >= thread.looks.back().at && snapshot.at <= facts.last->at;
         }) |
         std::views::transform([&](const TreeSnapshot& snapshot) {
           return live_record(snapshot, thread.process->key);
         });
}

// Whether it has asked for another collective between two looks, however alike they are: a rank
// that sleeps in each step is met in the same sleep each time.
bool has_met_meanwhile(const Facts& facts, const ThreadFacts& thread) {
  const FlightRecord* last = live_record(*facts.last, thread.process->key);
  if (last == nullptr) return false;
  return std::ranges::any_of(records_of(facts, thread), [&](const FlightRecord* then) {
    return then != nullptr && std::ranges::any_of(last->groups, [&](const FlightGroup& group) {
             const auto before = std::ranges::find(then->groups, group.name, &FlightGroup::name);
             return before != then->groups.end() && before->enqueued != group.enqueued;
           });
  });
}

// The collective that the rank has asked for and that is complete at no look: who waits for the GPU
// waits for it. Null where its memory tells of none, or it was not looked at for long enough.
const FlightGroup* pending_all_along(const Facts& facts, const ThreadFacts& thread) {
  const FlightRecord* last = live_record(*facts.last, thread.process->key);
  if (last == nullptr || thread.looks.size() < 2 || !lasts_long(thread, thread.looks.size()))
    return nullptr;
  const auto is_at = [](const FlightRecord* record, const FlightGroup& group) {
    return record != nullptr && std::ranges::any_of(record->groups, [&](const FlightGroup& each) {
             return each.name == group.name && each.enqueued == group.enqueued &&
                    each.completed == group.completed;
           });
  };
  const auto pending = std::ranges::find_if(last->groups, [&](const FlightGroup& group) {
    return group.is_pending() &&
           std::ranges::all_of(records_of(facts, thread),
                               [&](const FlightRecord* record) { return is_at(record, group); });
  });
  return pending == last->groups.end() ? nullptr : &*pending;
}

// Of NCCL: what is pending all along is what the rank waits for.
Meeting meeting_in(const FlightGroup& pending) {
  const bool is_message = pending.operation == "send" || pending.operation == "recv";
  return {.kind = is_message ? MeetingKind::kMessage : MeetingKind::kCollective,
          .operation = pending.operation,
          .stands = true};
}

// Where it waits for ranks, and whether all looks met it in one and the same wait.
void find_meeting(const Facts& facts, const ThreadFacts& thread,
                  const std::optional<RankWait>& wait, RankState& state) {
  const bool may_be_pending = waits_for_gpu(*thread.thread) || (!wait && polls_by_sleep(thread));
  const FlightGroup* pending = may_be_pending ? pending_all_along(facts, thread) : nullptr;
  if (pending != nullptr) {
    state.meeting = meeting_in(*pending);
  } else if (wait) {
    state.meeting = Meeting{.kind = kind_of(wait->in), .operation = wait->in.operation};
    state.meeting->stands = stands_in_it(thread, wait->in, state);
  } else if (state.looks.motion == RankMotion::kRuns && waited_before(thread)) {
    state.looks.motion = RankMotion::kComesAndGoes;
  }
  if (has_met_meanwhile(facts, thread)) {
    state.looks.motion = RankMotion::kRuns;
    if (state.meeting) state.meeting->stands = false;
  }
}

// It computes next to nothing between its sleeps, as who asks for a file or a flag.
bool only_polls(const ThreadFacts& thread) {
  constexpr double kMostOfAsking = 0.005;  // of a core
  return polls_by_sleep(thread) && core_share(thread, thread.looks.size()).run < kMostOfAsking;
}

RankDoing doing_of(const Facts& facts, const ThreadFacts& thread, const RankState& state) {
  if (state.meeting) return RankDoing::kMeets;
  if (waits_for_batch(facts, thread)) return RankDoing::kWaitsForBatch;
  if (waits_for_gpu(*thread.thread)) return RankDoing::kWaits;
  if (!state.sleeps()) return only_polls(thread) ? RankDoing::kPolls : RankDoing::kWorks;
  if (thread.need.kind == NeedKind::kNothing) return RankDoing::kSleeps;
  return thread.need.kind == NeedKind::kChild ? RankDoing::kWaitsForChild : RankDoing::kWaits;
}

// What is wrong with the rank itself: findings about ranks say what others wait for.
std::optional<RankCause> cause_of(const Facts& facts, const Rank& rank,
                                  const std::vector<RootCause>& known) {
  constexpr std::array kOfRanks = {FindingCode::kRankBehind,  FindingCode::kCollectiveMismatch,
                                   FindingCode::kUnevenData,  FindingCode::kRankDead,
                                   FindingCode::kSlowestRank, FindingCode::kConsumerStuck};
  const auto is_its = [&](const RootCause& cause) {
    const auto is_of = [&](size_t main) {
      return facts.threads[main].process == facts.threads[cause.thread].process;
    };
    return std::ranges::count(kOfRanks, cause.finding.code) == 0 &&
           (is_of(rank.trainer) || std::ranges::any_of(rank.workers, is_of));
  };
  const auto found = std::ranges::find_if(known, is_its);
  if (found == known.end()) return std::nullopt;
  return RankCause{.code = found->finding.code, .severity = found->finding.severity};
}

// An exception that ended the thread which would have woken the rank, or the rank's own program.
std::optional<RankCause> exception_of(const Facts& facts, const RankState& state,
                                      const ThreadFacts& thread) {
  constexpr auto kOfOwnThreads = std::to_array(
      {NeedKind::kNotification, NeedKind::kLock, NeedKind::kOwnedLock, NeedKind::kJoin});
  const bool needs_a_thread =
      state.doing == RankDoing::kWaits && std::ranges::count(kOfOwnThreads, thread.need.kind) > 0;
  const bool is_at_end = state.meeting && state.meeting->kind == MeetingKind::kEnd;
  for (const StartEvent* event : events_of(*facts.run, StartEventKind::kFailed)) {
    if (event->process != state.process) continue;
    const bool ended_thread = event->ended == Ended::kThread && event->wanted.empty();
    const bool ended_program = event->ended == Ended::kProcess && (is_at_end || needs_a_thread);
    if ((ended_thread && needs_a_thread) || ended_program)
      return RankCause{.code = FindingCode::kUncaughtException, .severity = Severity::kError};
  }
  return std::nullopt;
}

RankState ended_rank(const ProcessInfo& info, const ProcessExit& exit, BootNs now) {
  RankState state{.id = info.rank,
                  .process = info.key,
                  .role = info.role,
                  .doing = RankDoing::kEnded,
                  .lasts = std::max<BootNs>(now - exit.at, 0)};
  if (exit.wait_status) state.wait_status = *exit.wait_status;
  return state;
}

}  // namespace

RankState state_of(const Facts& facts, const Rank& rank, const std::vector<RootCause>& known) {
  const auto wait = wait_of(facts, rank);
  const size_t shown_by = thread_of(facts, rank);
  const ThreadFacts& thread = facts.threads[shown_by];
  RankState state{.process = thread.process->key, .role = thread.role()};
  const JobRank* id = thread.info == nullptr ? nullptr : thread.info->rank_of_several();
  if (id != nullptr) state.id = *id;
  state.looks = looks_at(thread);
  find_meeting(facts, thread, wait, state);
  state.doing = doing_of(facts, thread, state);
  if (state.doing == RankDoing::kWaits || state.doing == RankDoing::kWaitsForChild)
    state.other.words = waits_for_gpu(*thread.thread) ? Message("the GPU") : thread.need.words;
  state.other.has_no_end =
      state.doing == RankDoing::kWaits && thread.doomed && !may_be_woken_by_signal(thread);
  const ThreadSnapshot& shown = *facts.threads[wait ? wait->place : shown_by].thread;
  const StackFrame* frame = user_frame(shown);
  if (frame == nullptr) frame = python_frame(shown);
  if (frame != nullptr) state.at = *frame;
  state.other.library = blamed_library(*thread.thread);
  // One that asks again and again has done so for as long as it was watched.
  const bool moves = state.meeting && !state.meeting->stands;
  if (!moves)
    state.lasts = facts.last->at - (state.sleeps() ? thread.since : thread.looks.back().at);
  // It waited on until its group was given up.
  if (const auto group = ended_group(*facts.run); group && state.meeting && !moves)
    state.lasts += std::max<BootNs>(0, group->at - facts.last->at);
  state.is_overdue = is_worth_a_warning(facts, thread);
  state.cause = cause_of(facts, rank, known);
  if (!state.cause) state.cause = exception_of(facts, state, thread);
  state.flight = thread.process->flight;
  state.data.started = std::max(std::ranges::count(events_of(*facts.run, StartEventKind::kStarted),
                                                   state.process, &StartEvent::process),
                                thread.process->processes_made);
  state.data.batches = thread.process->batches_taken;
  for (const size_t worker : rank.workers)
    state.workers.push_back({.pid = facts.threads[worker].process->key.pid});
  return state;
}

std::vector<RankState> ended_ranks(const Run& run) {
  std::vector<RankState> ended;
  const BootNs now = span_of(run).end;
  for (const ProcessInfo& info : run.processes) {
    const ProcessExit* exit = run.find_exit(info.key);
    if (exit != nullptr && info.role == Role::kTrainer && info.rank_of_several() != nullptr)
      ended.push_back(ended_rank(info, *exit, now));
  }
  return ended;
}

std::optional<RankState> unnamed_end(const Run& run, int32_t parent, const JobRank& id) {
  std::optional<RankState> found;
  for (const ProcessInfo& info : run.processes) {
    const ProcessExit* exit = run.find_exit(info.key);
    if (info.ppid != parent || exit == nullptr || info.rank) continue;
    if (found) return std::nullopt;
    found = ended_rank(info, *exit, span_of(run).end);
    found->id = id;
  }
  return found;
}

std::vector<RankState> rank_states(const Facts& facts, const std::vector<RootCause>& known,
                                   const WaitGraph& graph) {
  std::map<int32_t, const WaitNode*> mains;
  for (const WaitNode& node : graph.nodes)
    if (node.is_thread && node.process && node.tid == node.process->pid) mains[node.tid] = &node;
  std::vector<RankState> states;
  for (const Rank& rank : ranks_of(facts)) {
    RankState state = state_of(facts, rank, known);
    for (RankWorker& worker : state.workers) {
      const auto main = mains.find(worker.pid);
      if (main == mains.end()) continue;
      worker.activity = main->second->activity;
      if (main->second->since) worker.lasts = facts.last->at - *main->second->since;
    }
    if (state.id) states.push_back(std::move(state));
  }
  return states;
}

}  // namespace dlprobe::probes::deadlock
