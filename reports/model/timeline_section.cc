
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "lib/base/units.h"
#include "reports/model/sections.h"

namespace dlprobe {
namespace {

constexpr size_t kMostRows = 600;
constexpr size_t kMostEvents = 200;

using Row = report::TimelineRow;

// Read once a second where the other columns are read ten times.
constexpr BootNs kStaysKnown = 3 * kSecond;

std::optional<Role> role_of(const Run& run, const ProcessKey& key) {
  const ProcessInfo* process = run.find_process(key);
  return process == nullptr ? std::nullopt : std::optional(process->role);
}

// Of the processes with that role; of all of them where none is asked for.
std::optional<uint64_t> rss_sum(const Run& run, const Sample& sample, std::optional<Role> role) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    if (role && role_of(run, process.key) != role) continue;
    if (!process.rss_bytes) return std::nullopt;
    sum += *process.rss_bytes;
  }
  return sum;
}

// Nothing where one of the processes was not asked at this moment. The dead have none.
template <class Member>
std::optional<uint64_t> known_sum(const Sample& sample, Member member) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    if (process.state == 'Z') continue;
    const std::optional<Observed<uint64_t>>& value = process.*member;
    if (!value || !*value) return std::nullopt;
    sum += **value;
  }
  return sample.processes.empty() ? std::nullopt : std::optional(sum);
}

/// A sum that is known for a while after it was read.
class LastKnown {
 public:
  std::optional<uint64_t> at(BootNs now, const std::optional<uint64_t>& value) {
    if (value) {
      value_ = value;
      read_at_ = now;
    }
    return now - read_at_ <= kStaysKnown ? value_ : std::nullopt;
  }

 private:
  std::optional<uint64_t> value_;
  BootNs read_at_ = 0;
};

std::optional<uint64_t> fd_sum(const Sample& sample) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    if (process.state == 'Z') continue;
    if (!process.fd_count || !*process.fd_count) return std::nullopt;
    sum += **process.fd_count;
  }
  return sum;
}

// The fast statvfs between two samples belong to the later one, by their highest.
std::vector<Row> rows_of(const Run& run, size_t index, BootNs begin) {
  std::vector<Row> rows;
  size_t next_use = 0;
  LastKnown pss;
  LastKnown swap;
  for (const Sample& sample : run.samples) {
    Row row = {.run = index,
               .t = seconds_between(begin, sample.at),
               .rss_sum = rss_sum(run, sample, {}),
               .fds_sum = fd_sum(sample),
               .processes = sample.processes.size(),
               .rss_trainer = rss_sum(run, sample, Role::kTrainer),
               .rss_workers = rss_sum(run, sample, Role::kWorker),
               .pss_sum = pss.at(sample.at, known_sum(sample, &ProcessSample::pss_bytes)),
               .swap_sum = swap.at(sample.at, known_sum(sample, &ProcessSample::swap_bytes))};
    for (; next_use < run.shm_use.size() && run.shm_use[next_use].at <= sample.at; ++next_use)
      row.shm_used = std::max(row.shm_used.value_or(0), run.shm_use[next_use].used_bytes);
    rows.push_back(row);
  }
  return rows;
}

// The values that may not lose their highest or lowest.
std::array<std::optional<double>, 5> values_of(const Row& row) {
  const auto number = [](const auto& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  return {number(row.shm_used), number(row.rss_sum), number(row.pss_sum), number(row.fds_sum),
          static_cast<double>(row.processes)};
}

// Of rows from `from` to before `to`: those with the highest and the lowest of one value.
void keep_extremes(const std::vector<Row>& rows, size_t from, size_t to, size_t column,
                   std::set<size_t>& kept) {
  std::optional<double> lowest;
  std::optional<double> highest;
  size_t low_at = from;
  size_t high_at = from;
  for (size_t at = from; at < to; ++at) {
    const std::optional<double> value = values_of(rows[at]).at(column);
    if (!value) continue;
    if (!lowest || value < lowest) {
      lowest = value;
      low_at = at;
    }
    if (!highest || value > highest) {
      highest = value;
      high_at = at;
    }
  }
  kept.insert({low_at, high_at});
}

// Of so many stretches of the rows those with the highest and the lowest of each value.
std::set<size_t> extremes_of(const std::vector<Row>& rows, size_t stretches, size_t columns) {
  std::set<size_t> kept = {0, rows.size() - 1};
  for (size_t i = 0; i < stretches; ++i) {
    for (size_t column = 0; column < columns; ++column) {
      keep_extremes(rows, i * rows.size() / stretches, (i + 1) * rows.size() / stretches, column,
                    kept);
    }
  }
  return kept;
}

// A spike of one row is still in the drawing, and so is a dip. Of very few rows, those of shared
// memory alone. As fine as fits: the extremes of several values are often in one row.
std::vector<Row> downsampled(const std::vector<Row>& rows, size_t most) {
  if (rows.size() <= most) return rows;
  constexpr size_t kColumns = std::tuple_size_v<decltype(values_of({}))>;
  const size_t columns = most >= 2 + 2 * kColumns ? kColumns : 1;
  size_t stretches = std::max<size_t>(1, (most - 2) / (2 * columns));
  std::set<size_t> kept = extremes_of(rows, stretches, columns);
  while (true) {
    stretches += stretches / 4 + 1;
    std::set<size_t> finer = extremes_of(rows, stretches, columns);
    if (finer.size() > most || stretches > most) break;
    kept = std::move(finer);
  }
  std::vector<Row> result;
  result.reserve(kept.size());
  for (const size_t at : kept)
    result.push_back(rows[at]);
  return result;
}

// How fast batches came since the row before; only the reference loader tells.
void add_speed(const Run& run, BootNs begin, std::vector<Row>& rows) {
  if (run.batches.empty()) return;
  size_t next = 0;
  double before = seconds_between(begin, run.begin.at);
  for (Row& row : rows) {
    size_t count = 0;
    for (; next < run.batches.size() && seconds_between(begin, run.batches[next].at) <= row.t;
         ++next)
      ++count;
    if (row.t > before) row.batches_per_s = static_cast<double>(count) / (row.t - before);
    before = row.t;
  }
}

struct WorkerPeak {
  ProcessKey key;
  uint64_t bytes = 0;
};

// By the most that each had, the largest first.
std::vector<WorkerPeak> worker_peaks(const Run& run) {
  std::map<ProcessKey, uint64_t> most;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& process : sample.processes) {
      if (role_of(run, process.key) != Role::kWorker || !process.rss_bytes) continue;
      uint64_t& peak = most[process.key];
      peak = std::max(peak, *process.rss_bytes);
    }
  }
  std::vector<WorkerPeak> peaks;
  peaks.reserve(most.size());
  for (const auto& [key, bytes] : most)
    peaks.push_back({.key = key, .bytes = bytes});
  std::ranges::stable_sort(peaks, std::ranges::greater{}, &WorkerPeak::bytes);
  return peaks;
}

// How many of `peaks`, from the first on, stand out: more than a half as much again as an ordinary
// worker has. None where many do: then they are no exception.
size_t count_of_odd(const std::vector<WorkerPeak>& peaks) {
  constexpr size_t kMostOdd = 3;
  constexpr uint64_t kLittle = 16 * kMiB;
  if (peaks.size() < 2) return 0;
  const uint64_t ordinary = peaks[peaks.size() / 2].bytes;
  const auto is_odd = [&](const WorkerPeak& peak) {
    return peak.bytes > ordinary + std::max(ordinary / 2, kLittle);
  };
  const auto odd = static_cast<size_t>(std::ranges::count_if(peaks, is_odd));
  return odd <= kMostOdd && 2 * odd <= peaks.size() ? odd : 0;
}

// At the times of `rows`: the mean of those of `keys` that are there.
std::vector<report::WorkerRssRow> mean_rss(const Run& run, BootNs begin,
                                           const std::vector<Row>& rows,
                                           const std::set<ProcessKey>& keys) {
  std::vector<report::WorkerRssRow> means;
  auto row = rows.begin();
  for (const Sample& sample : run.samples) {
    const double t = seconds_between(begin, sample.at);
    row = std::ranges::find_if(row, rows.end(), [t](const Row& each) { return each.t >= t; });
    if (row == rows.end()) break;
    if (row->t != t) continue;
    uint64_t sum = 0;
    uint64_t count = 0;
    for (const ProcessSample& process : sample.processes) {
      if (!keys.contains(process.key) || !process.rss_bytes || process.state == 'Z') continue;
      sum += *process.rss_bytes;
      ++count;
    }
    if (count > 0) means.push_back({.t = t, .rss = sum / count});
  }
  return means;
}

void add_odd_workers(const Run& run, size_t index, BootNs begin, const std::vector<Row>& rows,
                     std::vector<report::WorkerSeries>& workers) {
  const std::vector<WorkerPeak> peaks = worker_peaks(run);
  const size_t odd = count_of_odd(peaks);
  if (odd == 0) return;
  const auto add = [&](std::span<const WorkerPeak> group) {
    report::WorkerSeries& memory = workers.emplace_back();
    memory.run = index;
    std::set<ProcessKey> keys;
    for (const WorkerPeak& peak : group) {
      keys.insert(peak.key);
      memory.pids.push_back(peak.key.pid);
    }
    std::ranges::sort(memory.pids);
    memory.rows = mean_rss(run, begin, rows, keys);
  };
  for (size_t i = 0; i < odd; ++i)
    add(std::span(peaks).subspan(i, 1));
  add(std::span(peaks).subspan(odd));
}

struct TimedEvent {
  BootNs at = 0;
  Message text;
  report::TimelineEvent event;
};

void collect_events(const Run& run, size_t index, BootNs begin, std::vector<TimedEvent>& events) {
  const auto add = [&](BootNs at, std::string_view kind, Message text,
                       std::optional<ProcessKey> process) {
    report::TimelineEvent& entry = events.emplace_back(at, std::move(text)).event;
    entry.run = index;
    entry.t_s = seconds_between(begin, at);
    entry.kind = kind;
    if (process) {
      entry.pid = process->pid;
      entry.role = role_of(run, *process);
    }
  };
  for (const ProcessExit& exit : run.exits) {
    add(exit.at, "exit", describe_exit(exit.wait_status), exit.key);
  }
  for (const Event& event : run.events)
    add(event.at, event.kind, event.text, event.process);
  if (run.end) add(run.end->at, "end", own(to_string(run.end->reason)), {});
}

// The first ones tell the cause and the last ones the end: what is left out is in the middle.
std::vector<report::TimelineEvent> bounded(std::vector<TimedEvent> events, Sentences& sentences) {
  std::ranges::stable_sort(events, {}, &TimedEvent::at);
  std::vector<report::TimelineEvent> result;
  for (size_t i = 0; i < events.size(); ++i) {
    const bool is_kept = i < kMostEvents / 2 || i + kMostEvents / 2 >= events.size();
    if (!is_kept) continue;
    result.push_back(std::move(events[i].event));
    result.back().text = sentences.text_of(events[i].text);
  }
  return result;
}

}  // namespace

report::Timeline timeline_section(const ReportSource& source) {
  const std::vector<Run>& runs = source.recording.runs;
  const BootNs begin = runs.empty() ? source.recording.header.boottime_ns : runs.front().begin.at;
  report::Timeline timeline;
  timeline.zero = source.time.moment(begin);
  std::vector<TimedEvent> events;
  std::vector<report::WorkerSeries> workers;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::vector<Row> full = rows_of(runs[i], i, begin);
    timeline.downsampled_from_rows += full.size();
    const size_t share = std::max<size_t>(kMostRows / runs.size(), 4);
    std::vector<Row> kept = downsampled(full, share);
    add_speed(runs[i], begin, kept);
    add_odd_workers(runs[i], i, begin, kept, workers);
    std::ranges::move(kept, std::back_inserter(timeline.rows));
    collect_events(runs[i], i, begin, events);
  }
  timeline.workers = report::if_any(std::move(workers));
  timeline.events_total = events.size();
  timeline.events = bounded(std::move(events), source.sentences);
  return timeline;
}

}  // namespace dlprobe
