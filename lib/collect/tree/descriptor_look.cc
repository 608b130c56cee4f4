#include "lib/collect/tree/descriptor_look.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/path_name.h"
#include "lib/proc/fdinfo.h"

namespace dlprobe {
namespace {

constexpr size_t kMostLookedAt = 2048;
constexpr size_t kMostSockets = 64;  // whose queues are looked at: 4 us each
constexpr size_t kMostNamedGroups = 8;
// A file that is open so often stands for itself; others go by their folder.
constexpr uint64_t kOwnGroup = 4;

using KindAndName = std::pair<FdKind, std::string>;

FdKind kind_of_anonymous(std::string_view link) {
  if (link == "anon_inode:[eventfd]") return FdKind::kEventfd;
  if (link == "anon_inode:[eventpoll]") return FdKind::kEpoll;
  return FdKind::kOther;
}

// What stat(2) alone tells; nothing where the link has to be read.
std::optional<FdKind> kind_by_stat(const FileStat& stat, const std::set<uint64_t>& shm_devices) {
  switch (stat.mode & S_IFMT) {
    case S_IFSOCK:
      return FdKind::kSocket;
    case S_IFIFO:
      return FdKind::kPipe;
    case S_IFCHR:
    case S_IFBLK:
      return FdKind::kDevice;
    case S_IFDIR:
      return FdKind::kFile;
    case S_IFREG:
      if (shm_devices.contains(stat.device)) return FdKind::kSegment;
      if (stat.links > 0) return FdKind::kFile;
      return std::nullopt;  // a removed file, or a memfd
    default:
      return std::nullopt;  // of the kernel's own: eventfd, epoll ...
  }
}

FdKind kind_by_link(const FileStat& stat, std::string_view link) {
  if (!S_ISREG(stat.mode)) return kind_of_anonymous(link);
  return link.starts_with("/memfd:") ? FdKind::kMemfd : FdKind::kFile;
}

void add(FdKinds& kinds, FdKind kind, const FileStat& stat) {
  ++kinds[kind];
  if (kind == FdKind::kSegment && stat.links == 0) ++kinds.unlinked_segments;
}

// The newest first: what leaks is at the end.
std::vector<int32_t> newest(const std::vector<std::string>& names, size_t most) {
  std::vector<int32_t> numbers;
  numbers.reserve(names.size());
  for (const std::string& name : names) {
    if (const auto number = parse_int<int32_t>(name)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers, std::ranges::greater{});
  if (numbers.size() > most) numbers.resize(most);
  return numbers;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(0, slash + 1) + "*";
}

// Files that are open once or twice are told by their folder.
std::vector<FdGroup> largest(const std::map<KindAndName, uint64_t>& counts) {
  std::map<KindAndName, uint64_t> folded;
  for (const auto& [group, count] : counts) {
    const bool is_one_of_many = group.first == FdKind::kFile && count < kOwnGroup;
    folded[is_one_of_many ? KindAndName(group.first, folder_of(group.second)) : group] += count;
  }
  std::vector<FdGroup> groups;
  groups.reserve(folded.size());
  for (const auto& [group, count] : folded)
    groups.push_back({.kind = group.first, .name = group.second, .count = count});
  std::ranges::stable_sort(groups, std::ranges::greater{}, &FdGroup::count);
  if (groups.size() > kMostNamedGroups) groups.resize(kMostNamedGroups);
  return groups;
}

uint64_t in_flight_of(const Directory& process, int32_t fd) {
  const auto info = chain(process.read("fdinfo/" + std::to_string(fd)), parse_fdinfo);
  return info ? info->scm_fds.value_or(0) : 0;
}

}  // namespace

std::optional<uint64_t> descriptors_by_size(const Directory& descriptors) {
  // Since Linux 6.2 the size of the directory is the number of descriptors; before it is 0.
  const auto stat = descriptors.stat("");
  if (stat && stat->size_bytes > 0) return stat->size_bytes;
  return std::nullopt;
}

Expected<uint64_t> count_descriptors(const Directory& descriptors) {
  if (const auto count = descriptors_by_size(descriptors)) return *count;
  return chain(
      descriptors.list(""),
      [](const std::vector<std::string>& names) -> Expected<uint64_t> { return names.size(); });
}

Expected<FdKinds> read_fd_kinds(const Directory& descriptors, const std::set<uint64_t>& shm_devices,
                                size_t most) {
  DLP_TRY(const auto names, descriptors.list(""));
  if (names.size() > most) {
    return failure(ErrorCode::kInsufficient, join_path(descriptors, "") + ": " +
                                                 std::to_string(names.size()) +
                                                 " descriptors are too many to look at each");
  }
  FdKinds kinds;
  Status forbidden;
  for (const std::string& name : names) {
    const auto stat = descriptors.stat(name);
    if (!stat) {  // closed by now, or not for us
      if (stat.error().code == ErrorCode::kForbidden) forbidden = std::unexpected(stat.error());
      continue;
    }
    const auto kind = kind_by_stat(*stat, shm_devices);
    add(kinds, kind ? *kind : kind_by_link(*stat, descriptors.read_link(name).value_or("")), *stat);
  }
  if (!forbidden) return std::unexpected(forbidden.error());
  return kinds;
}

Expected<FdLook> look_at_descriptors(const Directory& process,
                                     const std::set<uint64_t>& shm_devices) {
  DLP_TRY(const auto folder, process.open_directory("fd"));
  DLP_TRY(const auto names, folder->list(""));
  FdLook look;
  look.count = names.size();
  std::map<KindAndName, uint64_t> counts;
  size_t sockets = 0;
  for (const int32_t fd : newest(names, kMostLookedAt)) {
    const std::string name = std::to_string(fd);
    const auto stat = folder->stat(name);
    const auto link = folder->read_link(name);
    if (!stat || !link) continue;
    const FdKind kind = kind_by_stat(*stat, shm_devices).value_or(kind_by_link(*stat, *link));
    add(look.kinds, kind, *stat);
    ++look.looked_at;
    ++counts[KindAndName(kind, group_name(kind, *link))];
    if (kind == FdKind::kSocket && ++sockets <= kMostSockets)
      look.in_flight += in_flight_of(process, fd);
  }
  look.most = largest(counts);
  return look;
}

std::string group_name(FdKind kind, std::string_view link) {
  link = without_deleted(link);
  switch (kind) {
    case FdKind::kSegment: {
      const std::string_view name = base_name(link);
      const std::string_view folder = link.substr(0, link.size() - name.size());
      // torch_PID_RANDOM_NUMBER: by the creator.
      constexpr std::string_view kTensor = "torch_";
      const size_t end =
          name.starts_with(kTensor) ? name.find('_', kTensor.size()) : std::string_view::npos;
      if (end == std::string_view::npos) return std::string(link);
      return std::string(folder) + std::string(name.substr(0, end)) + "_*";
    }
    case FdKind::kFile:
    case FdKind::kDevice:
    case FdKind::kMemfd:
      return std::string(link);
    default:
      return std::string(to_string(kind));
  }
}

}  // namespace dlprobe
