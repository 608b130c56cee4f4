// The rules about ranks of one job: on this machine, or of many nodes' reports.

#include "probes/deadlock/judge_ranks.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <ranges>
#include <utility>

#include "lib/base/number_ranges.h"
#include "lib/base/units.h"
#include "lib/model/missing_ranks.h"
#include "lib/model/rank_words.h"
#include "probes/deadlock/facts.h"
#include "probes/deadlock/flight_proof.h"
#include "probes/deadlock/rank_remedies.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::deadlock {
namespace {

using Job = std::span<const RankState>;
using Members = std::vector<size_t>;  // indices into a Job

constexpr size_t kMostGroups = 8;           // each a finding
constexpr BootNs kLongWork = 60 * kSecond;  // of one rank, while the others wait
constexpr size_t kMostNamed = 3;            // in a sentence
constexpr size_t kMostRanges = 12;
constexpr size_t kMostProcesses = 16;

bool is_of_several_nodes(Job job) {
  return std::ranges::any_of(job, [](const RankState& each) { return !each.node.empty(); });
}

Members members_that(Job job, bool (*is_one)(const RankState&)) {
  Members members;
  for (size_t i = 0; i < job.size(); ++i)
    if (is_one(job[i])) members.push_back(i);
  return members;
}

bool meets(const RankState& rank) {
  return rank.doing == RankDoing::kMeets;
}

bool is_proved(const RankState& rank) {
  return meets(rank) && !rank.is_on_gpu();
}

// Who waits for the GPU may wait for its own work: where others stand in a collective that a stack
// proves, that is no sign of another one. Who goes from one collective to the next while others
// have slept in one for long does so in another group.
Members waiting_in(Job job) {
  Members waiting = members_that(job, is_proved);
  if (waiting.empty()) return members_that(job, meets);
  const bool one_sleeps = std::ranges::any_of(waiting, [&](size_t each) {
    return job[each].meeting->stands && job[each].sleeps() && job[each].lasts >= kWorthAWarning;
  });
  if (one_sleeps) std::erase_if(waiting, [&](size_t each) { return job[each].goes_on_meeting(); });
  return waiting;
}

Members behind_in(Job job, const Members& waiting) {
  Members members;
  for (size_t i = 0; i < job.size(); ++i)
    if (std::ranges::count(waiting, i) == 0 && job[i].doing != RankDoing::kEnded)
      members.push_back(i);
  const auto has_come = [&](size_t late) {
    return std::ranges::all_of(waiting,
                               [&](size_t each) { return has_come_to(job[late], job[each]); });
  };
  if (!std::ranges::all_of(members, has_come)) std::erase_if(members, has_come);
  return members;
}

// Those that wait do so for the GPU, maybe for their own work.
bool are_on_gpu(Job job, const Members& waiting) {
  return std::ranges::any_of(waiting, [&](size_t each) { return job[each].is_on_gpu(); });
}

// Who takes leave of the others waits for none of them in particular.
size_t first_to_wait(Job job, const Members& waiting) {
  return *std::ranges::max_element(waiting, {}, [&](size_t each) {
    return std::pair(!is_in(job[each], MeetingKind::kEnd), job[each].lasts);
  });
}

// "ranks 0, 2 wait in all_reduce (main, train.py:41)", of each place at which some do.
Message describe_groups(Job job, const std::vector<RankGroup>& groups, const char* between) {
  Message text;
  for (size_t i = 0; i < std::min(groups.size(), kMostNamed); ++i)
    text += (i == 0 ? "" : between) + name_ranks(job, groups[i]) + words_of_doing(job, groups[i]);
  if (groups.size() > kMostNamed)
    text += between + ("others at " + own(groups.size() - kMostNamed) + " more places");
  return text;
}

Message waits_of(Job job, const Members& waiting) {
  const BootNs waited = job[first_to_wait(job, waiting)].lasts;
  Message words = describe_groups(job, alike_ranks(job, waiting), ", ") + ", for " +
                  format_duration(std::chrono::nanoseconds(waited)) + " so far";
  if (const auto left = flight_time_left(job, waiting))
    words += "; they give up in about " + format_duration(std::chrono::nanoseconds(*left));
  return words;
}

void prove_by_groups(Finding& finding, const std::optional<FlightProof>& proof) {
  if (!proof) return;
  finding.prove(proof->is_live ? text_fact("process_group", proof->words, "memory of the ranks")
                               : text_fact("flight_recorder", proof->words,
                                           "dumps of PyTorch's Flight Recorder"));
}

RankFinding finding_on(Job job, FindingCode code, Confidence confidence, const Members& ranks) {
  RankFinding found{.finding = new_finding(code, confidence), .ranks = ranks};
  for (const size_t each : ranks | std::views::take(kMostProcesses))
    found.finding.processes.push_back(job[each].process);
  return found;
}

// Whether that a rank is behind is no more than a word. It may save a checkpoint; who takes
// messages or calls may wait for any of several ranks that work by turns; who has come to the end
// waits for as long as others work.
bool may_be_meant(const RankState& rank, const RankState& waiter) {
  const bool is_still = rank.looks.motion == RankMotion::kStill;
  if (is_in(waiter, MeetingKind::kEnd)) return !is_still || rank.lasts < kLongWork;
  const bool is_asked = is_in(waiter, MeetingKind::kMessage) || is_in(waiter, MeetingKind::kCall);
  if (is_asked && rank.doing == RankDoing::kPolls) return waiter.lasts < kLongWork;
  if (is_asked) return !is_still || rank.lasts < kWorthAWarning || !waiter.is_overdue;
  // A process that it has started may be at work for it.
  const bool stands =
      rank.doing == RankDoing::kPolls || (rank.sleeps() && rank.doing != RankDoing::kWaitsForChild);
  return stands ? !waiter.is_overdue : waiter.lasts < kLongWork;
}

// How much a rank's state tells that others wait for it: one with a cause of its own first, then
// who needs somebody, who sleeps, and who is on the way. Who goes on in other operations has no
// part in that one.
int innocence(const RankState& rank) {
  if (rank.cause) return 0;
  if (rank.goes_on_meeting()) return 4;
  if (!rank.sleeps()) return 3;
  return rank.doing == RankDoing::kSleeps ? 2 : 1;
}

// Ranks that others wait for.
RankFinding ranks_behind(Job job, const Members& waiting, const RankGroup& behind) {
  const RankState& rank = job[behind.front()];
  const bool is_still = rank.looks.motion == RankMotion::kStill;
  const bool on_gpu = are_on_gpu(job, waiting);
  const auto confidence = is_still && !on_gpu ? Confidence::kCertain : Confidence::kLikely;
  const auto code =
      rank.goes_on_meeting() ? FindingCode::kCollectiveMismatch : FindingCode::kRankBehind;
  RankFinding found = finding_on(job, code, confidence, behind);
  Finding& finding = found.finding;
  finding.severity = Severity::kWarning;
  finding.message =
      name_ranks(job, behind) + words_of_doing(job, behind) + ", and " + waits_of(job, waiting);
  const RankState& waiter = job[first_to_wait(job, waiting)];
  if (rank.cause) {
    finding.consequence_of = rank.cause->code;
    finding.severity = std::min(finding.severity, rank.cause->severity);
  } else if (rank.other.has_no_end && waiter.is_overdue) {
    finding.severity = Severity::kError;
    finding.message += ": nobody is left to end what it waits for";
  } else if (may_be_meant(rank, waiter)) {
    finding.severity = Severity::kInfo;
  }
  finding.prove(count_fact("waiting_ranks", waiting.size(), "stacks"));
  finding.prove(
      text_fact("collective", as_name(waiter.meeting ? waiter.meeting->operation : ""), "stacks"));
  prove_by_groups(finding, flight_proof_of_behind(job, waiting, behind));
  if (auto remedy = remedy_for(rank, waiter)) finding.remedies.push_back(std::move(*remedy));
  if (on_gpu) {
    add_remedy_to_record(finding);
  } else if (!rank.cause && rank.doing != RankDoing::kWaitsForBatch) {
    finding.remedies.push_back(remedy_to_look(rank));
  }
  return found;
}

// The groups without a cause of their own, as one finding: which of them have a part in what the
// others wait in is not known.
RankFinding some_behind(Job job, const Members& waiting, std::span<const RankGroup> behind) {
  RankFinding found = ranks_behind(job, waiting, behind.front());
  const std::vector<RankGroup> others(std::next(behind.begin()), behind.end());
  if (others.empty()) return found;
  found.finding.confidence = Confidence::kLikely;
  found.finding.message += "; " + describe_groups(job, others, "; ") +
                           ": dlprobe does not read which of them have a part in it";
  return found;
}

// Its number; -1: not told.
int64_t number_of(const RankState& rank) {
  return rank.id ? rank.id->rank : -1;
}

// Of the missing ranks the first that ended while dlprobe watched.
std::optional<size_t> first_end(Job job, const MissingRanks& missing) {
  std::optional<size_t> first;
  for (size_t i = 0; i < job.size(); ++i) {
    const auto is_in = [&](const NumberRange& range) {
      return range.first <= number_of(job[i]) && number_of(job[i]) <= range.last;
    };
    const bool is_one =
        job[i].doing == RankDoing::kEnded && std::ranges::any_of(missing.numbers, is_in);
    if (is_one && (!first || job[i].lasts > job[*first].lasts)) first = i;
  }
  return first;
}

Message words_of_gone(Job job, const MissingRanks& missing, const Message& waits) {
  const bool is_one = count_in(missing.numbers) == 1;
  const bool are_nodes = is_of_several_nodes(job);
  const Message those =
      waits + "; " + (is_one ? "rank " : "ranks ") + ranges_text(missing.numbers, kMostRanges);
  if (missing.must_be_here) {
    return those + (is_one ? " of this job is" : " of this job are") +
           (are_nodes ? " on none of its nodes, and all of these have reported"
                      : " not on this machine, where all its ranks meet") +
           ": not started, or gone";
  }
  if (are_nodes)
    return those + (is_one ? " is" : " are") + " in no report: not come yet, gone, or out of reach";
  return those + (missing.may_be_here ? ", which dlprobe did not look at," : ", on other nodes,") +
         " may not have come, or cannot be reached";
}

// Ranks that have ended, or are not there: the others wait for the end of a timeout.
std::optional<RankFinding> ranks_gone(Job job, const Members& waiting) {
  const MissingRanks missing = missing_ranks(job);
  if (missing.numbers.empty()) return std::nullopt;
  const size_t first = first_to_wait(job, waiting);
  const std::optional<size_t> end = first_end(job, missing);
  const bool on_gpu = are_on_gpu(job, waiting);
  if (!end && on_gpu) return std::nullopt;
  FindingCode code = FindingCode::kRankDead;
  const bool have_met = !is_in(job[first], MeetingKind::kRendezvous);
  if (end && job[*end].wait_status == 0 && have_met) code = FindingCode::kUnevenData;
  if (!end && !missing.must_be_here) code = FindingCode::kRankBehind;
  RankFinding found =
      finding_on(job, code, end && !on_gpu ? Confidence::kCertain : Confidence::kLikely, {first});
  Finding& finding = found.finding;
  if (end) finding.processes.push_back(job[*end].process);  // why it ended may be known
  if (!job[first].is_overdue) finding.severity = Severity::kInfo;
  const Message waits = waits_of(job, waiting);
  finding.message = end ? name_ranks(job, {*end}) + words_of_doing(job, {*end}) +
                              (have_met ? "" : " before it had met the others") + ", and " + waits
                        : words_of_gone(job, missing, waits);
  finding.prove(count_fact("missing_ranks", count_in(missing.numbers), "/proc/PID/environ"));
  finding.prove(count_fact("waiting_ranks", waiting.size(), "stacks"));
  if (code == FindingCode::kRankBehind) finding.discriminator = "elsewhere";
  add_remedies_for_gone(finding, job[first], end ? &job[*end] : nullptr);
  return found;
}

// Those that find one another, and nobody tells how many they are to be. One that failed beside
// them is most likely one of them.
std::optional<RankFinding> others_have_not_come(Job job, const Members& waiting) {
  const bool all_meet = std::ranges::all_of(waiting, [&](size_t each) {
    return !job[each].id && is_in(job[each], MeetingKind::kRendezvous);
  });
  if (!all_meet) return std::nullopt;
  const size_t first = first_to_wait(job, waiting);
  const Members ended =
      members_that(job, [](const RankState& each) { return each.doing == RankDoing::kEnded; });
  const auto code = ended.empty() ? FindingCode::kRankBehind : FindingCode::kRankDead;
  RankFinding found = finding_on(job, code, Confidence::kLikely, {first});
  found.finding.severity = job[first].is_overdue ? Severity::kWarning : Severity::kInfo;
  found.finding.message = waits_of(job, waiting);
  if (ended.empty()) {
    found.finding.message += ": not all that belong to the job have come to it";
  } else {
    const RankState& gone = job[ended.front()];
    found.finding.processes.push_back(gone.process);
    found.finding.message += ", and " + name_ranks(job, ended) + words_of_doing(job, ended) +
                             ", which the same process had started";
    add_remedies_for_gone(found.finding, job[first], &gone);
  }
  found.finding.prove(count_fact("waiting_ranks", waiting.size(), "stacks"));
  found.finding.discriminator = "elsewhere";
  if (!ended.empty()) return found;
  found.finding.advise(
      "Start as many ranks as the world size says, here or on other nodes, and let each "
      "reach this one by the name and the port that all are given",
      {"torchrun --nnodes N --rdzv-backend c10d --rdzv-endpoint HOST:PORT ..."});
  return found;
}

bool is_at_end(const RankState& rank) {
  return is_in(rank, MeetingKind::kEnd);
}

// Of ranks that run the same program, those that are through with their data have no workers, or
// have come to the end of the program.
const RankGroup* group_without_data(Job job, const std::vector<RankGroup>& groups) {
  // Who answers calls of others is at its end, or without workers, all the time.
  if (std::ranges::any_of(job,
                          [](const RankState& each) { return is_in(each, MeetingKind::kCall); }))
    return nullptr;
  const auto at_end = std::ranges::find_if(groups, [&](const RankGroup& group) {
    return std::ranges::all_of(group, [&](size_t each) { return is_at_end(job[each]); });
  });
  // Two that wait for messages wait for each other, in a farm whose others are done.
  const bool wait_for_one_another = std::ranges::count_if(job, is_in_message) > 1;
  const auto has_workers = [&](size_t each) { return !job[each].workers.empty(); };
  if (at_end != groups.end() && groups.size() > 1) {
    // Whose loader has had workers, and has none, is through with its data as well.
    const auto is_through = [](const RankState& each) {
      return is_at_end(each) ||
             (each.data.started > 0 && each.workers.empty() && !each.data.batches);
    };
    const bool all_are = std::ranges::all_of(job, is_through);
    return wait_for_one_another || all_are ? nullptr : &*at_end;
  }
  const auto through = std::ranges::find_if(
      groups, [&](const RankGroup& group) { return std::ranges::none_of(group, has_workers); });
  const bool others_have = std::ranges::any_of(
      groups, [&](const RankGroup& group) { return std::ranges::all_of(group, has_workers); });
  if (through == groups.end() || !others_have) return nullptr;
  // Who started fewer processes than another never began what the other is at.
  const auto started = [](const RankState& each) { return each.data.started; };
  const int64_t most = started(*std::ranges::max_element(job, {}, started));
  const bool all_began =
      std::ranges::all_of(*through, [&](size_t each) { return started(job[each]) >= most; });
  return all_began ? &*through : nullptr;
}

// Those in a message first: it needs one other rank. A collective operation needs all of them, and
// is not the reason.
std::vector<RankGroup> messages_first(Job job, const Members& waiting) {
  std::vector<RankGroup> groups = alike_ranks(job, waiting);
  std::ranges::stable_partition(
      groups, [&](const RankGroup& group) { return is_in_message(job[group.front()]); });
  return groups;
}

// One of each group that may be the reason, that of the fewest ranks first.
Members suspects_of(Job job, const std::vector<RankGroup>& groups) {
  const bool any_message = is_in_message(job[groups.front().front()]);
  Members suspects;
  for (const RankGroup& group : groups | std::views::reverse)
    if (is_in_message(job[group.front()]) == any_message) suspects.push_back(group.front());
  return suspects;
}

// "rank 0 at batch 12": of the others one whose memory tells it.
Message batch_of_others(Job job, const RankGroup& through) {
  for (size_t i = 0; i < job.size(); ++i)
    if (const auto batch = job[i].data.batches; batch && std::ranges::count(through, i) == 0)
      return say(" ({} at batch {} of its loop)", name_ranks(job, {i}), *batch);
  return {};
}

Message what_differs(Job job, const std::vector<RankGroup>& groups, const RankGroup* through) {
  if (job[groups.front().front()].is_on_gpu())
    return ": if these are different collectives, none of them ends";
  if (through != nullptr) {
    const RankState& first = job[through->front()];
    const bool is_known = is_at_end(first) || first.data.started > 0;
    return ": " + name_ranks(job, *through) + (through->size() == 1 ? " is" : " are") +
           (is_at_end(first) ? " at the end of the program, be it by an exception"
                             : " through with the data, without workers any more") +
           (is_known ? "" : ", or never began to read it") +
           ", the others are in the middle of it" + batch_of_others(job, *through);
  }
  const auto waits_for_call = [&](const RankGroup& group) {
    return is_in(job[group.front()], MeetingKind::kCall);
  };
  if (std::ranges::any_of(groups, waits_for_call))
    return ": no rank carries out a call; its result may be a future that nobody sets";
  if (job.front().id && is_in_message(job[groups.front().front()]))
    return ": no rank is on its way to answer";
  if (groups.size() > 1)
    return ": none of these ends before the others have come to it" + batch_of_others(job, {});
  if (is_at_barrier(job[groups.front().front()]))
    return ": all of them have come, and it waits for more";
  if (!job.front().id)
    return ": it does not end; how many ranks there are is not known: one may be missing, or their "
           "tensors differ in shape or type";
  if (is_at_end(job[groups.front().front()])) return ": all ranks are there, and it does not end";
  return ": all ranks are there, and it does not end; their tensors may differ in shape or type, "
         "or one rank is in another round of the same line, or in another group";
}

// Those at one place that ask again and again may be in another round: where none is ever seen at
// anything else it is most likely the same. A GPU that always has work looks like that, too.
bool may_go_on(Job job, const Members& waiting) {
  const bool all_sleep =
      std::ranges::all_of(waiting, [&](size_t each) { return job[each].sleeps(); });
  const bool any_wakes = std::ranges::any_of(
      waiting, [&](size_t each) { return job[each].looks.motion == RankMotion::kAgain; });
  return (!all_sleep && any_wakes) || are_on_gpu(job, waiting);
}

Message why_none_ends(Job job, const Members& waiting, const std::vector<RankGroup>& groups,
                      const RankGroup* through) {
  const auto proof = flight_proof_of_mismatch(job, waiting);
  if (groups.size() == 1 && proof && proof->is_live) return ": " + proof->words;
  if (all_asked_for_the_same(job, waiting))
    return ": all ranks have asked for it, with as many elements each, and it does not end: a GPU "
           "may be at earlier work, or the ranks may not reach one another";
  return what_differs(job, groups, through);
}

void add_remedies(Job job, const Members& waiting, const RankState& shown, Finding& finding) {
  if (all_asked_for_the_same(job, waiting)) {
    finding.remedies.push_back(remedy_to_see_the_gpu());
    return;
  }
  const bool is_uneven = finding.code == FindingCode::kUnevenData;
  if (!is_uneven) finding.remedies.push_back(remedy_to_match(shown));
  if (!is_in_message(shown) && !is_at_barrier(shown))
    add_remedies_for_uneven_data(finding, is_in_mpi(shown));
  // Where all had as many batches, one called an operation more.
  if (is_uneven) finding.remedies.push_back(remedy_to_match(shown));
  if (are_on_gpu(job, waiting)) add_remedy_to_record(finding);
}

// All wait, and not for one that is on its way.
std::optional<RankFinding> collectives_differ(Job job, const Members& waiting) {
  const std::vector<RankGroup> groups = messages_first(job, waiting);
  if (groups.size() == 1 && may_go_on(job, waiting)) return std::nullopt;
  const bool on_gpu = are_on_gpu(job, waiting);
  const auto proof = flight_proof_of_mismatch(job, waiting);
  const bool is_proved = proof && proof->is_live;
  const RankGroup* through = on_gpu ? nullptr : group_without_data(job, groups);
  const Members shown = through != nullptr ? Members{through->front()} : suspects_of(job, groups);
  RankFinding found = finding_on(
      job, through != nullptr ? FindingCode::kUnevenData : FindingCode::kCollectiveMismatch,
      Confidence::kLikely, shown);
  Finding& finding = found.finding;
  if (!job[shown.front()].is_overdue || on_gpu) finding.severity = Severity::kInfo;
  if (on_gpu) finding.confidence = Confidence::kPossible;
  finding.message =
      describe_groups(job, groups, "; ") + why_none_ends(job, waiting, groups, through);
  const bool is_message = is_in_message(job[shown.front()]);
  if (is_proved) {
    finding.confidence = Confidence::kCertain;
  } else if (groups.size() == 1 && !(is_message && job.front().id)) {
    finding.severity = std::min(finding.severity, Severity::kWarning);
    finding.confidence = Confidence::kPossible;
  }
  finding.prove(count_fact("waiting_ranks", waiting.size(), "stacks"));
  prove_by_groups(finding, proof);
  add_remedies(job, waiting, job[shown.front()], finding);
  const auto& cause = job[shown.front()].cause;
  if (through != nullptr && cause) finding.consequence_of = cause->code;
  return found;
}

// All move, and one is nearly always the last.
std::optional<RankFinding> slowest_rank(Job job) {
  constexpr int64_t kFewestLooks = 3;
  constexpr double kNearlyAlways = 0.7;
  const auto share = [&](size_t each) {
    return static_cast<double>(job[each].looks.waiting) / static_cast<double>(job[each].looks.all);
  };
  Members members =
      members_that(job, [](const RankState& each) { return each.doing != RankDoing::kEnded; });
  const bool are_few =
      std::ranges::any_of(members, [&](size_t each) { return job[each].looks.all < kFewestLooks; });
  if (members.size() < 2 || are_few) return std::nullopt;
  std::ranges::stable_sort(members, {}, share);
  const size_t slowest = members[0];
  if (const auto& meeting = job[slowest].meeting; meeting && meeting->stands) return std::nullopt;
  const RankLooks& others = job[members[1]].looks;
  if (share(slowest) > 1 - kNearlyAlways || share(members[1]) < kNearlyAlways) return std::nullopt;
  RankFinding found = finding_on(job, FindingCode::kSlowestRank, Confidence::kLikely, {slowest});
  const RankState& rank = job[slowest];
  Finding& finding = found.finding;
  finding.message =
      say("{}{}; each of the others waited for ranks at {} of {} looks, this one at {}",
          name_ranks(job, {slowest}), words_of_doing(job, {slowest}), others.waiting, others.all,
          rank.looks.waiting);
  finding.prove(count_fact("looks_behind", static_cast<uint64_t>(others.waiting), "stacks"));
  if (2 * rank.looks.in_loader > rank.looks.all) {
    finding.message += say("; it was in its DataLoader at {}", rank.looks.in_loader);
    finding.remedies.push_back(remedy_for_loader(rank));
  } else {
    finding.remedies.push_back(remedy_to_look(rank));
  }
  return found;
}

}  // namespace

bool all_waiting_stand(std::span<const RankState> job) {
  const Members waiting = waiting_in(job);
  // Where a GPU is always busy a rank between two of its waits is behind by chance.
  if (are_on_gpu(job, waiting) && std::ranges::any_of(job, [](const RankState& each) {
        return each.looks.motion == RankMotion::kComesAndGoes;
      }))
    return false;
  return !waiting.empty() && std::ranges::all_of(waiting, [&](size_t each) {
    return job[each].meeting && job[each].meeting->stands;
  });
}

std::vector<RankFinding> judge_ranks(std::span<const RankState> job) {
  std::vector<RankFinding> found;
  if (!all_waiting_stand(job)) {
    if (auto slowest = slowest_rank(job)) found.push_back(std::move(*slowest));
    return found;
  }
  const Members waiting = waiting_in(job);
  std::vector<RankGroup> behind = alike_ranks(job, behind_in(job, waiting));
  std::ranges::stable_sort(behind, {},
                           [&](const RankGroup& group) { return innocence(job[group.front()]); });
  const auto with_cause = [&](const RankGroup& group) {
    return job[group.front()].cause.has_value();
  };
  const auto others = std::ranges::find_if_not(behind, with_cause);
  for (const RankGroup& group : std::span(behind.begin(), others) | std::views::take(kMostGroups))
    found.push_back(ranks_behind(job, waiting, group));
  if (others != behind.end()) {
    RankFinding rest = some_behind(job, waiting, std::span(others, behind.end()));
    if (!found.empty()) {
      rest.finding.severity = Severity::kInfo;
      rest.finding.discriminator = "beside a cause";
    }
    found.push_back(std::move(rest));
  }
  if (!behind.empty()) return found;
  if (auto gone = ranks_gone(job, waiting)) {
    found.push_back(std::move(*gone));
  } else if (auto missing = others_have_not_come(job, waiting)) {
    found.push_back(std::move(*missing));
  } else if (waiting.size() > 1) {
    if (auto differ = collectives_differ(job, waiting)) found.push_back(std::move(*differ));
  }
  return found;
}

}  // namespace dlprobe::probes::deadlock
