#include "probes/fd/facts.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <map>

#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::fd {
namespace {

Series& series_of(Facts& facts, std::map<ProcessKey, size_t>& known, const ProcessInfo& process) {
  const auto [slot, is_new] = known.try_emplace(process.key, facts.series.size());
  if (is_new) {
    Series series;
    series.process = &process;
    if (process.open_files_limit) {
      series.limit = process.open_files_limit->soft;
      series.hard_limit = process.open_files_limit->hard;
    }
    facts.series.push_back(std::move(series));
  }
  return facts.series[slot->second];
}

void add_sample(Series& series, BootNs at, const ProcessSample& sample) {
  if (sample.fd_count) {
    if (*sample.fd_count) {
      series.counts.push_back({.at = at, .count = **sample.fd_count});
      series.most = std::max(series.most, **sample.fd_count);
    } else {
      series.unread = sample.fd_count->error();
    }
  }
  if (sample.fds) {
    if (*sample.fds) {
      series.kinds.push_back({.at = at, .kinds = **sample.fds});
    } else {
      series.unread = sample.fds->error();
    }
  }
  if (sample.map_count && *sample.map_count)
    series.maps.push_back({.at = at, .count = **sample.map_count});
}

void add_count(Series& series, BootNs at, uint64_t count) {
  series.most = std::max(series.most, count);
  const auto place = std::ranges::upper_bound(series.counts, at, {}, &CountAt::at);
  series.counts.insert(place, {.at = at, .count = count});
}

void add_look(Series& series, const FdLook& look) {
  series.looks.push_back(&look);
  add_count(series, look.at, look.count);
  // A part of them would look like a fall.
  if (look.looked_at + look.looked_at / 10 < look.count) return;
  const auto after = std::ranges::upper_bound(series.kinds, look.at, {}, &KindsAt::at);
  series.kinds.insert(after, {.at = look.at, .kinds = look.kinds});
}

// A process that was refused a descriptor by its limit had as many.
void add_refusal(Series& series, const StartEvent& event) {
  if (series.refused != nullptr || !is_refused_descriptor(event)) return;
  series.refused = &event;
  series.limit = event.limit;
  add_count(series, event.at, event.limit.value_or(0));
}

// A process that was refused a mapping had as many as the witness counted then.
void add_refused_mapping(Series& series, const StartEvent& event) {
  const auto count = event.count.value_or(-1);
  if (event.wanted != "mappings" || count < 0) return;
  const auto place = std::ranges::upper_bound(series.maps, event.at, {}, &CountAt::at);
  series.maps.insert(place, {.at = event.at, .count = static_cast<uint64_t>(count)});
}

// Nothing of one that ended well, or was ended by others: a trainer ends its workers by SIGTERM.
std::optional<OwnWords> failure_of(int status) {
  if (WIFEXITED(status)) {
    if (WEXITSTATUS(status) == 0) return std::nullopt;
    return "exit code " + own(WEXITSTATUS(status));
  }
  constexpr std::array kByOthers = {SIGTERM, SIGKILL, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
  const int signal = WTERMSIG(status);
  if (std::ranges::find(kByOthers, signal) != kByOthers.end()) return std::nullopt;
  return "signal " + own(signal);
}

std::vector<FailedExit> failures_of(const Run& run) {
  const std::vector<const StartEvent*> exceptions = fatal_exceptions(run);
  std::vector<FailedExit> failures;
  for (const ProcessExit& exit : run.exits) {
    if (!exit.wait_status || run.find_process(exit.key) == nullptr) continue;
    auto how = failure_of(*exit.wait_status);
    if (!how) continue;
    const auto raised = std::ranges::find(exceptions, exit.key, &StartEvent::process);
    failures.push_back({.key = exit.key,
                        .at = exit.at,
                        .raised_at = raised == exceptions.end() ? exit.at : (*raised)->at,
                        .how = std::move(*how)});
  }
  return failures;
}

}  // namespace

bool is_refused_descriptor(const StartEvent& event) {
  return event.error_number == EMFILE && event.limit && event.wanted.empty();
}

Facts facts_of(const RecordingHeader& header, const Run& run) {
  Facts facts;
  facts.header = &header;
  facts.run = &run;
  facts.trainer = first_of_role(run, Role::kTrainer);
  if (facts.trainer == nullptr && run.begin.root) facts.trainer = run.find_process(*run.begin.root);
  std::map<ProcessKey, size_t> known;
  for (const ProcessInfo& process : run.processes) {
    series_of(facts, known, process);
    if (process.role == Role::kWorker) ++facts.workers;
  }
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& process : sample.processes) {
      const auto slot = known.find(process.key);
      if (slot == known.end()) continue;
      Series& series = facts.series[slot->second];
      add_sample(series, sample.at, process);
      series.until_end = sample.at == run.samples.back().at;
    }
  }
  for (const FdLook& look : run.fd_looks) {
    const auto slot = known.find(look.key);
    if (slot != known.end()) add_look(facts.series[slot->second], look);
  }
  for (const StartEvent* event : fatal_exceptions(run)) {
    const auto slot = known.find(event->process);
    if (slot == known.end()) continue;
    add_refusal(facts.series[slot->second], *event);
    add_refused_mapping(facts.series[slot->second], *event);
  }
  facts.failures = failures_of(run);
  return facts;
}

std::vector<SeriesPoint> points_of(const std::vector<CountAt>& counts, BootNs end) {
  std::vector<SeriesPoint> points;
  for (const CountAt& each : counts) {
    if (each.at <= end) points.push_back({.at = each.at, .value = static_cast<double>(each.count)});
  }
  return points;
}

const KindsAt* kinds_at(const Series& series, BootNs at) {
  if (series.kinds.empty()) return nullptr;
  const auto after = std::ranges::upper_bound(series.kinds, at, {}, &KindsAt::at);
  return after == series.kinds.begin() ? &series.kinds.front() : &*std::prev(after);
}

const FdLook* look_near(const Series& series, BootNs at) {
  const FdLook* nearest = nullptr;
  for (const FdLook* look : series.looks) {
    if (nearest == nullptr || std::abs(look->at - at) < std::abs(nearest->at - at)) nearest = look;
  }
  return nearest;
}

OwnWords plural_of(FdKind kind) {
  switch (kind) {
    case FdKind::kFile:
      return "files";
    case FdKind::kSocket:
      return "sockets";
    case FdKind::kPipe:
      return "pipes";
    case FdKind::kEventfd:
      return "eventfds";
    case FdKind::kEpoll:
      return "epolls";
    case FdKind::kSegment:
      return "segments in /dev/shm";
    case FdKind::kMemfd:
      return "memfds";
    case FdKind::kDevice:
      return "devices";
    case FdKind::kOther:
      break;
  }
  return "other descriptors";
}

Message held_text(const FdLook* look) {
  constexpr size_t kMostShown = 3;
  Message text;
  if (look == nullptr) return text;
  for (size_t i = 0; i < look->most.size() && i < kMostShown; ++i) {
    if (!text.empty()) text += ", ";
    text += own(look->most[i].count) + " x " + as_path(look->most[i].name);
  }
  return text;
}

}  // namespace dlprobe::probes::fd
