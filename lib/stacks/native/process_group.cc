#include "lib/stacks/native/process_group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <ranges>
#include <set>
#include <span>
#include <utility>

#include "lib/base/path_name.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPointerBytes = sizeof(uint64_t);
/// Of each stack: a thread of a process group has few functions, and they are shallow.
constexpr uint64_t kStackBytes = 8192;
constexpr size_t kMostStacks = 256;
constexpr size_t kMostObjects = 4096;
constexpr int32_t kMostRanks = 1 << 20;
constexpr size_t kMostGroups = 64;

/// Where a c10d::Backend has `int rank_, size_`: behind its vtable and one word that counts both
/// kinds of references (torch 2.13), or two such words (1.13). A word that counts is no rank and
/// size: it has 0 above, or, as one word, never a size of 2 or more beside it.
constexpr auto kPlacesOfRank = std::to_array<uint64_t>({16, 24});
/// From there to a std::string, the name of the group; torch 1.13 has none.
constexpr uint64_t kToName = 16;

/// A group of NCCL stands on no stack in torch 2.11: its threads run functions of objects that
/// belong to it (Watchdog, HeartbeatMonitor) and have a pointer to it in one of their first words.
constexpr uint64_t kWordsOfOwned = 4;

/// Where a group keeps its c10d::ProcessGroupStatus, counted from its own begin; 1080 and 472 in
/// torch 2.11 (NCCL) and 2.13 (Gloo).
constexpr uint64_t kFurthestStatus = 4096;

/// A class of process groups and the symbol of its vtable (Itanium ABI).
struct GroupClass {
  std::string_view name;
  std::string_view vtable;
};
constexpr std::string_view kGloo = "c10d::ProcessGroupGloo";
constexpr auto kClasses = std::to_array<GroupClass>({
    {"c10d::ProcessGroupNCCL", "_ZTVN4c10d16ProcessGroupNCCLE"},
    {kGloo, "_ZTVN4c10d16ProcessGroupGlooE"},
});
/// An object points behind the first two words of its vtable.
constexpr uint64_t kToFunctions = 2 * kPointerBytes;

bool is_torch(std::string_view path) {
  return base_name(path).starts_with("libtorch");
}

/// What may be a process group, by the address of its vtable.
struct MaybeGroup {
  uint64_t object = 0;
  uint64_t vtable = 0;
  const Mapping* library = nullptr;  ///< the mapping that has the vtable
};

std::optional<MaybeGroup> look_at(const Memory& memory, const AddressSpace& space,
                                  uint64_t object) {
  const auto vtable = memory.value<uint64_t>(object);
  const Mapping* library = vtable ? space.find(*vtable) : nullptr;
  if (library == nullptr || !is_torch(library->path)) return std::nullopt;
  return MaybeGroup{.object = object, .vtable = *vtable, .library = library};
}

/// What the words of a stack point to on the heap.
void note_objects_on(const Memory& memory, const AddressSpace& space, uint64_t stack,
                     std::set<uint64_t>& objects) {
  const Mapping* mapping = space.find(stack);
  if (mapping == nullptr) return;
  const uint64_t begin = (stack + kPointerBytes - 1) / kPointerBytes * kPointerBytes;
  const uint64_t end = std::min(begin + kStackBytes, mapping->end);
  for (uint64_t at = begin; at + kPointerBytes <= end && objects.size() < kMostObjects;
       at += kPointerBytes) {
    const auto object = memory.value<uint64_t>(at);
    if (!object) break;
    const Mapping* home = *object % kPointerBytes == 0 ? space.find(*object) : nullptr;
    if (home != nullptr && home->writable && home->inode == 0) objects.insert(*object);
  }
}

bool has_torch(const AddressSpace& space) {
  return std::ranges::any_of(space.mappings(),
                             [](const Mapping& each) { return is_torch(each.path); });
}

/// Without names a group of Gloo beside one of NCCL may be one of some ranks.
bool may_have_nccl(const AddressSpace& space) {
  return std::ranges::any_of(space.mappings(), [](const Mapping& each) {
    return base_name(each.path).starts_with("libtorch_cuda");
  });
}

/// The objects themselves, and what their first words point to.
std::vector<MaybeGroup> objects_on(const Memory& memory, const AddressSpace& space,
                                   const std::vector<uint64_t>& stacks) {
  std::set<uint64_t> objects;
  for (const uint64_t stack : std::span(stacks).first(std::min(stacks.size(), kMostStacks)))
    note_objects_on(memory, space, stack, objects);
  std::set<uint64_t> all = objects;
  for (const uint64_t object : may_have_nccl(space) ? objects : std::set<uint64_t>()) {
    for (uint64_t word = 0; word < kWordsOfOwned; ++word)
      if (const auto owner = memory.value<uint64_t>(object + word * kPointerBytes))
        all.insert(*owner);
  }
  std::vector<MaybeGroup> found;
  for (const uint64_t object : all)
    if (const auto maybe = look_at(memory, space, object)) found.push_back(*maybe);
  return found;
}

struct RankOfGroup {
  int32_t rank = 0;
  int32_t size = 0;
  bool operator==(const RankOfGroup&) const = default;
};

/// A std::string of libstdc++.
struct TextObject {
  uint64_t text = 0;
  uint64_t length = 0;
  std::array<char, 16> own{};  ///< where short ones are
};

/// c10d::ProcessGroupStatus, as torch 2.11 and 2.13 have it. Numbers are -1 as long as there was
/// none.
struct StatusObject {
  int64_t enqueued = 0;
  int64_t started = 0;  ///< told only where the group times its collectives
  int64_t completed = 0;
  TextObject enqueued_name;
  TextObject started_name;
  TextObject completed_name;
  uint64_t elements_in = 0;  ///< of the last one enqueued; 0: not told (Gloo)
};

/// What std::make_shared makes has its counters, and the pointer to their functions, before it.
constexpr uint64_t kToShared = 16;

constexpr int64_t kMostCollectives = int64_t{1} << 48;
constexpr uint64_t kLongestName = 32;

/// "ALLREDUCE" is short enough to be within the object; longer names may be elsewhere.
std::optional<std::string> name_of(const Memory& memory, const TextObject& text, uint64_t at) {
  if (text.length > kLongestName) return std::nullopt;
  const bool is_own = text.length < text.own.size();
  if (is_own != (text.text == at + offsetof(TextObject, own))) return std::nullopt;
  std::string name(text.length, '\0');
  if (!memory.read(text.text, std::as_writable_bytes(std::span(name)))) return std::nullopt;
  const bool is_name = std::ranges::all_of(
      name, [](char each) { return (each >= 'A' && each <= 'Z') || each == '_'; });
  return is_name ? std::optional(name) : std::nullopt;
}

/// c10d::OpType as torch.distributed calls it.
std::string_view operation_of(std::string_view type) {
  using Name = std::pair<std::string_view, std::string_view>;
  constexpr auto kNames = std::to_array<Name>({{"ALLGATHER", "all_gather"},
                                               {"ALLREDUCE", "all_reduce"},
                                               {"ALLREDUCE_COALESCED", "all_reduce_coalesced"},
                                               {"ALLTOALL", "all_to_all"},
                                               {"ALLTOALL_BASE", "all_to_all_single"},
                                               {"BARRIER", "barrier"},
                                               {"BROADCAST", "broadcast"},
                                               {"GATHER", "gather"},
                                               {"RECV", "recv"},
                                               {"RECVANYSOURCE", "recv"},
                                               {"REDUCE", "reduce"},
                                               {"REDUCE_SCATTER", "reduce_scatter"},
                                               {"SCATTER", "scatter"},
                                               {"SEND", "send"},
                                               {"_ALLGATHER_BASE", "all_gather_into_tensor"},
                                               {"_REDUCE_SCATTER_BASE", "reduce_scatter_tensor"}});
  const auto found = std::ranges::find(kNames, type, &Name::first);
  return found == kNames.end() ? type : found->second;
}

/// Where every rank has to give as many elements.
bool takes_the_same_of_all(std::string_view operation) {
  constexpr auto kThese = std::to_array<std::string_view>(
      {"all_reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor"});
  return std::ranges::count(kThese, operation) > 0;
}

std::optional<FlightGroup> progress_in(const Memory& memory, uint64_t at) {
  const auto status = memory.value<StatusObject>(at);
  if (!status) return std::nullopt;
  for (const int64_t number : {status->enqueued, status->started, status->completed})
    if (number < -1 || number > kMostCollectives) return std::nullopt;
  const auto type =
      name_of(memory, status->enqueued_name, at + offsetof(StatusObject, enqueued_name));
  const bool are_names =
      name_of(memory, status->started_name, at + offsetof(StatusObject, started_name)) &&
      name_of(memory, status->completed_name, at + offsetof(StatusObject, completed_name));
  if (!type || !are_names || type->empty() != (status->enqueued == -1)) return std::nullopt;
  FlightGroup progress{.enqueued = std::max<int64_t>(status->enqueued, 0),
                       .completed = std::max<int64_t>(status->completed, 0),
                       .operation = std::string(operation_of(*type))};
  if (status->elements_in > 0 && takes_the_same_of_all(progress.operation))
    progress.tensors = std::to_string(status->elements_in) + " elements";
  return progress;
}

/// Nothing: torch 1.13, whose groups have no names.
std::optional<std::string> group_name(const Memory& memory, const AddressSpace& space,
                                      uint64_t at) {
  constexpr uint64_t kLongest = 64;
  const auto text = memory.value<TextObject>(at);
  if (!text || text->length == 0 || text->length > kLongest) return std::nullopt;
  if (space.find(text->text) == nullptr) return std::nullopt;
  std::string name(text->length, '\0');
  if (!memory.read(text->text, std::as_writable_bytes(std::span(name)))) return std::nullopt;
  return name;
}

/// Where it has no rank and size that fit it is no group.
std::optional<ProcessGroup> group_at(const Memory& memory, const AddressSpace& space,
                                     uint64_t object) {
  for (const uint64_t place : kPlacesOfRank) {
    const auto found = memory.value<RankOfGroup>(object + place);
    if (!found || found->size < 2 || found->size > kMostRanks) continue;
    if (found->rank < 0 || found->rank >= found->size) continue;
    return ProcessGroup{.name = group_name(memory, space, object + place + kToName),
                        .rank = found->rank,
                        .size = found->size};
  }
  return std::nullopt;
}

/// 0: it has none (older torch).
uint64_t find_status(const Memory& memory, uint64_t object) {
  for (uint64_t at = object; at < object + kFurthestStatus; at += kPointerBytes) {
    const auto shared = memory.value<std::array<uint64_t, 2>>(at);
    if (!shared) return 0;
    const auto [status, counters] = *shared;
    if (status != 0 && status == counters + kToShared && progress_in(memory, status)) return status;
  }
  return 0;
}

/// Which classes of process groups the libraries of a process have. Each is asked once: to find a
/// symbol takes milliseconds, and objects may be many.
class GroupClasses {
 public:
  explicit GroupClasses(SymbolSource& symbols) : symbols_(&symbols) {}

  /// The class whose vtable that is; null if it is none of a process group.
  const GroupClass* find(const MaybeGroup& maybe) {
    const uint64_t inode = maybe.library->inode;
    constexpr size_t kMostLibraries = 4;
    if (!seen_.contains(inode) && seen_.size() < kMostLibraries) {
      seen_.insert(inode);
      for (const GroupClass& each : kClasses) {
        if (const auto vtable = symbols_->symbol(*maybe.library, each.vtable))
          classes_.emplace(*vtable + kToFunctions, &each);
      }
    }
    const auto found = classes_.find(maybe.vtable);
    return found == classes_.end() ? nullptr : found->second;
  }

 private:
  SymbolSource* symbols_;
  std::set<uint64_t> seen_;                        ///< inodes of libraries
  std::map<uint64_t, const GroupClass*> classes_;  ///< by what an object of it begins with
};

}  // namespace

std::vector<ProcessGroup> find_process_groups(const Memory& memory, const AddressSpace& space,
                                              SymbolSource& symbols,
                                              const std::vector<uint64_t>& stacks) {
  std::vector<ProcessGroup> groups;
  if (!has_torch(space)) return groups;
  GroupClasses classes(symbols);
  for (const MaybeGroup& maybe : objects_on(memory, space, stacks)) {
    const GroupClass* type = classes.find(maybe);
    if (type == nullptr) continue;
    auto group = group_at(memory, space, maybe.object);
    if (!group || groups.size() == kMostGroups) continue;
    group->type = type->name;
    group->status = find_status(memory, maybe.object);
    groups.push_back(std::move(*group));
  }
  return groups;
}

std::optional<JobRank> rank_of_default_group(const std::vector<ProcessGroup>& groups,
                                             const AddressSpace& space) {
  std::optional<JobRank> largest;
  const bool may_be_default = !may_have_nccl(space);
  for (const ProcessGroup& group : groups) {
    // Torch calls its default group "0", and any other one by another number, or a hash.
    if (group.name ? *group.name != "0" : !may_be_default) continue;
    if (largest && group.size < largest->world_size) continue;
    if (largest && group.size == largest->world_size && group.rank != largest->rank)
      return std::nullopt;
    largest =
        JobRank{.rank = group.rank, .world_size = group.size, .source = std::string(group.type)};
  }
  return largest;
}

std::vector<FlightGroup> progress_of(const Memory& memory,
                                     const std::vector<ProcessGroup>& groups) {
  // Of NCCL first: init_process_group() without a backend makes one of each, by the same name.
  std::map<std::pair<std::string, std::string_view>, FlightGroup> progress;
  for (const ProcessGroup& group : groups) {
    const std::string name = group.name.value_or("");
    auto found =
        group.status != 0 && !name.empty() ? progress_in(memory, group.status) : std::nullopt;
    if (!found) continue;
    const bool is_second =
        group.type == kGloo && std::ranges::any_of(groups, [&](const auto& other) {
          return other.type != kGloo && other.name == group.name;
        });
    found->name = name + (is_second ? " of Gloo" : "");
    progress.insert_or_assign({found->name, group.type}, std::move(*found));
  }
  std::vector<FlightGroup> all;
  for (FlightGroup& each : progress | std::views::values)
    all.push_back(std::move(each));
  return all;
}

}  // namespace dlprobe
