// The runs of an examination, the start methods that were tried, the settings that were measured.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

std::string decimals(std::optional<double> value, int digits) {
  return value && std::isfinite(*value) ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string percent(std::optional<double> share, int digits = 0) {
  const std::string number = decimals(share ? 100 * *share : share, digits);
  return number == "-" ? number : number + " %";
}

// What tells a run from the others: its start method and strategy, or what was looked at.
std::pair<std::string, std::string> names_of_run(const report::Run& run) {
  if (run.plan) return {shown(run.plan->start_method), shown(run.plan->sharing_strategy)};
  if (run.trial)
    return {shown(run.trial->start_method), or_dash(shown(run.trial->sharing_strategy))};
  return {run.asked_pid ? fmt::format("pid {}", *run.asked_pid) : shown(run.subject), "-"};
}

// How a run ended that did not simply come to its end; else nothing.
std::string end_text(const report::Run& run) {
  std::string text = "the recording was cut off before its end";
  if (!run.end) return text;
  switch (run.end->reason) {
    case RunEndReason::kSubjectEnded:
      return shown(run.end->text);
    case RunEndReason::kTimeUp:
      if (!run.end->text.empty()) return shown(run.end->text);
      // Whom dlprobe did not start for itself.
      text = run.subject == SubjectKind::kReferenceLoader ? "its time ran out"
                                                          : "watch ended; the job is still running";
      break;
    case RunEndReason::kInterrupted:
      text = "interrupted";
      break;
    case RunEndReason::kNotStarted:
      text = "not started";
      break;
  }
  const std::string why = shown(run.end->text);
  return why.empty() ? text : text + " (" + why + ")";
}

// One line for all runs that ended alike.
void add_ends(Blocks& blocks, const std::vector<report::Run>& runs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> ends;  // text, names of runs
  for (const report::Run& run : runs) {
    const std::string text = end_text(run);
    if (text.empty()) continue;
    auto found = std::ranges::find(ends, text, &decltype(ends)::value_type::first);
    if (found == ends.end()) found = ends.insert(ends.end(), {text, {}});
    const auto [start, sharing] = names_of_run(run);
    found->second.push_back(sharing == "-" ? start : fmt::format("{}, {}", start, sharing));
  }
  for (const auto& [text, names] : ends) {
    const bool all = names.size() == runs.size() && names.size() > 1;
    blocks.say(all ? "all runs" : fmt::format("{}", fmt::join(names, "; ")), ": " + text);
  }
}

void add_loader_versions(Blocks& blocks, const report::Report& report) {
  const report::Environment& loader = report.environment;
  const std::string libtorch = shown(loader.libtorch);
  if (libtorch.empty()) return;
  blocks.say(fmt::format("reference loader on {} ({}), libtorch {}, OpenCV {}",
                         shown(loader.device), shown(loader.device_name), libtorch,
                         shown(loader.opencv)));
}

bool is_watched_in_full(const report::Run& run) {
  return run.subject == SubjectKind::kPid && run.end && run.end->reason == RunEndReason::kTimeUp;
}

// The causes that were found in this run; what is worth a word alone is none.
std::string causes_found_in(const report::Report& report, const report::Run& run) {
  std::string causes;
  for (const report::Finding& finding : report.findings) {
    const bool is_here = std::ranges::count(finding.runs, run.index) > 0;
    if (finding.severity == Severity::kInfo || !is_here) continue;
    causes += (causes.empty() ? "" : " ") + shown(finding.name);
  }
  return causes.empty() ? "nothing" : causes;
}

std::string legend_of_trials(const report::Report& report) {
  if (report.runs.front().plan) {
    return "started: workers; first, batch: time from the loader's start to the first of them and "
           "to the first batch; PSS: the most that a worker had";
  }
  return "started: processes that multiprocessing started; first, batch: time from the command's "
         "start to the first of them and to a DataLoader's first batch; PSS: the most that a "
         "worker "
         "had";
}

bool is_same_setting(const report::TuneRow& one, const std::optional<report::TuneRow>& other) {
  const auto key = [](const report::TuneRow& row) {
    return std::tuple(row.workers, row.prefetch_factor, row.start_method, row.variant);
  };
  return other && key(one) == key(*other);
}

// What tells a setting from the others, at the end of its names: it may be longer than the rest.
std::string note_of_setting(const report::Tune& tune, const report::TuneRow& row) {
  std::vector<std::string> notes;
  if (is_same_setting(row, tune.recommended)) notes.emplace_back("recommended");
  if (is_same_setting(row, tune.fastest)) notes.emplace_back("fastest");
  if (is_same_setting(row, tune.present)) notes.emplace_back("now");
  if (row.outcome == TuneOutcome::kNotStarted) notes.emplace_back("not started");
  if (row.outcome == TuneOutcome::kFailed) notes.emplace_back("failed");
  return or_dash(fmt::format("{}", fmt::join(notes, ", ")));
}

void add_setting(Table& table, const report::Tune& tune, const report::TuneRow& row) {
  const bool has_queue = row.workers > 0 && row.variant != TuneVariant::kStepAlone;
  table.add(shown(row.variant), count_text(row.workers),
            has_queue ? count_text(row.prefetch_factor) : "-",
            has_queue ? shown(row.start_method) : "-", decimals(row.batches_per_s, 1),
            percent(row.plus_minus_share, 1), note_of_setting(tune, row),
            percent(row.share_of_best), percent(row.wait_share), decimals(row.wanted_cpus, 1),
            decimals(row.first_batch_s, 2), bytes_text(row.memory_bytes),
            bytes_text(row.shm_forecast_bytes), count_text(row.fd_forecast), count_text(row.runs));
}

// What only the reference loader and trials tell.
report::Loader loader_of(const report::Run& run) {
  return run.loader.value_or(report::Loader());
}

}  // namespace

Section runs_of(const report::Report& report) {
  Section section = {.id = "runs", .title = "Runs"};
  const std::vector<report::Run>& runs = report.runs;
  if (runs.empty()) return section;
  Table table = table_of({"start", "sharing", "shm peak", "forecast", "ratio", "RSS", "PSS", "fds",
                          "first", "img/s", "wait"},
                         2, 2);
  bool has_speed = false;
  for (const report::Run& run : runs) {
    const report::Loader loader = loader_of(run);
    has_speed = has_speed || percent(loader.wait_share) != "-";
    const auto [start, sharing] = names_of_run(run);
    table.add(start, sharing, bytes_text(run.shm_peak_bytes),
              run.forecast ? bytes_text(run.forecast->shm_bytes) : "-",
              decimals(run.shm_peak_over_forecast, 2), bytes_text(run.rss_sum_peak_bytes),
              bytes_text(run.pss_sum_peak_bytes), count_text(run.fds_of_one_process_peak),
              number_text(loader.first_batch_s, "s"), count_text(loader.images_per_s),
              percent(loader.wait_share));
  }
  section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  if (has_speed) {
    section.blocks.say(
        "RSS and PSS: of all processes together; first: time to the first batch; wait: share of "
        "the training loop's time spent waiting for data");
  }
  add_loader_versions(section.blocks, report);
  if (runs.back().forecast) section.blocks.say("forecast: " + shown(runs.back().forecast->formula));
  return section;
}

Section runs_by_finding_of(const report::Report& report) {
  Section section = {.id = "runs", .title = "Runs"};
  const std::vector<report::Run>& runs = report.runs;
  if (runs.empty()) return section;
  // That the watch of a live process ended by the clock is no news.
  if (runs.size() == 1 && (end_text(runs.front()).empty() || is_watched_in_full(runs.front())))
    return section;
  Table table = table_of({"start", "sharing", "found", "RSS", "first", "img/s", "wait"}, 3, 3);
  for (const report::Run& run : runs) {
    const report::Loader loader = loader_of(run);
    const auto [start, sharing] = names_of_run(run);
    table.add(start, sharing, causes_found_in(report, run), bytes_text(run.rss_sum_peak_bytes),
              number_text(loader.first_batch_s, "s"), count_text(loader.images_per_s),
              percent(loader.wait_share));
  }
  if (runs.size() > 1) section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  add_loader_versions(section.blocks, report);
  return section;
}

Section trials_of(const report::Report& report) {
  Section section = {.id = "trials", .title = "Start methods"};
  const std::vector<report::Run>& runs = report.runs;
  if (runs.empty() || !runs.front().trial) return section;
  Table table = table_of(
      {"start", "sharing", "outcome", "found", "started", "first", "batch", "batches/s", "PSS"}, 4,
      4);
  for (const report::Run& run : runs) {
    const auto [start, sharing] = names_of_run(run);
    const std::string causes = causes_found_in(report, run);
    if (!run.trial) {
      table.add(start, sharing, "-", causes, "-", "-", "-", "-", "-");
      continue;
    }
    const report::Trial& trial = *run.trial;
    table.add(start, sharing, shown(trial.outcome), causes, count_text(trial.started),
              number_text(trial.first_start_s, "s"), number_text(trial.first_batch_s, "s"),
              number_text(trial.batches_per_s), bytes_text(trial.pss_of_a_worker_bytes));
  }
  section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  section.blocks.say(legend_of_trials(report));
  add_loader_versions(section.blocks, report);
  return section;
}

Section recommendation_of(const report::Report& report) {
  Section section = {.id = "recommended", .title = "Recommended"};
  if (!report.tune || !report.tune->recommended) return section;
  const report::TuneRow& recommended = *report.tune->recommended;
  section.blocks.say(code(shown(report.tune->line)));
  std::string needs = bytes_text(recommended.memory_bytes) + " of memory";
  if (recommended.fd_forecast) {
    needs += fmt::format(", up to {} in /dev/shm and {} open files in one process",
                         bytes_text(recommended.shm_forecast_bytes), *recommended.fd_forecast);
  }
  section.blocks.add(Paragraph{.text = spans(needs), .lead = "needs"});
  if (report.tune->limit) section.blocks.say(shown(report.tune->limit->text));
  return section;
}

Section settings_of(const report::Report& report) {
  Section section = {.id = "settings", .title = "Settings"};
  if (!report.tune) return section;
  const report::Tune& tune = *report.tune;
  Table table =
      table_of({"what", "workers", "prefetch", "start", "batch/s", "+-", "note", "of best", "wait",
                "CPUs wanted", "first", "memory", "shm", "fds", "runs"},
               7, 7);
  for (const report::TuneRow& row : tune.settings)
    add_setting(table, tune, row);
  section.blocks.add(std::move(table));
  for (const report::TuneRow& row : tune.settings) {
    const std::string why = shown(row.why);
    if (why.empty()) continue;
    section.blocks.add(Paragraph{.text = spans(fmt::format("{} workers, prefetch factor {}: {}",
                                                           row.workers, row.prefetch_factor, why)),
                                 .lead = "!"});
  }
  section.blocks.say(
      fmt::format("{} usable CPUs; +-: half of the 95 % interval (one run differs from another by "
                  "{:.1f} %); wait: share of the training loop's time; memory: PSS of all "
                  "processes; shm, fds: forecast",
                  decimals(tune.room.usable_cpus, 1),
                  std::isfinite(tune.noise_share) ? 100 * tune.noise_share : 0));
  return section;
}

}  // namespace dlprobe::document
