// What became of a command, or of the reference loader, under one start method.

#include <algorithm>
#include <map>

#include "reports/model/sections.h"

namespace dlprobe {
namespace {

bool is_loader(const Run& run) {
  return run.begin.subject == SubjectKind::kReferenceLoader;
}

std::optional<double> seconds_to_first(const Run& run, StartEventKind kind) {
  const auto first = std::ranges::find(run.start_events, kind, &StartEvent::kind);
  if (first == run.start_events.end()) return std::nullopt;
  return seconds_between(run.begin.at, first->at);
}

std::optional<double> seconds_to_first_batch(const Run& run) {
  if (!is_loader(run)) return seconds_to_first(run, StartEventKind::kFirstBatch);
  if (run.batches.empty()) return std::nullopt;
  return seconds_between(run.begin.at, run.batches.front().at);
}

// The reference loader's epochs are short, and each of its batches is known.
std::optional<double> loader_batches_per_second(const Run& run) {
  constexpr size_t kEnough = 5;
  if (run.batches.size() < kEnough) return std::nullopt;
  const double seconds = seconds_between(run.batches.front().at, run.batches.back().at);
  if (seconds <= 0) return std::nullopt;
  return static_cast<double>(run.batches.size() - 1) / seconds;
}

// Of the process whose iterators handed out most. An iterator counts from 1; each one's time counts
// from its first word.
std::optional<double> batches_per_second(const Run& run) {
  if (is_loader(run)) return loader_batches_per_second(run);
  struct Tally {
    const StartEvent* last = nullptr;
    int64_t batches = 0;
    BootNs time = 0;
  };
  std::map<ProcessKey, Tally> tallies;
  for (const StartEvent& event : run.start_events) {
    if (event.kind != StartEventKind::kBatches || !event.count) continue;
    Tally& tally = tallies[event.process];
    const bool goes_on = tally.last != nullptr && *event.count > tally.last->count.value_or(0);
    if (goes_on) {
      tally.batches += *event.count - tally.last->count.value_or(0);
      tally.time += event.at - tally.last->at;
    }
    tally.last = &event;
  }
  const auto most =
      std::ranges::max_element(tallies, {}, [](const auto& entry) { return entry.second.batches; });
  constexpr BootNs kShortest = 1'000'000'000;
  if (most == tallies.end() || most->second.time < kShortest) return std::nullopt;
  return static_cast<double>(most->second.batches) / (static_cast<double>(most->second.time) / 1e9);
}

// The largest that any worker had, of those looked at.
std::optional<uint64_t> pss_of_a_worker(const Run& run) {
  std::optional<uint64_t> most;
  for (const Sample& sample : run.samples) {
    for (const ProcessSample& process : sample.processes) {
      const ProcessInfo* info = run.find_process(process.key);
      const bool is_worker = info != nullptr && info->role == Role::kWorker;
      if (is_worker) raise(most, value_of(process.pss_bytes));
    }
  }
  return most;
}

std::optional<double> longest_import(const Run& run) {
  std::optional<double> longest;
  for (const StartEvent& event : run.start_events) {
    if (event.kind == StartEventKind::kMainImported && event.seconds)
      longest = std::max(longest.value_or(0), *event.seconds);
  }
  return longest;
}

size_t count_started(const Run& run) {
  return static_cast<size_t>(
      std::ranges::count(run.start_events, StartEventKind::kStarted, &StartEvent::kind));
}

bool is_broken_in(const Verdict& verdict, size_t index) {
  return std::ranges::any_of(verdict.findings, [index](const Finding& finding) {
    return finding.severity == Severity::kError &&
           std::ranges::count(finding.runs, static_cast<int>(index)) > 0;
  });
}

// What could not be said of a start method names it.
bool has_gap_about(const Verdict& verdict, std::string_view method) {
  return std::ranges::any_of(
      verdict.gaps, [method](const Gap& gap) { return gap.what.plain().ends_with(method); });
}

report::TrialOutcome outcome_of(const Run& run, StartMethod method, const ReportSource& source,
                                size_t index) {
  using enum report::TrialOutcome;
  if (is_broken_in(source.verdict, index)) return kBreaks;
  if (is_loader(run)) return run.done && count_started(run) > 0 ? kWorks : kUnknown;
  // A script may go on under the start method that it names itself.
  const std::string_view asked = to_string(method);
  const bool under_asked = std::ranges::any_of(run.start_events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kStarted && event.method == asked;
  });
  const bool is_cut_off =
      run.end && (!run.end->text.empty() || run.end->reason == RunEndReason::kInterrupted);
  const bool has_batch = seconds_to_first(run, StartEventKind::kFirstBatch).has_value();
  if (is_cut_off) return under_asked && has_batch ? kWorks : kUnknown;
  const bool ended_well = run.end && run.end->wait_status.value_or(0) == 0;
  return under_asked && ended_well && !has_gap_about(source.verdict, asked) ? kWorks : kUnknown;
}

}  // namespace

std::optional<report::Trial> trial_of(const Run& run, const ReportSource& source, size_t index) {
  if (!run.begin.trial) return std::nullopt;
  const Trial& trial = *run.begin.trial;
  return report::Trial{.start_method = trial.start_method,
                       .forced = trial.forced,
                       .most_processes = as_count(trial.most_processes),
                       .most_depth = as_count(trial.most_depth),
                       .outcome = outcome_of(run, trial.start_method, source, index),
                       .started = count_started(run),
                       .sharing_strategy = trial.sharing_strategy,
                       .workers = trial.workers,
                       .first_start_s = seconds_to_first(run, StartEventKind::kStarted),
                       .first_batch_s = seconds_to_first_batch(run),
                       .batches_per_s = batches_per_second(run),
                       .main_import_s = longest_import(run),
                       .pss_of_a_worker_bytes = pss_of_a_worker(run)};
}

}  // namespace dlprobe
