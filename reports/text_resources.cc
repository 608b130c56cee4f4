#include "reports/text_resources.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/model/descriptors.h"

namespace dlprobe {
namespace {

constexpr size_t kMostRows = 12;

// The processes of the last run that has any with `key`, those with the most by `size` first.
std::vector<const Json*> processes_with(const Json& report, const char* key, auto size) {
  double run = -1;
  for (const Json& process : items_at(report, "processes")) {
    if (!object_at(process, key).empty())
      run = std::max(run, number_at(process, "run").value_or(0));
  }
  std::vector<const Json*> result;
  for (const Json& process : items_at(report, "processes")) {
    const bool is_here = number_at(process, "run").value_or(0) == run;
    if (is_here && !object_at(process, key).empty()) result.push_back(&process);
  }
  std::ranges::stable_sort(result, std::ranges::greater{},
                           [&](const Json* process) { return size(*process).value_or(0); });
  return result;
}

std::string name_of(const Json& process) {
  return fmt::format("{} {}", text_at(process, "role"), integer_at(process, "pid"));
}

std::string count_at(const Json& object, const char* key) {
  const auto count = number_at(object, key);
  return count ? fmt::format("{:.0f}", *count) : "-";
}

// A table of the first rows, and how many there are beyond.
void write_rows(TextPage& page, std::vector<std::vector<std::string>> rows) {
  const size_t all = rows.size() - 1;
  if (all > kMostRows && page.options().verbosity == 0) rows.resize(kMostRows + 1);
  const size_t hidden = all - (rows.size() - 1);
  page.table(std::move(rows), 2);
  if (hidden > 0) {
    page.paragraph("  ", fmt::format("and {} with less (all with -v)", counted(hidden, "process")));
  }
}

void write_room(TextPage& page, const Json& report) {
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return;
  const Json& memory = object_at(runs.back(), "memory");
  const Json& limit = object_at(memory, "limit");
  if (limit.empty()) return;
  page.paragraph("  ", fmt::format("left of {}: {} of {}", text_at(limit, "name"),
                                   bytes_at(limit, "left_bytes"), bytes_at(limit, "bytes")));
  const Json& worker = object_at(memory, "worker");
  if (worker.empty()) return;
  std::string text =
      fmt::format("one more like worker {}: {} of its own, room for {}", integer_at(worker, "pid"),
                  bytes_at(worker, "private_bytes"), count_at(worker, "more_workers"));
  if (integer_at(worker, "to_copy_bytes") > 0) {
    text +=
        fmt::format("; {} more if it copies all that it shares by fork, room for {}",
                    bytes_at(worker, "to_copy_bytes"), count_at(worker, "more_workers_if_copied"));
  }
  page.paragraph("  ", text);
}

}  // namespace

void write_memory(TextPage& page, const Json& report) {
  const auto processes = processes_with(report, "memory", [](const Json& process) {
    return number_at(object_at(process, "memory"), "rss_bytes");
  });
  if (processes.empty()) return;
  page.heading("Memory");
  std::vector<std::vector<std::string>> rows = {
      {"process", "RSS", "own", "PSS", "peak RSS", "swap", "page tables"}};
  for (const Json* process : processes) {
    const Json& memory = object_at(*process, "memory");
    rows.push_back({name_of(*process), bytes_at(memory, "rss_bytes"),
                    bytes_at(memory, "private_bytes"), bytes_at(memory, "pss_bytes"),
                    bytes_at(*process, "rss_peak_bytes"), bytes_at(memory, "swap_bytes"),
                    bytes_at(memory, "page_table_bytes")});
  }
  write_rows(page, std::move(rows));
  page.paragraph("  ", "as last seen; own: what no other process has (USS)");
  write_room(page, report);
}

void write_descriptors(TextPage& page, const Json& report) {
  const auto processes = processes_with(
      report, "fd_kinds", [](const Json& process) { return number_at(process, "fds_peak"); });
  if (processes.empty()) return;
  page.heading("Open descriptors");
  std::vector<std::vector<std::string>> rows = {{"process", "peak", "limit"}};
  for (const FdKind kind : kFdKinds)
    rows.front().emplace_back(to_string(kind));
  for (const Json* process : processes) {
    rows.push_back({name_of(*process), count_at(*process, "fds_peak"),
                    count_at(*process, "open_files_limit")});
    for (const FdKind kind : kFdKinds) {
      const std::string name(to_string(kind));
      rows.back().push_back(count_at(object_at(*process, "fd_kinds"), name.c_str()));
    }
  }
  write_rows(page, std::move(rows));
  page.paragraph("  ", "by what they lead to, as last counted");
}

}  // namespace dlprobe
