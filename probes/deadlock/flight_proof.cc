#include "probes/deadlock/flight_proof.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "lib/base/units.h"
#include "lib/model/rank_words.h"

namespace dlprobe::probes::deadlock {
namespace {

using Job = std::span<const RankState>;
using Members = std::vector<size_t>;  // indices into a Job

constexpr size_t kMostKinds = 3;  // in a sentence

BootNs shortest_wait(Job job, const Members& waiting) {
  const auto first =
      std::ranges::min_element(waiting, {}, [&](size_t each) { return job[each].lasts; });
  return first == waiting.end() ? 0 : job[*first].lasts;
}

Members with_dump_since(Job job, const Members& ranks, BootNs wait) {
  Members found;
  for (const size_t each : ranks) {
    const std::optional<FlightRecord>& flight = job[each].flight;
    if (flight && flight->age_ns <= wait) found.push_back(each);
  }
  return found;
}

std::span<const FlightGroup> groups_of(const RankState& rank) {
  return rank.flight ? std::span<const FlightGroup>(rank.flight->groups)
                     : std::span<const FlightGroup>();
}

// Null where its dump does not have it.
const FlightGroup* find_group(const RankState& rank, const std::string& name) {
  const auto groups = groups_of(rank);
  const auto found = std::ranges::find(groups, name, &FlightGroup::name);
  return found == groups.end() ? nullptr : &*found;
}

bool is_told(const FlightGroup* group) {
  return group != nullptr && group->is_pending() && !group->operation.empty();
}

FlightProof proof_of(Job job, const Members& ranks, Message words) {
  const bool is_live = std::ranges::all_of(
      ranks, [&](size_t each) { return job[each].flight && job[each].flight->is_live; });
  if (is_live) return {.words = std::move(words), .is_live = true};
  BootNs oldest = 0;
  for (const size_t each : ranks)
    oldest = std::max(oldest, job[each].flight.value_or(FlightRecord()).age_ns);
  words += " (oldest dump written " + format_duration(std::chrono::nanoseconds(oldest)) + " ago)";
  return {.words = std::move(words)};
}

// "all_reduce number 12 (train.py:41)".
Message words_of(const FlightGroup& group) {
  Message words = as_name(group.operation) + " number " + own(group.enqueued);
  if (group.name != "0") words += " of group " + as_name(group.name);
  return words;
}

Message place_of(const FlightGroup& group) {
  if (!group.at) return {};
  return say(" ({}:{})", as_path(group.at->file), group.at->line);
}

// One that all of these have enqueued, and wait for.
const FlightGroup* common_wait(Job job, const Members& ranks) {
  for (const FlightGroup& first : groups_of(job[ranks.front()])) {
    const bool is_common = is_told(&first) && std::ranges::all_of(ranks, [&](size_t each) {
                             const FlightGroup* group = find_group(job[each], first.name);
                             return is_told(group) && group->enqueued == first.enqueued &&
                                    group->operation == first.operation;
                           });
    if (is_common) return &first;
  }
  return nullptr;
}

// How far it is in that group; one that has enqueued nothing at all is in none. Nothing where that
// is not told.
std::optional<FlightGroup> progress_of(const RankState& rank, const std::string& group) {
  const FlightGroup* found = find_group(rank, group);
  if (found != nullptr) return *found;
  return groups_of(rank).empty() ? std::optional(FlightGroup()) : std::nullopt;
}

Message words_of_progress(const FlightGroup& progress) {
  if (progress.enqueued == 0) return " enqueued none";
  if (progress.is_pending())
    return say(" enqueued {} and completed {}", progress.enqueued, progress.completed);
  return say(" completed {} and enqueued none after it", progress.completed);
}

}  // namespace

std::optional<FlightProof> flight_proof_of_behind(Job job, const Members& waiting,
                                                  const Members& behind) {
  const BootNs wait = shortest_wait(job, waiting);
  Members ranks = with_dump_since(job, waiting, wait);
  const Members late = with_dump_since(job, behind, wait);
  if (ranks.empty() || late.empty()) return std::nullopt;
  const FlightGroup* in = common_wait(job, ranks);
  if (in == nullptr) return std::nullopt;
  const auto progress = progress_of(job[late.front()], in->name);
  if (!progress || progress->enqueued >= in->enqueued) return std::nullopt;
  const bool are_alike = std::ranges::all_of(late, [&](size_t each) {
    const auto other = progress_of(job[each], in->name);
    return other && other->enqueued == progress->enqueued &&
           other->completed == progress->completed;
  });
  if (!are_alike) return std::nullopt;
  Message words = name_ranks(job, ranks) + " enqueued " + words_of(*in) + place_of(*in) + "; " +
                  name_ranks(job, late) + words_of_progress(*progress);
  ranks.insert(ranks.end(), late.begin(), late.end());
  return proof_of(job, ranks, std::move(words));
}

std::optional<FlightProof> flight_proof_of_mismatch(Job job, const Members& waiting) {
  const Members ranks = with_dump_since(job, waiting, shortest_wait(job, waiting));
  if (ranks.size() < waiting.size() || ranks.empty()) return std::nullopt;
  for (const FlightGroup& first : groups_of(job[ranks.front()])) {
    const auto is_in = [&](size_t each) { return is_told(find_group(job[each], first.name)); };
    if (!std::ranges::all_of(ranks, is_in)) continue;
    std::map<std::tuple<int64_t, std::string, std::string>, Members> kinds;
    for (const size_t each : ranks) {
      const FlightGroup& group = *find_group(job[each], first.name);
      kinds[{group.enqueued, group.operation, group.tensors}].push_back(each);
    }
    if (kinds.size() < 2 || kinds.size() > kMostKinds) continue;
    Message words = joined(kinds, [&](const auto& kind) {
      const FlightGroup& group = *find_group(job[kind.second.front()], first.name);
      return name_ranks(job, kind.second) + (kind.second.size() == 1 ? " is in " : " are in ") +
             words_of(group) + (group.tensors.empty() ? Message() : ", " + as_name(group.tensors)) +
             place_of(group);
    });
    return proof_of(job, ranks, std::move(words));
  }
  return std::nullopt;
}

bool has_come_to(const RankState& rank, const RankState& waiter) {
  const auto is_live = [](const RankState& each) { return each.flight && each.flight->is_live; };
  if (!is_live(rank) || !is_live(waiter)) return false;
  bool waits = false;
  for (const FlightGroup& in : groups_of(waiter)) {
    if (!is_told(&in)) continue;
    const FlightGroup* progress = find_group(rank, in.name);
    if (progress != nullptr && progress->enqueued < in.enqueued) return false;
    waits = true;
  }
  return waits;
}

bool all_asked_for_the_same(Job job, const Members& waiting) {
  const FlightGroup* in = common_wait(job, waiting);
  return in != nullptr && !in->tensors.empty() && std::ranges::all_of(waiting, [&](size_t each) {
           return job[each].flight->is_live &&
                  find_group(job[each], in->name)->tensors == in->tensors;
         });
}

std::optional<BootNs> flight_time_left(Job job, const Members& waiting) {
  std::optional<BootNs> least;
  for (const size_t each : with_dump_since(job, waiting, shortest_wait(job, waiting))) {
    for (const FlightGroup& group : groups_of(job[each])) {
      if (!is_told(&group) || !group.gives_up_in_ns) continue;
      least = std::min(least.value_or(*group.gives_up_in_ns), *group.gives_up_in_ns);
    }
  }
  return least;
}

}  // namespace dlprobe::probes::deadlock
