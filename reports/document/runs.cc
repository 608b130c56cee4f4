// The runs of an examination, the start methods that were tried, the settings that were measured.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

std::string decimals(const Json& object, const char* key, int digits) {
  const auto value = number_at(object, key);
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string percent(const Json& object, const char* key, int digits = 0) {
  const auto value = number_at(object, key);
  return value ? fmt::format("{:.{}f} %", 100 * *value, digits) : "-";
}

// What tells a run from the others: its start method and strategy, or what was looked at.
std::pair<std::string, std::string> names_of_run(const Json& run) {
  for (const char* key : {"plan", "trial"}) {
    const Json& plan = object_at(run, key);
    if (plan.empty()) continue;
    return {or_dash(text_at(plan, "start_method")), or_dash(text_at(plan, "sharing_strategy"))};
  }
  const auto pid = number_at(run, "asked_pid");
  return {pid ? fmt::format("pid {:.0f}", *pid) : or_dash(text_at(run, "subject")), "-"};
}

// How a run ended that did not simply come to its end; else nothing.
std::string end_text(const Json& run) {
  const Json& end = object_at(run, "end");
  const std::string reason = text_at(end, "reason");
  if (reason == "subject-ended") return "";
  std::string text = "the recording was cut off before its end";
  if (reason == "time-up") {
    // Whom dlprobe did not start for itself.
    const bool goes_on = text_at(run, "subject") != "reference-loader";
    text = goes_on ? "the time to watch was up; the subject goes on" : "its time was up";
  }
  if (reason == "interrupted") text = "interrupted";
  if (reason == "not-started") text = "not started";
  const std::string why = text_at(end, "text");
  return why.empty() ? text : text + " (" + why + ")";
}

// One line for all runs that ended alike.
void add_ends(Blocks& blocks, const Json& runs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> ends;  // text, names of runs
  for (const Json& run : runs) {
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

void add_loader_versions(Blocks& blocks, const Json& report) {
  const Json& loader = object_at(report, "environment");
  const std::string libtorch = text_at(loader, "libtorch");
  if (libtorch.empty()) return;
  blocks.say(fmt::format("reference loader on {} ({}), libtorch {}, OpenCV {}",
                         text_at(loader, "device"), text_at(loader, "device_name"), libtorch,
                         text_at(loader, "opencv")));
}

bool is_watched_in_full(const Json& run) {
  return text_at(run, "subject") == "pid" && text_at(object_at(run, "end"), "reason") == "time-up";
}

// The causes that were found in this run; what is worth a word alone is none.
std::string causes_found_in(const Json& report, const Json& run) {
  std::string causes;
  const auto index = number_at(run, "index");
  for (const Json& finding : items_at(report, "findings")) {
    if (text_at(finding, "severity") == "info") continue;
    const Json& runs = items_at(finding, "runs");
    const bool is_here = std::ranges::any_of(
        runs, [&](const Json& each) { return each.is_number() && each.get<double>() == index; });
    if (is_here) causes += (causes.empty() ? "" : " ") + text_at(finding, "name");
  }
  return causes.empty() ? "nothing" : causes;
}

std::string legend_of_trials(const Json& report) {
  const Json& runs = items_at(report, "runs");
  const bool is_loader = !object_at(runs.front(), "plan").empty();
  if (is_loader) {
    return "started: workers; first, batch: time from the loader's start to the first of them and "
           "to the first batch; PSS: the most that a worker had";
  }
  return "started: processes that multiprocessing started; first, batch: time from the command's "
         "start to the first of them and to a DataLoader's first batch; PSS: the most that a "
         "worker "
         "had";
}

bool is_same_setting(const Json& one, const Json& other) {
  return std::ranges::all_of(std::array{"workers", "prefetch_factor", "start_method", "variant"},
                             [&](const char* key) {
                               return one.is_object() && other.is_object() && one.contains(key) &&
                                      other.contains(key) && one[key] == other[key];
                             });
}

// What tells a setting from the others, at the end of its names: it may be longer than the rest.
std::string note_of_setting(const Json& tune, const Json& row) {
  std::vector<std::string> notes;
  if (is_same_setting(row, object_at(tune, "recommended"))) notes.emplace_back("recommended");
  if (is_same_setting(row, object_at(tune, "fastest"))) notes.emplace_back("fastest");
  if (is_same_setting(row, object_at(tune, "present"))) notes.emplace_back("now");
  const std::string outcome = text_at(row, "outcome");
  if (outcome == "not-started") notes.emplace_back("not started");
  if (outcome == "failed") notes.emplace_back("failed");
  return or_dash(fmt::format("{}", fmt::join(notes, ", ")));
}

void add_setting(Table& table, const Json& tune, const Json& row) {
  const bool has_queue = integer_at(row, "workers") > 0 && text_at(row, "variant") != "step-alone";
  table.add(text_at(row, "variant"), decimals(row, "workers", 0),
            has_queue ? decimals(row, "prefetch_factor", 0) : "-",
            has_queue ? text_at(row, "start_method") : "-", decimals(row, "batches_per_s", 1),
            percent(row, "plus_minus_share", 1), note_of_setting(tune, row),
            percent(row, "share_of_best"), percent(row, "wait_share"),
            decimals(row, "wanted_cpus", 1), decimals(row, "first_batch_s", 2),
            bytes_at(row, "memory_bytes"), bytes_at(row, "shm_forecast_bytes"),
            decimals(row, "fd_forecast", 0), decimals(row, "runs", 0));
}

}  // namespace

Section runs_of(const Json& report) {
  Section section = {.id = "runs", .title = "Runs"};
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return section;
  Table table = table_of({"start", "sharing", "shm peak", "forecast", "ratio", "RSS", "PSS", "fds",
                          "first", "img/s", "wait"},
                         2, 2);
  bool has_speed = false;
  for (const Json& run : runs) {
    const Json& loader = object_at(run, "loader");
    has_speed = has_speed || number_at(loader, "wait_share").has_value();
    const auto [start, sharing] = names_of_run(run);
    table.add(start, sharing, bytes_at(run, "shm_peak_bytes"),
              bytes_at(object_at(run, "forecast"), "shm_bytes"),
              decimals(run, "shm_peak_over_forecast", 2), bytes_at(run, "rss_sum_peak_bytes"),
              bytes_at(run, "pss_sum_peak_bytes"), value_at(run, "fds_of_one_process_peak"),
              value_at(loader, "first_batch_s", "s"), count_at(loader, "images_per_s"),
              percent(loader, "wait_share"));
  }
  section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  if (has_speed) {
    section.blocks.say(
        "RSS and PSS: of all processes together; first: time to the first batch; wait: share of "
        "the training loop's time spent waiting for data");
  }
  add_loader_versions(section.blocks, report);
  const std::string formula = text_at(object_at(runs.back(), "forecast"), "formula");
  if (!formula.empty()) section.blocks.say("forecast: " + formula);
  return section;
}

Section runs_by_finding_of(const Json& report) {
  Section section = {.id = "runs", .title = "Runs"};
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return section;
  // That the watch of a live process ended by the clock is no news.
  if (runs.size() == 1 && (end_text(runs.front()).empty() || is_watched_in_full(runs.front())))
    return section;
  Table table = table_of({"start", "sharing", "found", "RSS", "first", "img/s", "wait"}, 3, 3);
  for (const Json& run : runs) {
    const Json& loader = object_at(run, "loader");
    const auto [start, sharing] = names_of_run(run);
    table.add(start, sharing, causes_found_in(report, run), bytes_at(run, "rss_sum_peak_bytes"),
              value_at(loader, "first_batch_s", "s"), count_at(loader, "images_per_s"),
              percent(loader, "wait_share"));
  }
  if (runs.size() > 1) section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  add_loader_versions(section.blocks, report);
  return section;
}

Section trials_of(const Json& report) {
  Section section = {.id = "trials", .title = "Start methods"};
  const Json& runs = items_at(report, "runs");
  if (runs.empty() || object_at(runs.front(), "trial").empty()) return section;
  Table table = table_of(
      {"start", "sharing", "outcome", "found", "started", "first", "batch", "batches/s", "PSS"}, 4,
      4);
  for (const Json& run : runs) {
    const Json& trial = object_at(run, "trial");
    const auto [start, sharing] = names_of_run(run);
    table.add(start, sharing, or_dash(text_at(trial, "outcome")), causes_found_in(report, run),
              value_at(trial, "started"), value_at(trial, "first_start_s", "s"),
              value_at(trial, "first_batch_s", "s"), value_at(trial, "batches_per_s"),
              bytes_at(trial, "pss_of_a_worker_bytes"));
  }
  section.blocks.add(std::move(table));
  add_ends(section.blocks, runs);
  section.blocks.say(legend_of_trials(report));
  add_loader_versions(section.blocks, report);
  return section;
}

Section recommendation_of(const Json& report) {
  Section section = {.id = "recommended", .title = "Recommended"};
  const Json& tune = object_at(report, "tune");
  const Json& recommended = object_at(tune, "recommended");
  if (recommended.empty()) return section;
  section.blocks.say(code(text_at(tune, "line")));
  std::string needs = bytes_at(recommended, "memory_bytes") + " of memory";
  if (number_at(recommended, "fd_forecast")) {
    needs += fmt::format(", up to {} in /dev/shm and {} open files in one process",
                         bytes_at(recommended, "shm_forecast_bytes"),
                         decimals(recommended, "fd_forecast", 0));
  }
  section.blocks.add(Paragraph{.text = spans(needs), .lead = "needs"});
  const std::string limit = text_at(object_at(tune, "limit"), "text");
  if (!limit.empty()) section.blocks.say(limit);
  return section;
}

Section settings_of(const Json& report) {
  Section section = {.id = "settings", .title = "Settings"};
  const Json& tune = object_at(report, "tune");
  if (tune.empty()) return section;
  Table table =
      table_of({"what", "workers", "prefetch", "start", "batch/s", "+-", "note", "of best", "wait",
                "CPUs wanted", "first", "memory", "shm", "fds", "runs"},
               7, 7);
  const Json& settings = items_at(tune, "settings");
  for (const Json& row : settings)
    add_setting(table, tune, row);
  section.blocks.add(std::move(table));
  for (const Json& row : settings) {
    const std::string why = text_at(row, "why");
    if (why.empty()) continue;
    section.blocks.add(Paragraph{
        .text = spans(fmt::format("{} workers, prefetch factor {}: {}", decimals(row, "workers", 0),
                                  decimals(row, "prefetch_factor", 0), why)),
        .lead = "!"});
  }
  section.blocks.say(
      fmt::format("{} usable CPUs; +-: half of the 95 % interval (one run differs from another by "
                  "{:.1f} %); wait: share of the training loop's time; memory: PSS of all "
                  "processes; shm, fds: forecast",
                  decimals(object_at(tune, "room"), "usable_cpus", 1),
                  100 * number_at(tune, "noise_share").value_or(0)));
  return section;
}

}  // namespace dlprobe::document
