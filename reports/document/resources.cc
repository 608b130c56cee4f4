// What processes had of memory and descriptors, and where the shared memory went.

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/units.h"
#include "lib/model/descriptors.h"
#include "reports/document/builders.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

using Processes = std::vector<const report::Process*>;

// The processes of the last run in which any `has` it, those with the most by `size` first.
Processes processes_with(const report::Report& report, auto has, auto size) {
  Processes result;
  uint64_t run = 0;
  for (const report::Process& process : report.processes) {
    if (!has(process) || process.run < run) continue;
    if (process.run > run) result.clear();
    run = process.run;
    result.push_back(&process);
  }
  std::ranges::stable_sort(result, std::ranges::greater{}, [&](const report::Process* process) {
    return size(*process).value_or(0);
  });
  return result;
}

void add_room(Blocks& blocks, const report::Report& report) {
  if (report.runs.empty() || !report.runs.back().memory) return;
  const report::MemoryLimit& limit = report.runs.back().memory->limit;
  blocks.say(fmt::format("left of {}: {} of {}", shown(limit.name), bytes_text(limit.left_bytes),
                         bytes_text(limit.bytes)));
  if (!report.runs.back().memory->worker) return;
  const report::WorkerMemory& worker = *report.runs.back().memory->worker;
  std::string text = fmt::format("one more like worker {}: {} of its own, room for {}", worker.pid,
                                 bytes_text(worker.private_bytes), worker.more_workers);
  if (worker.to_copy_bytes > 0) {
    text += fmt::format("; {} more if it copies all that it shares by fork, room for {}",
                        bytes_text(worker.to_copy_bytes), worker.more_workers_if_copied);
  }
  blocks.say(text);
}

// The peak of the newest run that has one.
const report::ShmLedger* ledger_to_show(const report::Report& report) {
  const report::ShmLedger* shown = nullptr;
  for (const report::Run& run : report.runs) {
    for (const report::ShmLedger& ledger : run.shm_ledgers) {
      if (ledger.which == report::LedgerMoment::kPeak) shown = &ledger;
    }
  }
  return shown;
}

// The highest use of that ledger's mount in any run.
uint64_t peak_use_of_mount(const report::Report& report, const report::ShmLedger& ledger) {
  uint64_t peak = 0;
  for (const report::Run& run : report.runs) {
    for (const report::ShmMount& mount : run.shm_mounts) {
      if (mount.device == ledger.device) peak = std::max(peak, mount.peak_used_bytes.value_or(0));
    }
  }
  return peak;
}

std::string holder_text(const report::Holder& holder) {
  return fmt::format("{} {} {} ({} in {})",
                     holder.in_tree ? or_dash(shown(holder.role)) : "another job's process",
                     holder.pid, shown(holder.comm), bytes_text(holder.bytes),
                     counted(holder.segments, "segment"));
}

// Largest first.
void add_holders(Blocks& blocks, const report::ShmLedger& ledger) {
  List list;
  for (const report::Holder& holder : ledger.holders) {
    list.add(holder_text(holder));
  }
  if (list.items.empty()) return;
  Field field = {.name = spans("held by"), .columns = 8};
  field.blocks.add(std::move(list));
  blocks.add(std::move(field));
}

}  // namespace

Section ledger_of(const report::Report& report) {
  Section section = {.id = "ledger", .title = "Where the shared memory went"};
  Blocks& blocks = section.blocks;
  const report::ShmLedger* ledger = ledger_to_show(report);
  if (ledger == nullptr || ledger->used_bytes == 0) return section;
  // A ledger takes longer than a statvfs: a short peak has none.
  const uint64_t peak = peak_use_of_mount(report, *ledger);
  if (static_cast<double>(peak) > 1.05 * static_cast<double>(ledger->used_bytes)) {
    blocks.say(fmt::format("the peak of {} was too short to account for", format_bytes(peak)));
  }
  Table terms = {.columns = {{.head = "Shared memory", .lead = 24},
                             {.head = "Bytes", .is_number = true, .lead = 12}},
                 .is_lines = true};
  terms.add("used", bytes_text(ledger->used_bytes));
  terms.add("= named", bytes_text(ledger->named_bytes));
  terms.add("+ unlinked but open", bytes_text(ledger->unlinked_open_bytes));
  terms.add("+ unlinked but mapped", bytes_text(ledger->unlinked_mapped_bytes));
  terms.add("+ unexplained", bytes_text(ledger->unexplained_bytes));
  blocks.add(std::move(terms));
  if (ledger->unexplained_bytes < 0) blocks.say("(negative: it changed while it was read)");
  if (ledger->processes_unreadable > 0) {
    blocks.say(counted(ledger->processes_unreadable, "process") +
               " could not be read: their share is part of \"unexplained\"");
  }
  add_holders(blocks, *ledger);
  return section;
}

Section memory_of(const report::Report& report) {
  Section section = {.id = "memory", .title = "Memory"};
  const Processes processes = processes_with(
      report, [](const report::Process& process) { return process.memory.has_value(); },
      [](const report::Process& process) { return process.memory->rss_bytes; });
  if (processes.empty()) return section;
  Table table = table_of({"process", "RSS", "own", "PSS", "peak RSS", "swap", "page tables"}, 1, 2);
  for (const report::Process* process : processes) {
    const report::ProcessMemory memory = process->memory.value_or(report::ProcessMemory());
    table.add(process_name(*process), bytes_text(memory.rss_bytes),
              bytes_text(memory.private_bytes), bytes_text(memory.pss_bytes),
              bytes_text(process->rss_peak_bytes), bytes_text(memory.swap_bytes),
              bytes_text(memory.page_table_bytes));
  }
  section.blocks.add(std::move(table));
  section.blocks.say("as last seen; own: what no other process has (USS)");
  add_room(section.blocks, report);
  return section;
}

Section descriptors_of(const report::Report& report) {
  Section section = {.id = "descriptors", .title = "Open descriptors"};
  const Processes processes = processes_with(
      report,
      [](const report::Process& process) {
        return process.fd_kinds && !process.fd_kinds->counts.empty();
      },
      [](const report::Process& process) { return process.fds_peak; });
  if (processes.empty()) return section;
  Table table = table_of({"process", "peak", "limit"}, 1, 2);
  for (const FdKind kind : kValues<FdKind>)
    table.columns.push_back({.head = shown(kind), .is_number = true});
  for (const report::Process* process : processes) {
    const report::NamedCounts kinds = process->fd_kinds.value_or(report::NamedCounts());
    Row& row = table.add(process_name(*process), count_text(process->fds_peak),
                         count_text(process->open_files_limit));
    for (const FdKind kind : kValues<FdKind>) {
      const auto found = std::ranges::find(kinds.counts, to_string(kind),
                                           &std::pair<std::string, uint64_t>::first);
      row.cells.push_back(spans(found == kinds.counts.end() ? "-" : count_text(found->second)));
    }
  }
  section.blocks.add(std::move(table));
  section.blocks.say("by what they lead to, as last counted");
  return section;
}

}  // namespace dlprobe::document
