#include "lib/collect/snapshot/shared_files.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/os/clock.h"
#include "lib/proc/fdinfo.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr size_t kMostFiles = 64;
constexpr BootNs kLongestWatch = 100 * kMillisecond;
constexpr size_t kMostWatched = 2;

/// One descriptor for a file that several processes have open.
struct Opened {
  size_t process = 0;  ///< index in the tree
  SharedFile file;
};
using Group = std::vector<Opened>;  // of one file, in the order of processes
using Groups = std::map<std::pair<uint64_t, uint64_t>, Group>;  // by device and inode

using Processes = std::span<const ProcessKey>;

std::string descriptor_of(const ProcessKey& process, std::string_view folder, int32_t fd) {
  return "proc/" + std::to_string(process.pid) + "/" + std::string(folder) + "/" +
         std::to_string(fd);
}

bool has_two_processes(const Group& group) {
  return group.front().process != group.back().process;
}

// By inode, without the files that only one process has.
Groups find_groups(const Machine& machine, Processes processes) {
  Groups groups;
  for (size_t i = 0; i < processes.size(); ++i) {
    const auto folder =
        machine.root->open_directory("proc/" + std::to_string(processes[i].pid) + "/fd");
    if (!folder) continue;
    const auto names = (*folder)->list("");
    if (!names) continue;
    for (const std::string& name : *names) {
      const auto fd = parse_int<int32_t>(name);
      if (!fd || *fd <= kLastStandardStream) continue;
      const auto stat = (*folder)->stat(name);
      if (!stat || !S_ISREG(stat->mode)) continue;
      groups[{stat->device, stat->inode}].push_back(
          {.process = i, .file = {.fd = *fd, .device = stat->device, .inode = stat->inode}});
    }
  }
  std::erase_if(groups, [](const auto& entry) { return !has_two_processes(entry.second); });
  return groups;
}

bool is_shared_memory(std::string_view path) {
  return path.starts_with("/dev/shm/") || path.starts_with("/memfd:");
}

// Path, mode and position; what nobody reads by its position is left out.
void describe(const Machine& machine, Processes processes, Group& group) {
  const ProcessKey& first = processes[group.front().process];
  const auto path = machine.root->read_link(descriptor_of(first, "fd", group.front().file.fd));
  if (!path || is_shared_memory(*path)) {
    group.clear();
    return;
  }
  std::erase_if(group, [&](Opened& each) {
    const auto info =
        chain(machine.root->read(descriptor_of(processes[each.process], "fdinfo", each.file.fd)),
              parse_fdinfo);
    if (!info || (info->flags & (O_APPEND | O_PATH)) != 0) return true;
    const uint64_t access = info->flags & O_ACCMODE;
    each.file.path = *path;
    each.file.writes = access == O_RDWR;
    each.file.position = info->position;
    return access == O_WRONLY;
  });
}

// Numbers the open file descriptions of the group from `next` on.
void tell_descriptions(const Machine& machine, Processes processes, Group& group, int32_t& next) {
  const auto place = [&](const Opened& each) {
    return ProcessFile{.pid = processes[each.process].pid, .fd = each.file.fd};
  };
  for (size_t i = 0; i < group.size(); ++i) {
    if (group[i].file.description != 0) continue;
    for (size_t j = i + 1; j < group.size(); ++j) {
      if (group[j].file.description != 0 || group[j].process == group[i].process) continue;
      const auto identity = machine.processes->compare_files(place(group[i]), place(group[j]));
      if (!identity) return;
      if (*identity != FileIdentity::kSame) continue;
      group[i].file.description = next;
      group[j].file.description = next;
    }
    if (group[i].file.description != 0) ++next;
  }
}

/// Watches one open file description: its position, and who reads meanwhile.
class PositionWatch {
 public:
  PositionWatch(const Machine& machine, Processes processes, std::vector<Opened*> sharers)
      : machine_(machine), sharers_(std::move(sharers)) {
    const auto keep = [&](const std::string& name) {
      auto file = machine_.root->keep_file(name);
      return file ? std::move(*file) : nullptr;
    };
    for (const Opened* each : sharers_) {
      reads_.push_back(keep("proc/" + std::to_string(processes[each->process].pid) + "/io"));
    }
    const Opened& first = *sharers_.front();
    position_ = keep(descriptor_of(processes[first.process], "fdinfo", first.file.fd));
  }

  void watch() {
    const auto is_missing = [](const auto& file) { return file == nullptr; };
    if (!position_ || std::ranges::any_of(reads_, is_missing)) return;
    const BootNs end = machine_.clock->now() + kLongestWatch;
    constexpr int kMostRounds = 100'000;  // where the clock stands still
    Round before_last = look();
    Round last = look();
    for (int i = 0; i < kMostRounds && machine_.clock->now() < end; ++i) {
      Round now = look();
      // The kernel counts what was read just before it moves the position.
      if (last.position != before_last.position && credit(before_last.reads, now.reads)) return;
      before_last = std::exchange(last, std::move(now));
    }
  }

 private:
  struct Round {
    std::vector<std::optional<uint64_t>> reads;  ///< bytes, by sharer
    std::optional<uint64_t> position;
  };

  static std::optional<uint64_t> number(const KeptFile& file, std::string_view key) {
    std::array<char, 1024> buffer{};
    const auto text = file.read(buffer);
    if (!text) return std::nullopt;
    const auto value = find_value(*text, key);
    return value ? parse_int<uint64_t>(*value) : std::nullopt;
  }

  Round look() const {
    Round round;
    for (const auto& file : reads_)
      round.reads.push_back(number(*file, "rchar"));
    round.position = number(*position_, "pos");
    return round;
  }

  // Whether enough was seen: no process alone can have moved it each time.
  bool credit(const std::vector<std::optional<uint64_t>>& before,
              const std::vector<std::optional<uint64_t>>& after) {
    constexpr uint32_t kEnough = 8;
    std::vector<size_t> readers;
    for (size_t i = 0; i < sharers_.size(); ++i)
      if (!before[i] || before[i] != after[i]) readers.push_back(i);
    for (size_t i = 0; i < sharers_.size(); ++i) {
      SharedFile& file = sharers_[i]->file;
      if (readers.empty()) {
        ++file.moves_of_nobody;
      } else if (std::ranges::find(readers, i) == readers.end()) {
        ++file.moves_of_others;
      } else {
        ++(readers.size() == 1 ? file.moves_alone : file.moves_maybe);
      }
    }
    return std::ranges::all_of(
        sharers_, [](const Opened* each) { return each->file.moves_of_others >= kEnough; });
  }

  const Machine& machine_;
  std::vector<Opened*> sharers_;
  std::vector<std::unique_ptr<const KeptFile>> reads_;
  std::unique_ptr<const KeptFile> position_;
};

// The descriptors of that description, one for each process.
std::vector<Opened*> sharers_of(Group& group, int32_t description) {
  std::vector<Opened*> sharers;
  for (Opened& each : group) {
    if (each.file.description != description) continue;
    if (sharers.empty() || sharers.back()->process != each.process) sharers.push_back(&each);
  }
  return sharers;
}

}  // namespace

SharedFileLook SharedFileWatch::look(const Machine& machine, Processes processes) {
  SharedFileLook look{.at = machine.clock->now(), .processes = {}};
  for (const ProcessKey& key : processes)
    look.processes.push_back({.key = key, .files = {}});
  Groups groups = find_groups(machine, processes);
  while (groups.size() > kMostFiles)
    groups.erase(std::prev(groups.end()));
  int32_t next = 1;
  std::map<Place, uint64_t> positions;
  std::vector<std::vector<Opened*>> moved;
  for (auto& [id, group] : groups) {
    describe(machine, processes, group);
    if (group.empty() || !has_two_processes(group)) {
      group.clear();
      continue;
    }
    tell_descriptions(machine, processes, group, next);
    std::set<int32_t> moved_here;
    for (const Opened& each : group) {
      const Place place(processes[each.process], each.file.fd);
      positions[place] = each.file.position;
      const auto before = positions_.find(place);
      if (each.file.description != 0 && before != positions_.end() &&
          before->second != each.file.position) {
        moved_here.insert(each.file.description);
      }
    }
    for (const int32_t description : moved_here)
      moved.push_back(sharers_of(group, description));
  }
  positions_ = std::move(positions);
  for (size_t i = 0; i < std::min(moved.size(), kMostWatched); ++i)
    PositionWatch(machine, processes, moved[turn_++ % moved.size()]).watch();
  for (auto& [id, group] : groups)
    for (Opened& each : group)
      look.processes[each.process].files.push_back(std::move(each.file));
  connections_.look(machine, look);
  for (ProcessFiles& process : look.processes)
    std::ranges::sort(process.files, {}, &SharedFile::fd);
  return look;
}

void SharedFileWatch::look_if_due(const Machine& machine, Processes processes, BootNs newest,
                                  RecordSink& sink) {
  constexpr BootNs kAtOnce = 50 * kMillisecond;
  constexpr BootNs kOften = 300 * kMillisecond;
  constexpr BootNs kSeldom = 10 * kSecond;
  const BootNs now = machine.clock->now();
  budget_.refill(now);
  // What new processes share may be the end of them within a second.
  const BootNs every = newest > last_ ? kAtOnce : std::clamp((now - newest) / 2, kOften, kSeldom);
  if (processes.size() < 2 || now - last_ < every || !budget_.has(0)) return;
  const int64_t used_before = cpu_time_of_thread();
  SharedFileLook found = look(machine, processes);
  last_ = machine.clock->now();
  budget_.spend(cpu_time_of_thread() - used_before);
  sink.add(std::move(found));
}

}  // namespace dlprobe
