#include "lib/proc/pid_cgroup.h"

#include <algorithm>

#include "lib/base/parse.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPidCgroup = "/proc/PID/cgroup";

Expected<CgroupEntry> parse_membership(std::string_view line) {
  const size_t first = line.find(':');
  const size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
  if (second == std::string_view::npos) return malformed(kPidCgroup, "no two colons", line);
  const auto hierarchy = parse_int<int32_t>(line.substr(0, first));
  const std::string_view path = line.substr(second + 1);
  // "/.." is how a group outside the reader's cgroup namespace looks.
  if (!hierarchy || !path.starts_with('/')) return malformed(kPidCgroup, "not an entry", line);
  CgroupEntry entry{.hierarchy = *hierarchy, .path = std::string(path)};
  const std::string_view controllers = line.substr(first + 1, second - first - 1);
  if (controllers.empty()) return entry;
  for (const std::string_view name : split(controllers, ','))
    entry.controllers.emplace_back(name);
  return entry;
}

}  // namespace

Expected<std::vector<CgroupEntry>> parse_pid_cgroup(std::string_view text) {
  return parse_lines(kPidCgroup, text, parse_membership);
}

const CgroupEntry* controller_cgroup(const std::vector<CgroupEntry>& entries,
                                     std::string_view controller) {
  const CgroupEntry* unified = nullptr;
  for (const CgroupEntry& entry : entries) {
    if (std::ranges::find(entry.controllers, controller) != entry.controllers.end()) return &entry;
    if (entry.hierarchy == 0) unified = &entry;
  }
  return unified;
}

}  // namespace dlprobe
