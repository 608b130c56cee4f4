#include "lib/collect/tree/descriptor_watch.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "lib/base/units.h"
#include "lib/collect/tree/descriptor_look.h"
#include "lib/model/fd_limit.h"
#include "lib/proc/maps.h"
#include "lib/proc/pid_limits.h"

namespace dlprobe {
namespace {

// Measured on Linux 6.18: listing 25 us for 67 descriptors, stat 1.8 us each, readlink as much.
constexpr BootNs kKindsNsEach = 2'500;
constexpr size_t kMostForKinds = 16'384;
/// One part in so many that came or went is no news before the period is over.
constexpr uint64_t kFewOfKinds = 32;
constexpr BootNs kKindsPeriod = 10 * kSecond;
// The text of 65 530 mappings takes about 8 MiB and 30 ms.
constexpr BootNs kMapsNsFirst = 1 * kMillisecond;
constexpr BootNs kMapsNsLeast = 200'000;
constexpr BootNs kMapsNsEach = 500;
constexpr BootNs kMapsPeriod = 800 * kMillisecond;
constexpr std::chrono::nanoseconds kMapsPatience = std::chrono::milliseconds(400);

/// In a tree of so many all are counted at each sample.
constexpr size_t kSmallTree = 256;
constexpr BootNs kShortestPoll = 10 * kMillisecond;
/// A closer look where there are so many more than at the last one, and half as many again ...
constexpr uint64_t kGrowthOfLook = 32;
/// ... but not sooner than this, unless the limit is reached.
constexpr BootNs kLookPeriod = 2 * kSecond;

std::optional<uint64_t> soft_limit(const TrackedProcess& process) {
  return process.info.open_files_limit ? process.info.open_files_limit->soft : std::nullopt;
}

bool is_at_limit(const TrackedProcess& process, uint64_t count) {
  const auto limit = soft_limit(process);
  return limit && is_at_fd_limit(count, *limit);
}

bool is_near_limit(const TrackedProcess& process, uint64_t count) {
  const auto limit = soft_limit(process);
  return limit && count >= *limit - *limit / 5;
}

void read_limit(TrackedProcess& process) {
  auto limit = chain(process.directory->read("limits"), parse_open_files_limit);
  if (!limit || limit == process.info.open_files_limit) return;
  process.info.open_files_limit = std::move(limit);
  process.info_changed = true;
}

}  // namespace

Expected<uint64_t> DescriptorWatch::count_one(TrackedProcess& process, BootNs now, bool may_list) {
  if (process.descriptors == nullptr)
    return failure(ErrorCode::kForbidden, "open " + join_path(*process.directory, "fd"));
  const auto by_size = descriptors_by_size(*process.descriptors);
  if (!by_size && !may_list) return failure(ErrorCode::kUnsupported, "size of /proc/PID/fd");
  DLP_TRY(const uint64_t count,
          by_size ? Expected<uint64_t>(*by_size) : count_descriptors(*process.descriptors));
  State& state = states_[process.key];
  if (state.counted_at != 0 && now > state.counted_at) {
    state.per_ns = count <= state.count ? 0
                                        : static_cast<double>(count - state.count) /
                                              static_cast<double>(now - state.counted_at);
  }
  state.count = count;
  state.counted_at = now;
  state.highest = std::max(state.highest, count);
  note_limit(process, state, now);
  return count;
}

// What fills it is looked at at once: a moment later the process may be gone.
void DescriptorWatch::note_limit(TrackedProcess& process, State& state, BootNs now) {
  if (!is_near_limit(process, state.count)) state.look_was_at_limit = false;
  if (!is_at_limit(process, state.count) || std::exchange(state.look_was_at_limit, true)) return;
  read_limit(process);
  if (is_at_limit(process, state.count)) {
    look_closer(process, state, now);
  } else {
    state.look_was_at_limit = false;
  }
}

void DescriptorWatch::count(ProcessTree& tree, BootNs now, bool of_all) {
  std::erase_if(states_, [&](const auto& entry) { return !tree.members().contains(entry.first); });
  const bool is_small = tree.members().size() <= kSmallTree;
  for (auto& [key, process] : tree.members()) {
    const bool is_due =
        of_all || (!process.pace.rests && (is_small || takes_part(process.info.role)));
    if (!is_alive(process) || !is_due) continue;
    const auto count = count_one(process, now, of_all);
    if (!count) {
      if (of_all) process.sample.fd_count = count;
      continue;
    }
    // What came and went between two samples counts, too: it may have been the limit.
    State& state = states_[key];
    process.sample.fd_count = Observed<uint64_t>(std::exchange(state.highest, *count));
  }
}

void DescriptorWatch::poll(ProcessTree& tree, BootNs now, bool of_all) {
  for (auto& [key, state] : states_) {
    if (state.per_ns == 0 && !of_all) continue;
    const auto member = tree.members().find(key);
    if (member == tree.members().end() || !is_alive(member->second)) continue;
    // What cannot be counted so cheaply waits for the next sample.
    if (!count_one(member->second, now, /*may_list=*/false)) state.per_ns = 0;
  }
}

bool DescriptorWatch::has_other_kinds(const TrackedProcess& process, const State& state,
                                      BootNs now) {
  if (state.kinds_at == 0) return true;
  const auto [less, more] = std::minmax(state.count, state.kinds_count);
  const bool is_news = more - less > less / kFewOfKinds || is_near_limit(process, state.count);
  return more != less && (is_news || now - state.kinds_at >= kKindsPeriod);
}

void DescriptorWatch::look(ProcessTree& tree, BootNs now) {
  kinds_budget_.refill(now);
  std::vector<std::pair<TrackedProcess*, State*>> queue;
  for (auto& [key, process] : tree.members()) {
    const auto state = states_.find(key);
    if (!is_alive(process) || state == states_.end()) continue;
    if (has_other_kinds(process, state->second, now)) queue.emplace_back(&process, &state->second);
  }
  // Those near their limit first, then those that were not looked at for the longest time.
  std::ranges::stable_sort(queue, {}, [](const auto& entry) {
    return std::pair(!is_near_limit(*entry.first, entry.second->count), entry.second->kinds_at);
  });
  for (const auto& [process, state] : queue) {
    const BootNs expected = kKindsNsEach * static_cast<BootNs>(state->count);
    // One that is larger than all that can be saved up must not wait for ever.
    if (!kinds_budget_.has(std::min(expected, kKindsBudget / 4))) break;
    const BootNs before = machine_.clock->now();
    read_kinds(*process, *state, now);
    // On a busy machine most of that time is not spent, but waited for.
    kinds_budget_.spend(std::clamp(machine_.clock->now() - before, expected, 3 * expected));
  }
  read_maps(tree, now);
}

void DescriptorWatch::read_kinds(TrackedProcess& process, State& state, BootNs now) {
  state.kinds_at = now;
  state.kinds_count = state.count;
  read_limit(process);
  const bool grew = state.count >= state.look_count + std::max(kGrowthOfLook, state.look_count / 2);
  const bool near = is_near_limit(process, state.count) && state.count > state.look_count;
  const bool is_due = state.look_at == 0 || now - state.look_at >= kLookPeriod;
  // A closer look at all of them tells their kinds, too.
  if ((grew || near) && is_due && look_closer(process, state, now) &&
      looks_.back().looked_at == looks_.back().count) {
    process.sample.fds = Observed<FdKinds>(looks_.back().kinds);
  } else {
    process.sample.fds = read_fd_kinds(*process.descriptors, shm_devices_, kMostForKinds);
  }
}

bool DescriptorWatch::look_closer(const TrackedProcess& process, State& state, BootNs now) {
  state.look_at = now;
  state.look_count = state.count;
  auto look = look_at_descriptors(*process.directory, shm_devices_);
  if (!look) return false;  // its kinds say why
  look->at = now;
  look->key = process.key;
  looks_.push_back(std::move(*look));
  return true;
}

BootNs DescriptorWatch::time_to_limit(const ProcessTree& tree, BootNs most) const {
  BootNs soonest = most;
  for (const auto& [key, state] : states_) {
    if (state.per_ns <= 0) continue;
    const auto member = tree.members().find(key);
    if (member == tree.members().end() || !is_alive(member->second)) continue;
    const auto limit = soft_limit(member->second);
    if (!limit || *limit <= state.count || is_at_limit(member->second, state.count)) continue;
    const double left = static_cast<double>(*limit - state.count) / state.per_ns;
    // Half of it: the growth may become faster.
    if (left / 2 < static_cast<double>(soonest)) soonest = static_cast<BootNs>(left / 2);
  }
  return std::max(soonest, std::min(most, kShortestPoll));
}

void DescriptorWatch::read_maps(ProcessTree& tree, BootNs now) {
  maps_budget_.refill(now);
  std::vector<std::pair<TrackedProcess*, State*>> queue;
  for (auto& [key, process] : tree.members()) {
    const auto state = states_.find(key);
    if (!is_alive(process) || state == states_.end() || !takes_part(process.info.role)) continue;
    const bool changed = state->second.vm_bytes != process.last_stat.memory.vm_bytes;
    if (changed && now - state->second.maps_at >= kMapsPeriod)
      queue.emplace_back(&process, &state->second);
  }
  std::ranges::stable_sort(queue, {}, [](const auto& entry) { return entry.second->maps_at; });
  for (const auto& [process, state] : queue) {
    if (!maps_budget_.has(std::max(state->maps_cost, kMapsNsFirst))) break;
    using Count = Expected<uint64_t>;
    const BootNs before = machine_.clock->now();
    process->sample.map_count = reader_->run<uint64_t>(
        "count the lines of maps",
        [directory = process->directory] -> Count {
          DLP_TRY(const std::string text, directory->read("maps", kMapsLimit));
          return static_cast<uint64_t>(std::ranges::count(text, '\n'));
        },
        kMapsPatience);
    state->maps_at = now;
    if (!*process->sample.map_count) continue;  // a busy machine: once more
    // On a busy machine most of that time is not spent, but waited for.
    const BootNs expected =
        kMapsNsLeast + kMapsNsEach * static_cast<BootNs>(**process->sample.map_count);
    state->maps_cost = std::min(machine_.clock->now() - before, expected);
    state->vm_bytes = process->last_stat.memory.vm_bytes;
    maps_budget_.spend(state->maps_cost);
  }
}

}  // namespace dlprobe
