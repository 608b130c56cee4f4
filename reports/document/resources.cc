// What processes had of memory and descriptors, and where the shared memory went.

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/model/descriptors.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

constexpr size_t kMostWithoutAll = 12;

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

// A table of the first rows, and how many there are beyond.
void add_rows(Blocks& blocks, Table table, bool is_all) {
  const size_t hidden =
      is_all || table.rows.size() <= kMostWithoutAll ? 0 : table.rows.size() - kMostWithoutAll;
  table.rows.resize(table.rows.size() - hidden);
  blocks.add(std::move(table));
  if (hidden > 0)
    blocks.say(fmt::format("and {} with less (all with -v)", counted(hidden, "process")));
}

void add_room(Blocks& blocks, const Json& report) {
  const Json& runs = items_at(report, "runs");
  if (runs.empty()) return;
  const Json& memory = object_at(runs.back(), "memory");
  const Json& limit = object_at(memory, "limit");
  if (limit.empty()) return;
  blocks.say(fmt::format("left of {}: {} of {}", text_at(limit, "name"),
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
  blocks.say(text);
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

std::string holder_text(const Json& holder) {
  const Json in_tree = holder.is_object() ? holder.value("in_tree", Json(false)) : Json(false);
  const bool is_ours = in_tree.is_boolean() && in_tree.get<bool>();
  const auto segments = static_cast<uint64_t>(std::max<int64_t>(integer_at(holder, "segments"), 0));
  return fmt::format("{} {} {} ({} in {})",
                     is_ours ? or_dash(text_at(holder, "role")) : "another job's process",
                     value_at(holder, "pid"), text_at(holder, "comm"), bytes_at(holder, "bytes"),
                     counted(segments, "segment"));
}

// Largest first; unless all are wanted no crumbs.
void add_holders(Blocks& blocks, const Json& ledger, bool is_all) {
  constexpr size_t kMost = 5;
  const double least = is_all ? 0 : number_at(ledger, "used_bytes").value_or(0) / 100;
  List list;
  for (const Json& holder : items_at(ledger, "holders")) {
    if (number_at(holder, "bytes").value_or(0) < least) break;
    if (list.items.size() == kMost && !is_all) break;
    list.add(holder_text(holder));
  }
  if (list.items.empty()) return;
  Field field = {.name = spans("held by"), .columns = 8};
  field.blocks.add(std::move(list));
  blocks.add(std::move(field));
}

}  // namespace

Section ledger_of(const Json& report, bool is_all) {
  Section section = {.id = "ledger", .title = "Where the shared memory went"};
  Blocks& blocks = section.blocks;
  const Json* ledger = ledger_to_show(report);
  if (ledger == nullptr || number_at(*ledger, "used_bytes").value_or(0) == 0) return section;
  // A ledger takes longer than a statvfs: a short peak has none.
  const double peak = peak_use_of_mount(report, *ledger);
  if (peak > 1.05 * number_at(*ledger, "used_bytes").value_or(0)) {
    blocks.say(fmt::format("at the peak {} were used, for too short a time to account for",
                           format_bytes(static_cast<uint64_t>(peak))));
  }
  Table terms = {.columns = {{.head = "Shared memory", .lead = 24},
                             {.head = "Bytes", .is_number = true, .lead = 12}},
                 .is_lines = true};
  terms.add("used", bytes_at(*ledger, "used_bytes"));
  terms.add("= named", bytes_at(*ledger, "named_bytes"));
  terms.add("+ unlinked but open", bytes_at(*ledger, "unlinked_open_bytes"));
  terms.add("+ unlinked but mapped", bytes_at(*ledger, "unlinked_mapped_bytes"));
  terms.add("+ unexplained", bytes_at(*ledger, "unexplained_bytes"));
  blocks.add(std::move(terms));
  if (number_at(*ledger, "unexplained_bytes").value_or(0) < 0)
    blocks.say("(less than nothing: it changed while it was read)");
  const double unreadable = number_at(*ledger, "processes_unreadable").value_or(0);
  if (unreadable > 0) {
    blocks.say(counted(static_cast<uint64_t>(unreadable), "process") +
               " could not be looked into: what is held there is part of \"unexplained\"");
  }
  add_holders(blocks, *ledger, is_all);
  return section;
}

Section memory_of(const Json& report, bool is_all) {
  Section section = {.id = "memory", .title = "Memory"};
  const auto processes = processes_with(report, "memory", [](const Json& process) {
    return number_at(object_at(process, "memory"), "rss_bytes");
  });
  if (processes.empty()) return section;
  Table table = table_of({"process", "RSS", "own", "PSS", "peak RSS", "swap", "page tables"}, 1, 2);
  for (const Json* process : processes) {
    const Json& memory = object_at(*process, "memory");
    table.add(process_name(*process), bytes_at(memory, "rss_bytes"),
              bytes_at(memory, "private_bytes"), bytes_at(memory, "pss_bytes"),
              bytes_at(*process, "rss_peak_bytes"), bytes_at(memory, "swap_bytes"),
              bytes_at(memory, "page_table_bytes"));
  }
  add_rows(section.blocks, std::move(table), is_all);
  section.blocks.say("as last seen; own: what no other process has (USS)");
  add_room(section.blocks, report);
  return section;
}

Section descriptors_of(const Json& report, bool is_all) {
  Section section = {.id = "descriptors", .title = "Open descriptors"};
  const auto processes = processes_with(
      report, "fd_kinds", [](const Json& process) { return number_at(process, "fds_peak"); });
  if (processes.empty()) return section;
  Table table = table_of({"process", "peak", "limit"}, 1, 2);
  for (const FdKind kind : kValues<FdKind>)
    table.columns.push_back({.head = std::string(to_string(kind)), .is_number = true});
  for (const Json* process : processes) {
    Row& row = table.add(process_name(*process), count_at(*process, "fds_peak"),
                         count_at(*process, "open_files_limit"));
    for (const FdKind kind : kValues<FdKind>) {
      const std::string name(to_string(kind));
      row.cells.push_back(spans(count_at(object_at(*process, "fd_kinds"), name.c_str())));
    }
  }
  add_rows(section.blocks, std::move(table), is_all);
  section.blocks.say("by what they lead to, as last counted");
  return section;
}

}  // namespace dlprobe::document
