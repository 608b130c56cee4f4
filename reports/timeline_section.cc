#include <fmt/format.h>

#include <algorithm>

#include "reports/sections.h"

namespace dlprobe {
namespace {

constexpr size_t kMostRows = 600;
constexpr size_t kMostEvents = 200;

// One line of the table; nothing where a value was not read.
struct Row {
  size_t run = 0;
  BootNs at = 0;
  std::optional<uint64_t> shm_used_bytes;
  std::optional<uint64_t> rss_sum_bytes;
  std::optional<uint64_t> fds;
  size_t processes = 0;
};

std::optional<uint64_t> rss_sum(const Sample& sample) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    if (!process.rss_bytes) return std::nullopt;
    sum += *process.rss_bytes;
  }
  return sum;
}

std::optional<uint64_t> fd_sum(const Sample& sample) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    if (!process.fd_count || !*process.fd_count) return std::nullopt;
    sum += **process.fd_count;
  }
  return sum;
}

// The fast statvfs between two samples belong to the later one, by their highest.
std::vector<Row> rows_of(const Run& run, size_t index) {
  std::vector<Row> rows;
  size_t next_use = 0;
  for (const Sample& sample : run.samples) {
    Row row = {.run = index,
               .at = sample.at,
               .shm_used_bytes = {},
               .rss_sum_bytes = rss_sum(sample),
               .fds = fd_sum(sample),
               .processes = sample.processes.size()};
    for (; next_use < run.shm_use.size() && run.shm_use[next_use].at <= sample.at; ++next_use) {
      row.shm_used_bytes =
          std::max(row.shm_used_bytes.value_or(0), run.shm_use[next_use].used_bytes);
    }
    rows.push_back(row);
  }
  return rows;
}

// Of each stretch of rows the one with the highest shm use stays, and the last one of all.
std::vector<Row> downsampled(const std::vector<Row>& rows, size_t most) {
  if (rows.size() <= most) return rows;
  const size_t stretches = most - 1;
  std::vector<Row> result;
  for (size_t i = 0; i < stretches; ++i) {
    const auto from = rows.begin() + static_cast<std::ptrdiff_t>(i * rows.size() / stretches);
    const auto to = rows.begin() + static_cast<std::ptrdiff_t>((i + 1) * rows.size() / stretches);
    result.push_back(*std::max_element(from, to, [](const Row& a, const Row& b) {
      return a.shm_used_bytes.value_or(0) < b.shm_used_bytes.value_or(0);
    }));
  }
  if (result.back().at != rows.back().at) result.push_back(rows.back());
  return result;
}

Json or_null(const std::optional<uint64_t>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json row_json(const Row& row, BootNs begin) {
  return Json::array({row.run, seconds_between(begin, row.at), or_null(row.shm_used_bytes),
                      or_null(row.rss_sum_bytes), or_null(row.fds), row.processes});
}

struct TimedEvent {
  BootNs at;
  Json json;
};

void collect_events(const Run& run, size_t index, BootNs begin, std::vector<TimedEvent>& events) {
  const auto add = [&](BootNs at, std::string_view kind, std::string_view text,
                       std::optional<ProcessKey> process) {
    Json entry = {{"run", index}, {"t_s", seconds_between(begin, at)}, {"kind", json_text(kind)}};
    if (process) {
      entry["pid"] = process->pid;
      const ProcessInfo* info = run.find_process(*process);
      if (info != nullptr) entry["role"] = to_string(info->role);
    }
    entry["text"] = json_text(text);
    events.push_back({at, std::move(entry)});
  };
  for (const ProcessExit& exit : run.exits) {
    add(exit.at, "exit", describe_exit(exit.wait_status), exit.key);
  }
  for (const Event& event : run.events)
    add(event.at, event.kind, event.text, event.process);
  if (run.end) add(run.end->at, "end", to_string(run.end->reason), {});
}

// The first ones tell the cause and the last ones the end: what is left out is in the middle.
Json bounded(std::vector<TimedEvent> events) {
  std::ranges::stable_sort(events, {}, &TimedEvent::at);
  Json result = Json::array();
  for (size_t i = 0; i < events.size(); ++i) {
    const bool is_kept = i < kMostEvents / 2 || i + kMostEvents / 2 >= events.size();
    if (is_kept) result.push_back(std::move(events[i].json));
  }
  return result;
}

}  // namespace

Json timeline_section(const ReportSource& source) {
  const std::vector<Run>& runs = source.recording.runs;
  const BootNs begin = runs.empty() ? source.recording.header.boottime_ns : runs.front().begin.at;
  Json timeline = {{"clock", "boottime"}};
  source.time.put(timeline, "zero", begin);
  timeline["columns"] = {"run", "t", "shm_used", "rss_sum", "fds_sum", "processes"};
  timeline["units"] = {"1", "s", "bytes", "bytes", "1", "1"};
  Json rows = Json::array();
  std::vector<TimedEvent> events;
  size_t all_rows = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Row> full = rows_of(runs[i], i);
    all_rows += full.size();
    const size_t share = std::max<size_t>(kMostRows / runs.size(), 3);
    for (const Row& row : downsampled(full, share))
      rows.push_back(row_json(row, begin));
    collect_events(runs[i], i, begin, events);
  }
  timeline["downsampled_from_rows"] = all_rows;
  timeline["rows"] = std::move(rows);
  timeline["events_total"] = events.size();
  timeline["events"] = bounded(std::move(events));
  return timeline;
}

}  // namespace dlprobe
