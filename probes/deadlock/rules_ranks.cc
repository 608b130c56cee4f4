#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <utility>

#include "lib/base/units.h"
#include "probes/deadlock/rules.h"
#include "probes/facts/deaths.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

/// A rank, with what the last look shows of it.
struct Member {
  Rank rank;
  std::optional<JobRank> id;
  std::optional<RankWait> wait;  ///< what it waits in with others of its job

  std::string operation() const { return wait ? wait->in.operation : ""; }
  bool is_end() const { return wait && wait->in.is_end; }
  bool is_on_gpu() const { return wait && wait->in.is_on_gpu; }
};

/// The ranks of one job that the last snapshot shows.
struct Job {
  const Facts* facts = nullptr;
  std::vector<Member> members;

  const ThreadFacts& thread(const Member& member) const {
    return facts->threads[member.rank.trainer];
  }
  /// The thread that stands in the collective; of one that is in none its main thread.
  const ThreadFacts& waiter(const Member& member) const {
    return facts->threads[member.wait ? member.wait->thread : member.rank.trainer];
  }
  Message place(const Member& member) const {
    return place_of(facts->threads[member.wait ? member.wait->place : member.rank.trainer]);
  }
};

// Who waits for the GPU may wait for its own work: where others stand in a collective that a
// stack proves, that is no sign of another one.
void keep_what_is_proved(Job& job) {
  const bool any_is_proved = std::ranges::any_of(
      job.members, [](const Member& each) { return each.wait && !each.is_on_gpu(); });
  for (Member& each : job.members)
    if (any_is_proved && each.is_on_gpu()) each.wait.reset();
}

// Ranks whose launcher has not told their job are of one job with those that one process started.
std::string name_of_job(const ProcessInfo& rank) {
  const bool is_told = rank.rank && !rank.rank->job.empty();
  return is_told ? rank.rank->job : "below " + std::to_string(rank.ppid);
}

std::vector<Job> jobs_of(const Facts& facts) {
  std::map<std::string, Job> jobs;
  for (Rank& rank : ranks_of(facts)) {
    const ThreadFacts& thread = facts.threads[rank.trainer];
    Member member{.rank = std::move(rank)};
    member.wait = wait_of(facts, member.rank);
    const JobRank* id = thread.info == nullptr ? nullptr : thread.info->rank_of_several();
    if (id != nullptr) member.id = *id;
    Job& job = jobs[id == nullptr ? "" : name_of_job(*thread.info)];
    job.facts = &facts;
    job.members.push_back(std::move(member));
  }
  std::vector<Job> found;
  std::ranges::move(jobs | std::views::values, std::back_inserter(found));
  std::ranges::for_each(found, keep_what_is_proved);
  return found;
}

// It slept all the time, or woke as seldom as a timeout lets it.
bool sleeps_on(const ThreadFacts& thread) {
  constexpr BootNs kBetweenTimeouts = 2 * kSecond;
  const Look& first = thread.looks.back();
  const uint64_t wakes = thread.thread->timeslices - first.thread->timeslices;
  return thread.still ||
         (thread.waits_again &&
          std::cmp_less_equal(wakes, (thread.looks.front().at - first.at) / kBetweenTimeouts));
}

// It was in one and the same operation all the time: asleep in it, or, as MPI libraries do, asking
// again and again whether the others have come. What wakes now and then may be in another round,
// but of the meeting, which there is once.
bool stands_in_it(const ThreadFacts& thread, const Collective& in) {
  if (sleeps_on(thread) || in.is_end) return true;
  const bool may_be_another = thread.waits_again && !in.is_rendezvous;
  return !may_be_another && thread.looks.size() > 1 && lasts_long(thread, thread.looks.size()) &&
         std::ranges::all_of(thread.looks, [&](const Look& look) {
           return collective_of(*look.thread) == in &&
                  same_user_frames(*look.thread, *thread.thread);
         });
}

std::vector<size_t> trainers_of(const std::vector<const Member*>& members) {
  std::vector<size_t> trainers;
  trainers.reserve(members.size());
  for (const Member* each : members)
    trainers.push_back(each->rank.trainer);
  return trainers;
}

/// The ranks that wait in a collective operation, and those that do not.
struct Sides {
  std::vector<const Member*> waiting;
  std::vector<const Member*> behind;
  bool all_waiting_stand = true;
  bool on_gpu = false;  ///< those that wait do so on the GPU, maybe for their own work
};

Sides sides_of(const Job& job) {
  Sides sides;
  for (const Member& member : job.members) {
    (member.wait ? sides.waiting : sides.behind).push_back(&member);
    if (member.wait && !stands_in_it(job.waiter(member), member.wait->in))
      sides.all_waiting_stand = false;
  }
  sides.on_gpu = std::ranges::any_of(sides.waiting, &Member::is_on_gpu);
  // Where a GPU is always busy a rank between two of its waits is behind by chance.
  const bool any_comes_and_goes = std::ranges::any_of(sides.behind, [&](const Member* each) {
    return std::ranges::any_of(job.thread(*each).looks, [](const Look& look) {
      return collective_of(*look.thread).has_value();
    });
  });
  if (sides.on_gpu && any_comes_and_goes) sides.all_waiting_stand = false;
  return sides;
}

// Since when it stands in its operation; one that asks again and again, as long as it was watched.
BootNs waits_since(const ThreadFacts& thread) {
  return sleeps_on(thread) ? thread.since : thread.looks.back().at;
}

// Who waits for the longest.
const Member& first_to_wait(const Job& job, const std::vector<const Member*>& waiting) {
  return **std::ranges::min_element(
      waiting, {}, [&](const Member* each) { return waits_since(job.waiter(*each)); });
}

// " wait in all_reduce", of ranks that wait in the same.
Message waits_in(const std::vector<const Member*>& waiting) {
  const Message waits = waiting.size() == 1 ? " waits " : " wait ";
  const Member& one = *waiting.front();
  if (one.is_on_gpu()) return waits + "for the GPU, where a collective may be pending";
  return waits + "in " + as_name(one.operation());
}

// "ranks 0, 2 wait in all_reduce (main, train.py:41), for 40 s so far"
Message waits_of(const Job& job, const std::vector<const Member*>& waiting) {
  const Member& first = first_to_wait(job, waiting);
  const BootNs waited = job.facts->last->at - waits_since(job.waiter(first));
  return name_ranks(*job.facts, trainers_of(waiting)) + waits_in(waiting) + job.place(first) +
         ", for " + format_duration(std::chrono::nanoseconds(waited)) + " so far";
}

// What a rank does instead of what the others wait for.
Message what_it_does(const Facts& facts, const Member& member) {
  const ThreadFacts& thread = facts.threads[member.rank.trainer];
  if (waits_for_batch(facts, thread)) return " waits for a batch of its loader" + place_of(thread);
  const auto in = collective_of(*thread.thread);
  if (in && in->is_on_gpu) return " waits for the GPU" + place_of(thread);
  if (!sleeps_on(thread)) return " is at work" + place_of(thread);
  if (thread.need.kind == NeedKind::kNothing) return " sleeps" + place_of(thread);
  return " waits for " + thread.need.words + place_of(thread);
}

// What is already known of the rank: a cause in one of its processes.
const RootCause* cause_of(const Facts& facts, const Member& member,
                          const std::vector<RootCause>& known) {
  const auto is_its = [&](size_t thread) {
    const auto is_of = [&](size_t main) {
      return facts.threads[main].process == facts.threads[thread].process;
    };
    return is_of(member.rank.trainer) || std::ranges::any_of(member.rank.workers, is_of);
  };
  const auto found =
      std::ranges::find_if(known, [&](const RootCause& cause) { return is_its(cause.thread); });
  return found == known.end() ? nullptr : &*found;
}

void add_remedy_to_look(Finding& finding, const ThreadFacts& thread) {
  finding.remedies.push_back(
      {.title =
           "Look at what that rank does there; work that one rank does alone (a checkpoint, an "
           "evaluation) belongs before a barrier that is not timed, or on all ranks",
       .commands = {"dlprobe stacks " + own(thread.process->key.pid)}});
}

// Of a collective on the GPU the stacks do not tell which it is.
void add_remedy_to_record(Finding& finding) {
  finding.remedies.push_back(
      {.title = "Let each rank keep its last collectives, and write them when one times out: "
                "torchfrtrace then says which rank is missing in which",
       .commands = {"TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1"}});
}

// A rank that others wait for.
RootCause rank_behind(const Job& job, const Sides& sides, const Member& member,
                      const RootCause* cause) {
  const Facts& facts = *job.facts;
  const ThreadFacts& thread = job.thread(member);
  Finding finding = finding_about(
      facts, FindingCode::kRankBehind,
      thread.still && !sides.on_gpu ? Confidence::kCertain : Confidence::kLikely, thread);
  finding.message = describe(*facts.run, thread.process->key) + what_it_does(facts, member) +
                    ", and " + waits_of(job, sides.waiting);
  const Member& first = first_to_wait(job, sides.waiting);
  const ThreadFacts& waiter = job.waiter(first);
  // Who takes messages may wait for any of several ranks that work by turns.
  const bool is_message = first.wait && first.wait->in.is_message;
  const bool stands_long = thread.still && facts.last->at - thread.since >= kWorthAWarning;
  const bool stands = is_message ? stands_long : sleeps_on(thread);
  const bool is_long = !is_message && facts.last->at - waits_since(waiter) >= 2 * kWorthAWarning;
  if (cause != nullptr) {
    finding.consequence_of = cause->finding.code;
    finding.severity = std::min(finding.severity, cause->finding.severity);
  } else if (stands ? !is_worth_a_warning(facts, waiter) : !is_long) {
    finding.severity = Severity::kInfo;  // a rank may save a checkpoint
  }
  finding.prove(count_fact("waiting_ranks", sides.waiting.size(), "stacks", facts.last->at));
  finding.prove(text_fact("collective", as_name(sides.waiting.front()->operation()), "stacks",
                          facts.last->at));
  add_remedy_to_look(finding, thread);
  if (sides.on_gpu) add_remedy_to_record(finding);
  return {std::move(finding), member.rank.trainer};
}

// Those behind, each with what its loader waits for, as far as that is not known.
std::vector<RootCause> ranks_behind(const Job& job, const Sides& sides,
                                    const std::vector<RootCause>& known) {
  const Facts& facts = *job.facts;
  std::vector<RootCause> causes;
  for (const Member* member : sides.behind) {
    const RootCause* cause = cause_of(facts, *member, known);
    std::vector<RootCause> of_loader;
    if (cause == nullptr && waits_for_batch(facts, job.thread(*member)))
      of_loader = find_slow_workers(facts, member->rank);
    if (!of_loader.empty()) cause = &of_loader.front();
    RootCause behind = rank_behind(job, sides, *member, cause);
    std::ranges::move(of_loader, std::back_inserter(causes));
    causes.push_back(std::move(behind));
  }
  return causes;
}

/// Ranks of the job that the last look does not show.
struct Missing {
  std::vector<int32_t> numbers;
  bool must_be_here = false;  ///< all ranks of the job are on this machine
  bool may_be_here = false;   ///< no launcher tells which processes of this machine are ranks
};

Missing missing_of(const Job& job) {
  Missing missing;
  std::set<int32_t> here;
  std::optional<JobRank> one;
  for (const Member& member : job.members) {
    if (!member.id) return {};
    here.insert(member.id->rank);
    one = member.id;
  }
  if (!one || !one->world_size) return {};
  for (int32_t rank = 0; rank < *one->world_size; ++rank)
    if (!here.contains(rank)) missing.numbers.push_back(rank);
  const std::string& meets_at = one->job;
  missing.may_be_here = meets_at.empty();
  const bool is_local = meets_at.starts_with("127.") || meets_at.starts_with("localhost:");
  missing.must_be_here =
      is_local || (one->local_world_size && one->local_world_size == one->world_size);
  return missing;
}

/// A missing rank that was seen to end.
struct RankEnd {
  int32_t rank = 0;
  const ProcessExit* exit = nullptr;  ///< null: none was
  bool is_well() const { return exit != nullptr && exit->wait_status && *exit->wait_status == 0; }
};

// Of the missing ranks the first that ended while dlprobe watched.
RankEnd first_end(const Job& job, const Missing& missing) {
  const Run& run = *job.facts->run;
  RankEnd first;
  const std::string name = name_of_job(*job.thread(job.members.front()).info);
  for (const ProcessInfo& info : run.processes) {
    const bool is_one = info.role == Role::kTrainer && info.rank && name_of_job(info) == name &&
                        std::ranges::count(missing.numbers, info.rank->rank) > 0;
    const ProcessExit* exit = is_one ? run.find_exit(info.key) : nullptr;
    const bool is_first = exit != nullptr && (first.exit == nullptr || exit->at < first.exit->at);
    if (is_first && info.rank) first = {.rank = info.rank->rank, .exit = exit};
  }
  return first;
}

OwnWords list(const std::vector<int32_t>& numbers) {
  constexpr size_t kMost = 8;
  OwnWords text = numbers.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(kMost, numbers.size()); ++i)
    text += (i == 0 ? "" : ", ") + own(numbers[i]);
  if (numbers.size() > kMost) text += " and " + own(numbers.size() - kMost) + " more";
  return text;
}

Message words_of_end(const ProcessExit& end) {
  if (!end.wait_status) return "has ended";
  const int status = *end.wait_status;
  if (WIFSIGNALED(status)) return "was killed by " + signal_name(WTERMSIG(status));
  return "has ended with exit code " + own(WEXITSTATUS(status));
}

void add_remedies_for_uneven_data(Finding& finding) {
  finding.remedies.push_back({.title = "Give every rank the same number of batches",
                              .commands = {"DistributedSampler(dataset, drop_last=True)",
                                           "DataLoader(..., drop_last=True)"}});
  finding.remedies.push_back(
      {.title = "Or let ranks that are through take part until the last one is (PyTorch: "
                "torch.distributed.algorithms.join)",
       .commands = {"with Join([model]): ..."}});
}

Message words_of_gone(const RankEnd& end, const Missing& missing, const Message& waits) {
  if (end.exit != nullptr)
    return "rank " + own(end.rank) + " " + words_of_end(*end.exit) + ", and " + waits;
  const Message those = waits + "; " + list(missing.numbers);
  if (!missing.must_be_here)
    return those +
           (missing.may_be_here ? ", which dlprobe did not look at," : ", on other nodes,") +
           " may not have come, or cannot be reached";
  return those + (missing.numbers.size() == 1 ? " of this job is" : " of this job are") +
         " not on this machine, where all its ranks meet: not started, or gone";
}

void add_remedies_for_gone(Finding& finding) {
  if (finding.code == FindingCode::kUnevenData) return add_remedies_for_uneven_data(finding);
  const bool is_elsewhere = finding.code == FindingCode::kRankBehind;
  finding.remedies.push_back(
      {.title = is_elsewhere ? "Look at the ranks of the other nodes"
                             : "Find out how that rank ended: its own log, the launcher's",
       .commands = {is_elsewhere ? "dlprobe attach PID" : "dlprobe run -- COMMAND"}});
}

// Ranks that have ended, or are not there: the others wait for the end of a timeout.
std::optional<RootCause> ranks_gone(const Job& job, const Sides& sides) {
  const Missing missing = missing_of(job);
  if (missing.numbers.empty()) return std::nullopt;
  const Facts& facts = *job.facts;
  const Member& first = first_to_wait(job, sides.waiting);
  const ThreadFacts& thread = job.waiter(first);
  const RankEnd end = first_end(job, missing);
  if (end.exit == nullptr && sides.on_gpu) return std::nullopt;
  FindingCode code = FindingCode::kRankDead;
  if (end.is_well()) code = FindingCode::kUnevenData;
  if (end.exit == nullptr && !missing.must_be_here) code = FindingCode::kRankBehind;
  Finding finding = finding_about(
      facts, code, end.exit == nullptr || sides.on_gpu ? Confidence::kLikely : Confidence::kCertain,
      thread);
  if (!is_worth_a_warning(facts, thread)) finding.severity = Severity::kInfo;
  finding.message = words_of_gone(end, missing, waits_of(job, sides.waiting));
  finding.prove(
      count_fact("missing_ranks", missing.numbers.size(), "/proc/PID/environ", facts.last->at));
  finding.prove(count_fact("waiting_ranks", sides.waiting.size(), "stacks", facts.last->at));
  if (code == FindingCode::kRankBehind) finding.discriminator = "elsewhere";
  add_remedies_for_gone(finding);
  return RootCause{std::move(finding), first.rank.trainer};
}

/// Ranks that stand at the same place.
struct Group {
  std::string operation;
  Message place;
  std::vector<const Member*> members;
};

std::vector<Group> groups_of(const Job& job, const std::vector<const Member*>& waiting) {
  std::vector<Group> groups;
  for (const Member* member : waiting) {
    const Message place = job.place(*member);
    const auto same = std::ranges::find_if(groups, [&](const Group& each) {
      return each.operation == member->operation() && each.place == place;
    });
    if (same != groups.end()) {
      same->members.push_back(member);
    } else {
      groups.push_back({.operation = member->operation(), .place = place, .members = {member}});
    }
  }
  std::ranges::stable_sort(groups, std::ranges::greater{},
                           [](const Group& each) { return each.members.size(); });
  return groups;
}

// Of ranks that run the same program, those that are through with their data have no workers, or
// have come to the end of the program.
const Group* group_without_data(const std::vector<Group>& groups) {
  const auto at_end = std::ranges::find_if(groups, [](const Group& group) {
    return std::ranges::all_of(group.members, [](const Member* each) { return each->is_end(); });
  });
  if (at_end != groups.end() && groups.size() > 1) return &*at_end;
  const auto has_workers = [](const Member* each) { return !each->rank.workers.empty(); };
  const auto through = std::ranges::find_if(
      groups, [&](const Group& group) { return std::ranges::none_of(group.members, has_workers); });
  const bool others_have = std::ranges::any_of(
      groups, [&](const Group& group) { return std::ranges::all_of(group.members, has_workers); });
  return through != groups.end() && others_have ? &*through : nullptr;
}

Message describe_groups(const Facts& facts, const std::vector<Group>& groups) {
  Message text;
  for (const Group& group : groups) {
    text += (text.empty() ? "" : "; ") + name_ranks(facts, trainers_of(group.members)) +
            waits_in(group.members) + group.place;
  }
  return text;
}

// Whether ranks at one and the same place may take part in it round after round.
bool may_go_on(const Job& job, const Sides& sides) {
  // A GPU that always has work looks like that.
  if (sides.on_gpu) return true;
  const bool all_sleep = std::ranges::all_of(
      sides.waiting, [&](const Member* each) { return sleeps_on(job.waiter(*each)); });
  // Those that ask again and again may be in another round: where none is ever seen at anything
  // else it is most likely the same.
  const bool any_wakes = std::ranges::any_of(sides.waiting, [&](const Member* each) {
    return !sleeps_on(job.waiter(*each)) && job.waiter(*each).waits_again;
  });
  return !all_sleep && any_wakes;
}

// What those are that are through with their data, while others are not.
Message words_of_through(const Facts& facts, const Group& through) {
  return ": " + name_ranks(facts, trainers_of(through.members)) +
         (through.members.size() == 1 ? " is" : " are") +
         (through.members.front()->is_end() ? " at the end of the program, be it by an exception"
                                            : " through with the data, without workers any more") +
         ", the others are in the middle of it";
}

// All wait, and not for one that is on its way.
std::optional<RootCause> collectives_differ(const Job& job, const Sides& sides) {
  const Facts& facts = *job.facts;
  const std::vector<Group> groups = groups_of(job, sides.waiting);
  if (groups.size() == 1 && may_go_on(job, sides)) return std::nullopt;
  const Group* through = sides.on_gpu ? nullptr : group_without_data(groups);
  const Member& odd = *(through != nullptr ? *through : groups.back()).members.front();
  const ThreadFacts& thread = job.waiter(odd);
  Finding finding = finding_about(
      facts, through != nullptr ? FindingCode::kUnevenData : FindingCode::kCollectiveMismatch,
      Confidence::kLikely, thread);
  if (!is_worth_a_warning(facts, thread) || sides.on_gpu) finding.severity = Severity::kInfo;
  if (sides.on_gpu) finding.confidence = Confidence::kPossible;
  finding.message = describe_groups(facts, groups);
  if (through != nullptr) {
    finding.message += words_of_through(facts, *through);
  } else if (groups.size() == 1) {
    if (finding.severity == Severity::kError) finding.severity = Severity::kWarning;
    finding.confidence = Confidence::kPossible;
    finding.message +=
        ": all ranks are there, and it does not end; their tensors may differ in "
        "shape or type, or one rank is in another round of the same line";
  } else if (sides.on_gpu) {
    finding.message += ": if these are different collectives, none of them ends";
  } else {
    finding.message += ": none of these ends before the others have come to it";
  }
  finding.prove(count_fact("waiting_ranks", sides.waiting.size(), "stacks", facts.last->at));
  add_remedies_for_uneven_data(finding);
  if (through == nullptr) {
    finding.remedies.insert(
        finding.remedies.begin(),
        {.title = "Every rank has to call the same collective operations in the same order: look "
                  "for a branch on the rank, or a loop that is shorter on one of them",
         .commands = {"TORCH_DISTRIBUTED_DEBUG=DETAIL"}});
  }
  if (sides.on_gpu) add_remedy_to_record(finding);
  return RootCause{std::move(finding), odd.rank.trainer};
}

// The looks at which a rank was on its way while all the others waited in an operation.
size_t looks_behind(const Job& job, const Member& member, size_t looks) {
  size_t behind = 0;
  for (size_t i = 0; i < looks; ++i) {
    const auto is_in = [&](const Member& each) {
      const std::vector<Look>& looks_at = job.waiter(each).looks;
      const auto in =
          i < looks_at.size() ? collective_of(*looks_at[i].thread) : std::optional<Collective>();
      return in && !in->is_on_gpu;
    };
    const bool others_wait = std::ranges::all_of(
        job.members, [&](const Member& each) { return &each == &member || is_in(each); });
    if (others_wait && !is_in(member)) ++behind;
  }
  return behind;
}

// All move, and one is nearly always the last.
std::optional<RootCause> slowest_rank(const Job& job) {
  constexpr size_t kFewestLooks = 5;
  constexpr double kNearlyAlways = 0.7;
  if (job.members.size() < 2) return std::nullopt;
  const Facts& facts = *job.facts;
  size_t looks = facts.threads[job.members.front().rank.trainer].looks.size();
  for (const Member& each : job.members)
    looks = std::min(looks, job.waiter(each).looks.size());
  if (looks < kFewestLooks) return std::nullopt;
  for (const Member& each : job.members) {
    const size_t behind = looks_behind(job, each, looks);
    if (static_cast<double>(behind) < kNearlyAlways * static_cast<double>(looks)) continue;
    const ThreadFacts& thread = job.thread(each);
    Finding finding = finding_about(facts, FindingCode::kSlowestRank, Confidence::kLikely, thread);
    finding.message = say("{}{}; at {} of {} looks all other ranks waited for it",
                          describe(*facts.run, thread.process->key), what_it_does(facts, each),
                          own(behind), own(looks));
    finding.prove(count_fact("looks_behind", behind, "stacks", facts.last->at));
    add_remedy_to_look(finding, thread);
    return RootCause{std::move(finding), each.rank.trainer};
  }
  return std::nullopt;
}

}  // namespace

std::vector<RootCause> find_late_ranks(const Facts& facts, const std::vector<RootCause>& known) {
  std::vector<RootCause> causes;
  for (const Job& job : jobs_of(facts)) {
    const Sides sides = sides_of(job);
    if (sides.waiting.empty() || !sides.all_waiting_stand) {
      if (auto slowest = slowest_rank(job)) causes.push_back(std::move(*slowest));
    } else if (!sides.behind.empty()) {
      std::ranges::move(ranks_behind(job, sides, known), std::back_inserter(causes));
    } else if (auto gone = ranks_gone(job, sides)) {
      causes.push_back(std::move(*gone));
    } else if (sides.waiting.size() > 1) {
      if (auto differ = collectives_differ(job, sides)) causes.push_back(std::move(*differ));
    }
  }
  return causes;
}

}  // namespace dlprobe::probes::deadlock
