#include "reports/text_tables.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lib/base/units.h"
#include "reports/text_waits.h"

namespace dlprobe {
namespace {

constexpr size_t kMostPidsInALine = 16;
constexpr size_t kMostExits = 12;

std::string or_dash(std::string text) {
  return text.empty() ? "-" : std::move(text);
}

std::string number_or_dash(const Json& object, const char* key, std::string_view unit = "") {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found == object.end() ? "-" : value_with_unit(*found, unit);
}

std::string ratio_at(const Json& run) {
  const auto ratio = number_at(run, "shm_peak_over_forecast");
  return ratio ? fmt::format("{:.2f}", *ratio) : "-";
}

std::string share_at(const Json& loader) {
  const auto share = number_at(loader, "wait_share");
  return share ? fmt::format("{:.0f} %", *share * 100) : "-";
}

std::string rate_at(const Json& loader) {
  const auto rate = number_at(loader, "images_per_s");
  return rate ? fmt::format("{:.0f}", *rate) : "-";
}

// What tells a run from the others: its start method and strategy, or what was looked at.
std::vector<std::string> names_of(const Json& run) {
  const Json& plan = object_at(run, "plan");
  if (!plan.empty()) {
    return {or_dash(text_at(plan, "start_method")), or_dash(text_at(plan, "sharing_strategy"))};
  }
  const Json& trial = object_at(run, "trial");
  if (!trial.empty()) {
    return {or_dash(text_at(trial, "start_method")), or_dash(text_at(trial, "sharing_strategy"))};
  }
  const auto pid = number_at(run, "asked_pid");
  return {pid ? fmt::format("pid {:.0f}", *pid) : or_dash(text_at(run, "subject")), "-"};
}

std::vector<std::string> run_row(const Json& run) {
  std::vector<std::string> row = names_of(run);
  const Json& loader = object_at(run, "loader");
  row.push_back(bytes_at(run, "shm_peak_bytes"));
  row.push_back(bytes_at(object_at(run, "forecast"), "shm_bytes"));
  row.push_back(ratio_at(run));
  row.push_back(bytes_at(run, "rss_sum_peak_bytes"));
  row.push_back(bytes_at(run, "pss_sum_peak_bytes"));
  row.push_back(number_or_dash(run, "fds_of_one_process_peak"));
  row.push_back(number_or_dash(loader, "first_batch_s", "s"));
  row.push_back(rate_at(loader));
  row.push_back(share_at(loader));
  return row;
}

void write_legend(TextPage& page, const Json& runs) {
  const bool has_speed = std::ranges::any_of(runs, [](const Json& run) {
    return number_at(object_at(run, "loader"), "wait_share").has_value();
  });
  if (!has_speed) return;
  page.paragraph(
      "  ",
      "RSS and PSS: of all processes together; first: time to the first batch; wait: share of "
      "the training loop's time spent waiting for data");
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
void write_ends(TextPage& page, const Json& runs) {
  std::vector<std::pair<std::string, std::vector<std::string>>> ends;  // text, names of runs
  for (const Json& run : runs) {
    const std::string text = end_text(run);
    if (text.empty()) continue;
    auto found = std::ranges::find(ends, text, &decltype(ends)::value_type::first);
    if (found == ends.end()) found = ends.insert(ends.end(), {text, {}});
    const std::vector<std::string> names = names_of(run);
    found->second.push_back(names[1] == "-" ? names[0] : names[0] + ", " + names[1]);
  }
  for (const auto& [text, names] : ends) {
    const bool all = names.size() == runs.size() && names.size() > 1;
    page.paragraph(
        "  ",
        fmt::format("{}: {}", all ? "all runs" : fmt::format("{}", fmt::join(names, "; ")), text));
  }
}

void write_loader_versions(TextPage& page, const Json& report) {
  const Json& environment = object_at(report, "environment");
  const std::string libtorch = text_at(environment, "libtorch");
  if (libtorch.empty()) return;
  page.paragraph("  ",
                 fmt::format("reference loader on {} ({}), libtorch {}, OpenCV {}",
                             text_at(environment, "device"), text_at(environment, "device_name"),
                             libtorch, text_at(environment, "opencv")));
}

bool is_watched_in_full(const Json& run) {
  return text_at(run, "subject") == "pid" && text_at(object_at(run, "end"), "reason") == "time-up";
}

// The causes that were found in this run; what is worth a word alone is none.
std::string codes_found_in(const Json& report, const Json& run) {
  std::string codes;
  const auto index = number_at(run, "index");
  for (const Json& finding : items_at(report, "findings")) {
    if (text_at(finding, "severity") == "info") continue;
    const Json& runs = items_at(finding, "runs");
    const bool is_here = std::ranges::any_of(
        runs, [&](const Json& each) { return each.is_number() && each.get<double>() == index; });
    if (is_here) codes += (codes.empty() ? "" : " ") + text_at(finding, "name");
  }
  return codes.empty() ? "nothing" : codes;
}

// The peak of the newest run that has one.
const Json* ledger_to_show(const Json& report) {
  const Json* shown = nullptr;
  for (const Json& run : items_at(report, "runs")) {
    for (const Json& ledger : items_at(run, "shm_ledgers")) {
      if (text_at(ledger, "which") == "peak") shown = &ledger;
    }
  }
  return shown;
}

std::string holder_text(const Json& holder) {
  const std::string role = text_at(holder, "role");
  const Json& in_tree = holder.is_object() ? holder.value("in_tree", Json(false)) : Json(false);
  const bool is_ours = in_tree.is_boolean() && in_tree.get<bool>();
  return fmt::format(
      "{} {} {} ({} in {})", is_ours ? or_dash(role) : "another job's process",
      number_or_dash(holder, "pid"), text_at(holder, "comm"), bytes_at(holder, "bytes"),
      counted(static_cast<uint64_t>(std::max<int64_t>(integer_at(holder, "segments"), 0)),
              "segment"));
}

// Largest first; without -v no crumbs.
void write_holders(TextPage& page, const Json& ledger) {
  constexpr size_t kMost = 5;
  const bool is_all = page.options().verbosity > 0;
  const double least = is_all ? 0 : number_at(ledger, "used_bytes").value_or(0) / 100;
  size_t shown = 0;
  for (const Json& holder : items_at(ledger, "holders")) {
    if (number_at(holder, "bytes").value_or(0) < least || (shown == kMost && !is_all)) break;
    page.paragraph(shown++ == 0 ? "  held by " : "          ", holder_text(holder));
  }
}

struct RoleLine {
  std::vector<std::string> pids;
  std::string comm;
  std::string basis;
};

std::string role_text(const RoleLine& line) {
  std::string pids;
  for (size_t i = 0; i < std::min(line.pids.size(), kMostPidsInALine); ++i) {
    pids += (i == 0 ? "" : " ") + line.pids[i];
  }
  if (line.pids.size() > kMostPidsInALine) {
    pids += fmt::format(" and {} more", line.pids.size() - kMostPidsInALine);
  }
  std::string text = fmt::format("{} {}", line.comm, pids);
  if (!line.basis.empty()) text += fmt::format(" (known because {})", line.basis);
  return text;
}

void write_exits(TextPage& page, const Json& report) {
  std::vector<std::string> exits;
  // Why dlprobe ended what it had started; the signals below are its own.
  for (const Json& run : items_at(report, "runs")) {
    const Json& end = object_at(run, "end");
    const std::string why = text_at(end, "text");
    const bool is_ours = text_at(end, "reason") == "subject-ended" && !why.empty();
    if (is_ours && std::ranges::find(exits, why) == exits.end()) exits.push_back(why);
  }
  const Json& processes = items_at(report, "processes");
  for (const Json& process : processes) {
    const std::string text = text_at(object_at(process, "exit"), "text");
    // An end with code 0 is no news.
    if (text.empty() || text == "exited with code 0") continue;
    exits.push_back(
        fmt::format("{} {} {}", text_at(process, "role"), number_or_dash(process, "pid"), text));
  }
  for (size_t i = 0; i < std::min(exits.size(), kMostExits); ++i)
    page.paragraph("  ! ", exits[i]);
  if (exits.size() > kMostExits) {
    page.paragraph("  ! ", fmt::format("and {} more", exits.size() - kMostExits));
  }
}

// The highest use of that ledger's mount in any run.
double peak_use_of_mount(const Json& report, const Json& ledger) {
  double peak = 0;
  for (const Json& run : items_at(report, "runs")) {
    for (const Json& mount : items_at(run, "shm_mounts")) {
      if (number_at(mount, "device") != number_at(ledger, "device")) continue;
      peak = std::max(peak, number_at(mount, "peak_used_bytes").value_or(0));
    }
  }
  return peak;
}

void write_role_lines(TextPage& page, const Json& report) {
  const Json& processes = items_at(report, "processes");
  std::vector<std::pair<std::string, RoleLine>> roles;
  for (const Json& process : processes) {
    const std::string role = text_at(process, "role");
    auto found = std::ranges::find(roles, role, &std::pair<std::string, RoleLine>::first);
    if (found == roles.end()) {
      roles.emplace_back(role, RoleLine{.pids = {},
                                        .comm = text_at(process, "comm"),
                                        .basis = text_at(process, "role_basis")});
      found = roles.end() - 1;
    }
    found->second.pids.push_back(number_or_dash(process, "pid"));
  }
  for (const auto& [role, line] : roles) {
    page.paragraph(fmt::format("  {:<17}", role), role_text(line));
  }
}

}  // namespace

void write_runs(TextPage& page, const Json& report) {
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return;
  page.heading("Runs");
  std::vector<std::vector<std::string>> rows = {{"start", "sharing", "shm peak", "forecast",
                                                 "ratio", "RSS", "PSS", "fds", "first", "img/s",
                                                 "wait"}};
  for (const Json& run : runs)
    rows.push_back(run_row(run));
  page.table(std::move(rows), 2);
  write_ends(page, runs);
  write_legend(page, runs);
  write_loader_versions(page, report);
  const std::string formula = text_at(object_at(runs.back(), "forecast"), "formula");
  if (!formula.empty()) page.paragraph("  ", "forecast: " + formula);
}

void write_ledger(TextPage& page, const Json& report) {
  const Json* ledger = ledger_to_show(report);
  if (ledger == nullptr || number_at(*ledger, "used_bytes").value_or(0) == 0) return;
  page.heading("Where the shared memory went");
  const auto term = [&](std::string_view lead, const char* key) {
    page.paragraph(fmt::format("  {:<24}{:>10}", lead, bytes_at(*ledger, key)), "");
  };
  // A ledger takes longer than a statvfs: a short peak has none.
  const double peak = peak_use_of_mount(report, *ledger);
  if (peak > 1.05 * number_at(*ledger, "used_bytes").value_or(0)) {
    page.paragraph("  ",
                   fmt::format("at the peak {} were used, for too short a time to account for",
                               format_bytes(static_cast<uint64_t>(peak))));
  }
  term("used", "used_bytes");
  term("= named", "named_bytes");
  term("+ unlinked but open", "unlinked_open_bytes");
  term("+ unlinked but mapped", "unlinked_mapped_bytes");
  term("+ unexplained", "unexplained_bytes");
  if (number_at(*ledger, "unexplained_bytes").value_or(0) < 0) {
    page.paragraph("  ", "(less than nothing: it changed while it was read)");
  }
  const double unreadable = number_at(*ledger, "processes_unreadable").value_or(0);
  if (unreadable > 0) {
    const std::string some = counted(static_cast<uint64_t>(unreadable), "process");
    page.paragraph(
        "  ", some + " could not be looked into: what is held there is part of \"unexplained\"");
  }
  write_holders(page, *ledger);
}

namespace {

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

// One line for each start method.
void write_trials(TextPage& page, const Json& report) {
  const Json& runs = items_at(report, "runs");
  page.heading("Start methods");
  std::vector<std::vector<std::string>> rows = {
      {"start", "sharing", "outcome", "found", "started", "first", "batch", "batches/s", "PSS"}};
  for (const Json& run : runs) {
    std::vector<std::string> row = names_of(run);
    const Json& trial = object_at(run, "trial");
    row.push_back(or_dash(text_at(trial, "outcome")));
    row.push_back(codes_found_in(report, run));
    row.push_back(number_or_dash(trial, "started"));
    row.push_back(number_or_dash(trial, "first_start_s", "s"));
    row.push_back(number_or_dash(trial, "first_batch_s", "s"));
    row.push_back(number_or_dash(trial, "batches_per_s"));
    row.push_back(bytes_at(trial, "pss_of_a_worker_bytes"));
    rows.push_back(std::move(row));
  }
  page.table(std::move(rows), 4);
  write_ends(page, runs);
  page.paragraph("  ", legend_of_trials(report));
  write_loader_versions(page, report);
}

}  // namespace

void write_runs_by_finding(TextPage& page, const Json& report) {
  const Json& runs = items_at(report, "runs");
  const bool are_trials = !runs.empty() && !object_at(runs.front(), "trial").empty();
  if (are_trials) return write_trials(page, report);
  // That the watch of a live process ended by the clock is no news.
  if (runs.size() == 1 && (end_text(runs.front()).empty() || is_watched_in_full(runs.front())))
    return;
  if (runs.empty()) return;
  page.heading("Runs");
  std::vector<std::vector<std::string>> rows = {
      {"start", "sharing", "found", "RSS", "first", "img/s", "wait"}};
  for (const Json& run : runs) {
    std::vector<std::string> row = names_of(run);
    const Json& loader = object_at(run, "loader");
    row.push_back(codes_found_in(report, run));
    row.push_back(bytes_at(run, "rss_sum_peak_bytes"));
    row.push_back(number_or_dash(loader, "first_batch_s", "s"));
    row.push_back(rate_at(loader));
    row.push_back(share_at(loader));
    rows.push_back(std::move(row));
  }
  if (runs.size() > 1) page.table(std::move(rows), 3);
  write_ends(page, runs);
  write_loader_versions(page, report);
}

void write_processes(TextPage& page, const Json& report) {
  const Json& processes = items_at(report, "processes");
  if (processes.empty()) return;
  if (has_activities(report)) {
    write_activities(page, report);
  } else {
    page.heading("Processes");
    write_role_lines(page, report);
  }
  write_exits(page, report);
}

}  // namespace dlprobe
