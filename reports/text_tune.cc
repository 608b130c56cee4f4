#include "reports/text_tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace dlprobe {
namespace {

std::string number(const Json& row, const char* key, int digits) {
  const auto value = number_at(row, key);
  return value ? fmt::format("{:.{}f}", *value, digits) : "-";
}

std::string share(const Json& row, const char* key) {
  const auto value = number_at(row, key);
  return value ? fmt::format("{:.0f} %", 100 * *value) : "-";
}

std::string plus_minus(const Json& row) {
  const auto value = number_at(row, "plus_minus_share");
  return value ? fmt::format("{:.1f} %", 100 * *value) : "-";
}

bool is_same(const Json& one, const Json& other) {
  return std::ranges::all_of(std::array{"workers", "prefetch_factor", "start_method", "variant"},
                             [&](const char* key) {
                               return one.is_object() && other.is_object() && one.contains(key) &&
                                      other.contains(key) && one[key] == other[key];
                             });
}

// What tells a row from the others, at its end: it may be longer than the rest.
std::string note_of(const Json& tune, const Json& row) {
  std::string note;
  const auto add = [&](std::string_view text) {
    note += (note.empty() ? "" : ", ") + std::string(text);
  };
  if (is_same(row, object_at(tune, "recommended"))) add("recommended");
  if (is_same(row, object_at(tune, "fastest"))) add("fastest");
  if (is_same(row, object_at(tune, "present"))) add("now");
  const std::string outcome = text_at(row, "outcome");
  if (outcome == "not-started") add("not started");
  if (outcome == "failed") add("failed");
  return note.empty() ? "-" : note;
}

std::vector<std::string> cells_of(const Json& tune, const Json& row) {
  const std::string variant = text_at(row, "variant");
  const bool has_queue = integer_at(row, "workers") > 0 && variant != "step-alone";
  const std::string start = text_at(row, "start_method");
  return {variant,
          number(row, "workers", 0),
          has_queue ? number(row, "prefetch_factor", 0) : "-",
          has_queue ? start : "-",
          number(row, "batches_per_s", 1),
          plus_minus(row),
          note_of(tune, row),
          share(row, "share_of_best"),
          share(row, "wait_share"),
          number(row, "wanted_cpus", 1),
          number(row, "first_batch_s", 2),
          bytes_at(row, "memory_bytes"),
          bytes_at(row, "shm_forecast_bytes"),
          number(row, "fd_forecast", 0),
          number(row, "runs", 0)};
}

void write_recommendation(TextPage& page, const Json& tune) {
  const Json& recommended = object_at(tune, "recommended");
  if (recommended.empty()) return;
  page.heading("Recommended");
  page.paragraph("  ", text_at(tune, "line"));
  std::string needs = fmt::format("{} of memory", bytes_at(recommended, "memory_bytes"));
  if (number_at(recommended, "fd_forecast")) {
    needs += fmt::format(", up to {} in /dev/shm and {} open files in one process",
                         bytes_at(recommended, "shm_forecast_bytes"),
                         number(recommended, "fd_forecast", 0));
  }
  page.paragraph("  needs ", needs);
  const std::string limit = text_at(object_at(tune, "limit"), "text");
  if (!limit.empty()) page.paragraph("  ", limit);
}

void write_refusals(TextPage& page, const Json& rows) {
  for (const Json& row : rows) {
    const std::string why = text_at(row, "why");
    if (why.empty()) continue;
    page.paragraph("  ! ",
                   fmt::format("{} workers, prefetch factor {}: {}", number(row, "workers", 0),
                               number(row, "prefetch_factor", 0), why));
  }
}

}  // namespace

void write_tune(TextPage& page, const Json& report) {
  const Json& tune = object_at(report, "tune");
  if (tune.empty()) return;
  write_recommendation(page, tune);
  page.heading("Settings");
  std::vector<std::vector<std::string>> rows = {{"what", "workers", "prefetch", "start", "batch/s",
                                                 "+-", "note", "of best", "wait", "CPUs wanted",
                                                 "first", "memory", "shm", "fds", "runs"}};
  const Json& settings = items_at(tune, "settings");
  for (const Json& row : settings)
    rows.push_back(cells_of(tune, row));
  page.table(std::move(rows), 7);
  write_refusals(page, settings);
  const Json& room = object_at(tune, "room");
  page.paragraph(
      "  ", fmt::format(
                "{} usable CPUs; +-: half of the 95 % interval (one run differs from another by "
                "{:.1f} %); wait: share of the training loop's time; memory: PSS of all "
                "processes; shm, fds: forecast",
                number(room, "usable_cpus", 1), 100 * number_at(tune, "noise_share").value_or(0)));
}

}  // namespace dlprobe
