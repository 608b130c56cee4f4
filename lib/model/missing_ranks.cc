#include "lib/model/missing_ranks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace dlprobe {
namespace {

// How many ranks there are where dlprobe has looked; nothing where a launcher does not tell. Where
// one of several is seen, dlprobe may have looked at that one alone.
std::optional<int64_t> ranks_of_nodes(std::span<const RankState> job) {
  struct Node {
    int64_t size = 0;
    int64_t seen = 0;
  };
  std::map<std::string_view, Node> nodes;
  for (const RankState& each : job) {
    if (!each.id || !each.id->local_world_size) return std::nullopt;
    const int64_t size = *each.id->local_world_size;
    Node& node = nodes.try_emplace(each.node, size).first->second;
    if (node.size != size) return std::nullopt;
    ++node.seen;
  }
  int64_t all = 0;
  for (const auto& [name, node] : nodes) {
    if (node.seen == 1 && node.size > 1) return std::nullopt;
    all += node.size;
  }
  return all;
}

// One that was started by hand may be all that dlprobe has looked at.
bool is_alone(std::span<const RankState> job) {
  return job.size() == 1 && job.front().id && !job.front().id->local_world_size;
}

// Each launcher starts a part of the ranks: those of another one may be here, too.
bool has_several_launchers(std::span<const RankState> job) {
  return std::ranges::any_of(job, [](const RankState& each) {
    return each.id && each.id->local_world_size && each.id->local_world_size != each.id->world_size;
  });
}

// Nobody tells where a job meets, and a rank other than the first reaches the others by an address
// that each machine is itself. Such a job may be one of those of a node that meet on their own:
// then the numbers that are missing come before or after those that are there.
bool meets_by_loopback(std::span<const RankState> job, std::span<const NumberRange> missing,
                       int64_t last_alive) {
  return !missing.empty() && missing.back().last < last_alive &&
         std::ranges::any_of(
             job,
             [](const RankState& each) {
               return each.id && each.id->job.empty() && each.id->rank > 0 && each.meeting &&
                      each.meeting->is_local;
             });
}

}  // namespace

MissingRanks missing_ranks(std::span<const RankState> job) {
  if (job.empty()) return {};
  const JobRank one = job.front().id.value_or(JobRank());
  if (!one.world_size) return {};
  std::vector<int64_t> alive;
  for (const RankState& each : job) {
    if (!each.id || each.id->rank < 0 || each.id->world_size != one.world_size) return {};
    if (each.doing != RankDoing::kEnded) alive.push_back(each.id->rank);
  }
  const int64_t last_alive = alive.empty() ? -1 : std::ranges::max(alive);
  auto numbers = gaps_between(ranges_of(std::move(alive)), *one.world_size);
  const bool meets_here = one.meets_here() || meets_by_loopback(job, numbers, last_alive);
  return {.numbers = std::move(numbers),
          .must_be_here = (meets_here && !is_alone(job) && !has_several_launchers(job)) ||
                          ranks_of_nodes(job) == *one.world_size,
          .may_be_here = one.job.empty() || one.meets_here()};
}

}  // namespace dlprobe
