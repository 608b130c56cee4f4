#include "lib/model/rank_words.h"

#include <sys/wait.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

#include "lib/base/number_ranges.h"
#include "lib/model/run_words.h"

namespace dlprobe {
namespace {

// What is equal for two that do the same. Of those that wait for ranks nothing else matters.
auto key_of(const RankState& state) {
  const StackFrame at = state.at.value_or(StackFrame());
  const Meeting meeting = state.meeting.value_or(Meeting());
  const bool meets = state.doing == RankDoing::kMeets;
  const int cause = state.cause && !meets ? static_cast<int>(state.cause->code) : -1;
  return std::tuple(state.doing, meeting.kind, meeting.operation, at.function, at.file, at.line,
                    !meets && state.sleeps(), cause, state.wait_status);
}

Message place_of(const RankState& state) {
  if (!state.at) return {};
  return say(" ({}, {}:{})", as_name(state.at->function), as_path(state.at->file), state.at->line);
}

Message words_of_end(const std::optional<int32_t>& wait_status, bool is_one) {
  if (!wait_status) return is_one ? " has ended" : " have ended";
  const Message exit = describe_exit(*wait_status);
  if (WIFSIGNALED(*wait_status)) return (is_one ? " was " : " were ") + exit;
  return (is_one ? " has " : " have ") + exit;
}

Message words_of(const Meeting& meeting) {
  if (meeting.kind == MeetingKind::kGpu) return " for the GPU, where a collective may be pending";
  return " in " + as_name(meeting.operation);
}

Message words_of_meeting(const RankState& state, bool is_one) {
  const Message in = words_of(state.meeting.value_or(Meeting()));
  if (state.goes_on_meeting()) return (is_one ? " goes on, now" : " go on, now") + in;
  return (is_one ? " waits" : " wait") + in;
}

Message name_of(const RankState& state) {
  const OwnWords pid = own(state.process.pid);
  const Message where = state.node.empty() ? Message(pid) : as_host(state.node) + ", pid " + pid;
  if (state.id) return "rank " + own(state.id->rank) + " (" + where + ")";
  const bool has_role = state.role != Role::kOther;
  const OwnWords kind = has_role ? own(to_string(state.role)) : OwnWords("process");
  return state.node.empty() ? Message(kind + " " + pid) : kind + " (" + where + ")";
}

}  // namespace

std::vector<RankGroup> alike_ranks(std::span<const RankState> states,
                                   const std::vector<size_t>& ranks) {
  std::map<decltype(key_of(states.front())), RankGroup> by_key;
  for (const size_t each : ranks)
    by_key[key_of(states[each])].push_back(each);
  std::vector<RankGroup> groups;
  groups.reserve(by_key.size());
  for (RankGroup& group : by_key | std::views::values) {
    const auto longest =
        std::ranges::max_element(group, {}, [&](size_t each) { return states[each].lasts; });
    std::rotate(group.begin(), longest, std::next(longest));
    groups.push_back(std::move(group));
  }
  std::ranges::sort(groups, [](const RankGroup& a, const RankGroup& b) {
    if (a.size() != b.size()) return a.size() > b.size();
    return std::ranges::min(a) < std::ranges::min(b);
  });
  return groups;
}

Message name_ranks(std::span<const RankState> states, const std::vector<size_t>& ranks) {
  constexpr size_t kMostNames = 3;
  constexpr size_t kMostRanges = 12;
  if (ranks.size() == 1) return name_of(states[ranks.front()]);
  std::vector<int64_t> numbers;
  for (const size_t each : ranks)
    if (const auto& id = states[each].id) numbers.push_back(id->rank);
  if (numbers.size() == ranks.size())
    return "ranks " + ranges_text(std::move(numbers), kMostRanges);
  Message names = joined(ranks | std::views::take(kMostNames),
                         [&](size_t each) { return name_of(states[each]); });
  if (ranks.size() > kMostNames) names += " and " + own(ranks.size() - kMostNames) + " more";
  return names;
}

Message words_of_doing(std::span<const RankState> states, const RankGroup& group) {
  const RankState& first = states[group.front()];
  const bool is_one = group.size() == 1;
  const Message place = place_of(first);
  const bool same_wait = std::ranges::all_of(
      group, [&](size_t each) { return states[each].other.words == first.other.words; });
  switch (first.doing) {
    case RankDoing::kMeets:
      return words_of_meeting(first, is_one) + place;
    case RankDoing::kWorks:
      return (is_one ? " is at work" : " are at work") + place;
    case RankDoing::kPolls:
      return (is_one ? " polls" : " poll") + place;
    case RankDoing::kSleeps:
      return (is_one ? " sleeps" : " sleep") + place;
    case RankDoing::kWaitsForBatch:
      return (is_one ? " waits for a batch of its loader"
                     : " wait for a batch, each of its own loader") +
             place;
    case RankDoing::kEnded:
      return words_of_end(first.wait_status, is_one);
    case RankDoing::kWaitsForChild:
    case RankDoing::kWaits:
      break;
  }
  if (first.other.words.empty() || !same_wait) return (is_one ? " waits" : " wait") + place;
  return (is_one ? " waits for " : " wait for ") + first.other.words + place;
}

}  // namespace dlprobe
