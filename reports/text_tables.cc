#include "reports/text_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

std::string end_of(const Json& run) {
  const std::string reason = text_at(items_at(run, "end"), "reason");
  return reason.empty() ? "cut off" : reason;
}

// What tells a run from the others: its start method and strategy, or what was looked at.
std::vector<std::string> names_of(const Json& run) {
  const Json& plan = items_at(run, "plan");
  if (plan.is_object()) {
    return {or_dash(text_at(plan, "start_method")), or_dash(text_at(plan, "sharing_strategy"))};
  }
  const auto pid = number_at(run, "asked_pid");
  return {or_dash(text_at(run, "subject")), pid ? fmt::format("pid {:.0f}", *pid) : "-"};
}

std::vector<std::string> run_row(const Json& run) {
  std::vector<std::string> row = names_of(run);
  const Json& loader = items_at(run, "loader");
  row.push_back(bytes_at(run, "shm_peak_bytes"));
  row.push_back(bytes_at(items_at(run, "forecast"), "shm_bytes"));
  row.push_back(ratio_at(run));
  row.push_back(bytes_at(run, "rss_sum_peak_bytes"));
  row.push_back(bytes_at(run, "pss_sum_peak_bytes"));
  row.push_back(number_or_dash(run, "fds_of_one_process_peak"));
  row.push_back(number_or_dash(loader, "first_batch_s", "s"));
  row.push_back(rate_at(loader));
  row.push_back(share_at(loader));
  row.push_back(end_of(run));
  return row;
}

void write_loader_versions(TextPage& page, const Json& report) {
  const Json& environment = items_at(report, "environment");
  const std::string libtorch = text_at(environment, "libtorch");
  if (libtorch.empty()) return;
  page.paragraph("  ",
                 fmt::format("reference loader on {} ({}), libtorch {}, OpenCV {}",
                             text_at(environment, "device"), text_at(environment, "device_name"),
                             libtorch, text_at(environment, "opencv")));
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
  return fmt::format("{} {} {} ({} in {} segments)",
                     is_ours ? or_dash(role) : "another job's process",
                     number_or_dash(holder, "pid"), text_at(holder, "comm"),
                     bytes_at(holder, "bytes"), number_or_dash(holder, "segments"));
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

void write_exits(TextPage& page, const Json& processes) {
  std::vector<std::string> exits;
  for (const Json& process : processes) {
    const std::string text = text_at(items_at(process, "exit"), "text");
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

}  // namespace

void write_runs(TextPage& page, const Json& report) {
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return;
  page.heading("Runs");
  std::vector<std::vector<std::string>> rows = {{"start", "sharing", "shm peak", "forecast",
                                                 "ratio", "RSS sum", "PSS sum", "fds", "1st batch",
                                                 "images/s", "waiting", "end"}};
  for (const Json& run : runs)
    rows.push_back(run_row(run));
  page.table(std::move(rows), 2);
  write_loader_versions(page, report);
  const std::string formula = text_at(items_at(runs.back(), "forecast"), "formula");
  if (!formula.empty()) page.paragraph("  ", "forecast: " + formula);
}

void write_ledger(TextPage& page, const Json& report) {
  const Json* ledger = ledger_to_show(report);
  if (ledger == nullptr) return;
  page.heading("Where the shared memory went, at its highest use");
  page.paragraph("  ",
                 fmt::format("used {} = named {} + unlinked but open {} + unlinked but mapped {} + "
                             "unexplained {}",
                             bytes_at(*ledger, "used_bytes"), bytes_at(*ledger, "named_bytes"),
                             bytes_at(*ledger, "unlinked_open_bytes"),
                             bytes_at(*ledger, "unlinked_mapped_bytes"),
                             bytes_at(*ledger, "unexplained_bytes")));
  if (const auto unreadable = number_at(*ledger, "processes_unreadable");
      unreadable.value_or(0) > 0) {
    page.paragraph("  ", fmt::format("{:.0f} processes could not be looked into: what they hold is "
                                     "part of \"unexplained\"",
                                     *unreadable));
  }
  const Json& holders = items_at(*ledger, "holders");
  const size_t most = page.options().verbosity > 0 ? holders.size() : 5;
  for (size_t i = 0; i < std::min(holders.size(), most); ++i) {
    page.paragraph(i == 0 ? "  held by " : "          ", holder_text(holders[i]));
  }
}

void write_processes(TextPage& page, const Json& report) {
  const Json& processes = items_at(report, "processes");
  if (processes.empty()) return;
  page.heading("Processes");
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
  write_exits(page, processes);
}

}  // namespace dlprobe
