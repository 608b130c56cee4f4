#include "lib/collect/snapshot/flight_look.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <limits>
#include <ranges>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// The first one counts.
constexpr auto kPrefixes =
    std::to_array<std::string_view>({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"});
constexpr auto kCaches = std::to_array<std::string_view>({"XDG_CACHE_HOME", "HOME"});
constexpr size_t kMostGroups = 16;

struct Dump {
  std::string bytes;
  int64_t modified_ns = 0;
};

// The file system's clock may be another one, and coarser.
constexpr int64_t kClockError = kSecond;

bool may_be_its(const FileStat& file, const FlightWriter& writer, int64_t now) {
  return S_ISREG(file.mode) && file.uid == writer.uid &&
         file.modified_ns + kClockError >= writer.started_ns &&
         file.modified_ns <= now + kClockError;
}

// What it is is asked before it is opened: whoever opens a FIFO wakes the other end.
Expected<Dump> find_dump(const FlightWriter& writer, int64_t now) {
  for (const std::string& file : writer.files) {
    const auto above = writer.directory->open_as_root(file.starts_with('/') ? "root" : "cwd");
    if (!above) continue;
    const auto stat = (*above)->stat(file);
    if (!stat || !may_be_its(*stat, writer, now)) continue;
    DLP_TRY(std::string bytes, (*above)->read(file, kMostFlightDumpBytes));
    return Dump{.bytes = std::move(bytes), .modified_ns = stat->modified_ns};
  }
  return failure(ErrorCode::kNotFound, "no dump of the Flight Recorder");
}

// Another job of that user may have written it, with a rank of the same number. Of the threads that
// the dump names some may have ended.
bool is_by_another(const FlightDump& dump, const AddressSpace& space) {
  const auto is_told = [](const NotedCollective& each) { return each.thread != 0; };
  const auto is_here = [&](const NotedCollective& each) {
    const Mapping* memory = space.find(each.thread);
    return memory != nullptr && memory->writable;
  };
  return std::ranges::any_of(dump.collectives, is_told) &&
         std::ranges::none_of(dump.collectives, is_here);
}

// "all_reduce" of "nccl:all_reduce".
std::string operation_of(const NotedCollective& last) {
  return last.operation.substr(last.operation.rfind(':') + 1);
}

// Nothing where it is not told, or no time that a timeout has.
std::optional<int64_t> time_left(const NotedCollective& last, int64_t now) {
  constexpr int64_t kLongestMs = std::numeric_limits<int64_t>::max() / kMillisecond / 4;
  if (last.timeout_ms <= 0 || last.timeout_ms > kLongestMs) return std::nullopt;
  if (last.created_ns <= 0 || last.created_ns > now) return std::nullopt;
  const int64_t left = last.timeout_ms * kMillisecond - (now - last.created_ns);
  return left > 0 ? std::optional(left) : std::nullopt;
}

FlightGroup group_from(const NotedCollective& last, int64_t now) {
  FlightGroup group{.name = last.group,
                    .enqueued = last.sequence,
                    .operation = operation_of(last),
                    .tensors = last.tensors,
                    .gives_up_in_ns = time_left(last, now)};
  if (!last.file.empty()) {
    group.at =
        StackFrame{.python = true, .function = last.function, .file = last.file, .line = last.line};
  }
  return group;
}

void add_status(FlightGroup& group, const GroupStatus& status) {
  group.completed = std::max(group.completed, status.completed);
  // Else the last one is not among the entries.
  if (status.enqueued > group.enqueued)
    group = {.name = group.name, .enqueued = status.enqueued, .completed = group.completed};
}

}  // namespace

bool tells_flight_dump(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return std::ranges::count(kPrefixes, name) > 0 || std::ranges::count(kCaches, name) > 0;
}

std::vector<std::string> flight_dump_files(const EnvironmentLookup& environment, int32_t rank) {
  const std::string number = std::to_string(rank);
  for (const std::string_view each : kPrefixes)
    if (const auto prefix = environment(each); prefix && !prefix->empty())
      return {*prefix + number};
  const auto home = environment("HOME").value_or("/tmp");
  const std::string cache = environment("XDG_CACHE_HOME").value_or(home + "/.cache");
  return {cache + "/torch/comm_lib_trace_rank_" + number, "/tmp/nccl_trace_rank_" + number};
}

Expected<FlightRecord> read_flight_record(const FlightWriter& writer, const AddressSpace& space,
                                          const Clock& clock, DeadlineReader& reader) {
  const int64_t now = clock.realtime_ns();
  DLP_TRY(const Dump file, reader.run<Dump>("read a dump of the Flight Recorder",
                                            [writer, now] { return find_dump(writer, now); }));
  DLP_TRY(const FlightDump dump, parse_flight_dump(file.bytes));
  if (is_by_another(dump, space))
    return failure(ErrorCode::kNotFound, "the dump of the Flight Recorder is of another process");
  return FlightRecord{.age_ns = std::max<int64_t>(now - file.modified_ns, 0),
                      .groups = groups_of_dump(dump, now)};
}

void add_dump(FlightRecord& live, const FlightRecord& dump) {
  for (FlightGroup& group : live.groups) {
    const auto same = std::ranges::find_if(dump.groups, [&](const FlightGroup& each) {
      return each.name == group.name && each.enqueued == group.enqueued;
    });
    if (same == dump.groups.end()) continue;
    group.at = same->at;
    if (!same->tensors.empty()) group.tensors = same->tensors;
    if (group.is_pending()) group.gives_up_in_ns = same->gives_up_in_ns;
  }
}

std::vector<FlightGroup> groups_of_dump(const FlightDump& dump, int64_t now_ns) {
  std::vector<FlightGroup> groups;
  std::vector<int64_t> ids;
  const auto is_one = [](const NotedCollective& each) {
    return !each.is_message && !each.group.empty() && each.sequence > 0;
  };
  // The newest first.
  for (const NotedCollective& each :
       dump.collectives | std::views::reverse | std::views::filter(is_one)) {
    auto group = std::ranges::find(groups, each.group, &FlightGroup::name);
    if (group == groups.end()) {
      if (groups.size() == kMostGroups) continue;
      groups.push_back(group_from(each, now_ns));
      ids.push_back(each.group_id);
      group = groups.end() - 1;
    }
    if (each.is_done) group->completed = std::max(group->completed, each.sequence);
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto status = std::ranges::find(dump.groups, ids[i], &GroupStatus::group_id);
    if (status != dump.groups.end()) add_status(groups[i], *status);
    if (!groups[i].is_pending()) groups[i].gives_up_in_ns.reset();
  }
  std::ranges::sort(groups, {}, &FlightGroup::name);
  return groups;
}

}  // namespace dlprobe
