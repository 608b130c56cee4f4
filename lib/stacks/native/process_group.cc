#include "lib/stacks/native/process_group.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "lib/base/path_name.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPointerBytes = sizeof(uint64_t);
/// Of each stack: a thread of a process group has few functions, and they are shallow.
constexpr uint64_t kStackBytes = 8192;
constexpr size_t kMostStacks = 256;
constexpr size_t kMostObjects = 4096;
constexpr int32_t kMostRanks = 1 << 20;

/// Where a c10d::Backend has `int rank_, size_`: behind its vtable and one word that counts both
/// kinds of references (torch 2.13), or two such words (1.13). A word that counts is no rank and
/// size: it has 0 above, or, as one word, never a size of 2 or more beside it.
constexpr auto kPlacesOfRank = std::to_array<uint64_t>({16, 24});
/// From there to a std::string, the name of the group; torch 1.13 has none.
constexpr uint64_t kToName = 16;

/// A class of process groups and the symbol of its vtable (Itanium ABI).
struct GroupClass {
  std::string_view name;
  std::string_view vtable;
};
constexpr auto kClasses = std::to_array<GroupClass>({
    {"c10d::ProcessGroupNCCL", "_ZTVN4c10d16ProcessGroupNCCLE"},
    {"c10d::ProcessGroupGloo", "_ZTVN4c10d16ProcessGroupGlooE"},
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

std::vector<MaybeGroup> objects_on(const Memory& memory, const AddressSpace& space,
                                   const std::vector<uint64_t>& stacks) {
  std::set<uint64_t> objects;
  for (const uint64_t stack : std::span(stacks).first(std::min(stacks.size(), kMostStacks)))
    note_objects_on(memory, space, stack, objects);
  std::vector<MaybeGroup> found;
  for (const uint64_t object : objects)
    if (const auto maybe = look_at(memory, space, object)) found.push_back(*maybe);
  return found;
}

struct RankOfGroup {
  int32_t rank = 0;
  int32_t size = 0;
  bool operator==(const RankOfGroup&) const = default;
};

/// Torch calls its default group "0", and any other one by another number, or a hash. Nothing: that
/// memory has no name.
std::optional<bool> is_default_group(const Memory& memory, const AddressSpace& space,
                                     uint64_t name) {
  constexpr std::array<char, 2> kFirst = {'0', '\0'};
  const auto text = memory.value<uint64_t>(name);
  if (!text || space.find(*text) == nullptr) return std::nullopt;
  const auto begin = memory.value<std::array<char, 2>>(*text);
  return begin && *begin == kFirst;
}

/// Without names a group of Gloo beside one of NCCL may be one of some ranks.
bool may_have_nccl(const AddressSpace& space) {
  return std::ranges::any_of(space.mappings(), [](const Mapping& each) {
    return base_name(each.path).starts_with("libtorch_cuda");
  });
}

/// Nothing where that is not the default group; one without a name is if it may be.
std::optional<RankOfGroup> rank_in(const Memory& memory, const AddressSpace& space, uint64_t object,
                                   bool may_be_default) {
  for (const uint64_t place : kPlacesOfRank) {
    const auto found = memory.value<RankOfGroup>(object + place);
    if (!found || found->size < 2 || found->size > kMostRanks) continue;
    if (found->rank < 0 || found->rank >= found->size) continue;
    const bool is_default =
        is_default_group(memory, space, object + place + kToName).value_or(may_be_default);
    if (is_default) return *found;
    return std::nullopt;
  }
  return std::nullopt;
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

std::optional<JobRank> read_group_rank(const Memory& memory, const AddressSpace& space,
                                       SymbolSource& symbols, const std::vector<uint64_t>& stacks) {
  std::optional<JobRank> largest;
  GroupClasses classes(symbols);
  const bool may_be_default = !may_have_nccl(space);
  for (const MaybeGroup& maybe : objects_on(memory, space, stacks)) {
    const GroupClass* group = classes.find(maybe);
    if (group == nullptr) continue;
    const auto rank = rank_in(memory, space, maybe.object, may_be_default);
    if (!rank || (largest && rank->size < largest->world_size)) continue;
    if (largest && rank->size == largest->world_size && rank->rank != largest->rank)
      return std::nullopt;
    largest =
        JobRank{.rank = rank->rank, .world_size = rank->size, .source = std::string(group->name)};
  }
  return largest;
}

}  // namespace dlprobe
