#include "lib/collect/shm/tracked_names.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/foreign/resource_tracker.h"
#include "lib/proc/maps.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPageBytes = 4096;
/// A tracker has about 6 MiB: reading and searching them takes 3 ms.
constexpr uint64_t kMostBytes = uint64_t{64} << 20U;
constexpr std::chrono::milliseconds kPatience{50};

bool is_data(const Mapping& mapping) {
  return mapping.readable && mapping.writable && !mapping.shared && mapping.inode == 0 &&
         (mapping.path.empty() || mapping.path == "[heap]");
}

using Stretch = std::pair<uint64_t, uint64_t>;  // begin, end

/// The stretches of a mapping that are in memory; all of it where the kernel does not tell.
std::vector<Stretch> in_memory(const ProcessAccess& processes, int32_t pid,
                               const Mapping& mapping) {
  const auto pages =
      processes.pages_in_memory(pid, mapping.begin, (mapping.end - mapping.begin) / kPageBytes);
  if (!pages) return {{mapping.begin, mapping.end}};
  std::vector<Stretch> stretches;
  uint64_t at = mapping.begin;
  for (const bool is_there : *pages) {
    if (is_there && !stretches.empty() && stretches.back().second == at)
      stretches.back().second += kPageBytes;
    else if (is_there)
      stretches.emplace_back(at, at + kPageBytes);
    at += kPageBytes;
  }
  return stretches;
}

void find_names(std::string_view memory, const NameSet& names, NameSet& found) {
  const size_t longest = std::ranges::max(names, {}, &std::string::size).size();
  for (size_t at = memory.find('/'); at != std::string_view::npos; at = memory.find('/', at + 1)) {
    const std::string_view rest = memory.substr(at + 1, longest + 1);
    const auto name = names.find(rest.substr(0, rest.find('\0')));
    if (name != names.end()) found.insert(*name);
  }
}

Expected<NameSet> search(const ProcessAccess& processes, const Directory& process, int32_t pid,
                         const NameSet& names) {
  DLP_TRY(const auto mappings, chain(process.read("maps", kMapsLimit), parse_maps));
  NameSet found;
  uint64_t left = kMostBytes;
  for (const Mapping& mapping : mappings) {
    if (!is_data(mapping) || mapping.end - mapping.begin > left) continue;
    left -= mapping.end - mapping.begin;
    for (const auto& [begin, end] : in_memory(processes, pid, mapping)) {
      std::string memory(end - begin, '\0');
      DLP_CHECK(processes.read_memory(pid, begin, std::as_writable_bytes(std::span(memory))));
      find_names(memory, names, found);
    }
  }
  return found;
}

}  // namespace

bool tracks_resources(DeadlineReader& reader, const std::shared_ptr<const Directory>& process) {
  const auto arguments = reader.read(process, "cmdline");
  return arguments && is_of_resource_tracker(*arguments);
}

Expected<NameSet> names_tracked(DeadlineReader& reader, const Machine& machine,
                                const std::shared_ptr<const Directory>& process, int32_t pid,
                                NameSet names) {
  if (names.empty()) return NameSet();
  return reader.run<NameSet>(
      "read what resource tracker " + process->path() + " knows",
      [processes = machine.processes, process, pid, names = std::move(names)] {
        return search(*processes, *process, pid, names);
      },
      kPatience);
}

}  // namespace dlprobe
