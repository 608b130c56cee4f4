#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/document/alike_waits.h"
#include "reports/document/document.h"
#include "reports/model/report.h"

/// From a report to the tree that people read. Only these functions know how a report is made.
namespace dlprobe::document {

/// All that a report says: pages, and a terminal with -v.
Document document_of(const AnyReport& report);

/// What a terminal shows of it: verdict, chain, a line of proof, the first remedy. At most 15 lines
/// of 80 columns for one cause.
Document brief_of(const AnyReport& any);

/// The document of `dlprobe stacks`. `is_all`: nothing is shortened (-v).
Document document_of(const report::Stacks& stacks, bool is_all);

// The sections, each without blocks where the report has nothing for it.

Section findings_of(const report::Report& report);
/// What a configuration has taken out of the verdict.
Section suppressed_of(const report::Report& report);
/// Of a merged report: how many nodes said what, and each of them.
Section nodes_of(const report::Cluster& cluster);

/// Whether its checks have names of their own and say what was seen: those of a gate.
bool has_named_checks(const report::Report& report);
/// Checks with names of their own, each with what was seen.
Section named_checks_of(const report::Report& report);
/// What was checked: on a terminal if nothing was found.
Section checks_of(const AnyReport& any);

/// From the trainer's main thread to the root cause, and the drawing of who waits for whom.
Section waits_of(const report::Report& report);
/// The same chain in a line for each thread, without how long.
std::vector<Spans> short_chain(const report::WaitGraph& graph);
/// The drawing: what waits alike is drawn once.
Graph graph_of(const report::Report& report);
/// " for 2.0 s": how long it had stood there when the watch of its run ended; "" where that is not
/// known.
std::string since_text(const report::Doing& doing, const report::Report& report,
                       const std::optional<uint64_t>& run);
/// Of distributed jobs: which ranks wait where, for whom, and a grid of all of them.
Section ranks_of(const report::Report& report);
/// What each process does, or which were seen, by role; and how those that ended did. Processes
/// that do the same are folded on a terminal.
Section processes_of(const report::Report& report);
/// Whether the report tells what its processes were doing at the last look.
bool has_activities(const report::Report& report);

/// The processes whose threads were seen.
std::vector<LookedAt> looked_at(const report::Report& report);
/// The threads of each process with their frames; alike threads and alike processes folded.
Section stacks_of(const report::Report& report);
Section stacks_of(const report::Stacks& stacks, bool is_whole);

/// Of `dlprobe tune`: the line of the script as it should be, and what it needs.
Section recommendation_of(const report::Report& report);
/// Of `dlprobe tune`: a row for each setting.
Section settings_of(const report::Report& report);
/// A row for each run: shm peak beside its forecast, memory, descriptors, speed.
Section runs_of(const report::Report& report);
/// A row for each run: what was found in it, memory, speed; for one run, how it ended.
Section runs_by_finding_of(const report::Report& report);
/// A row for each start method that was tried; without blocks for other reports.
Section trials_of(const report::Report& report);
/// Where the shared memory went, for the last run that has it: the equation and the largest
/// holders.
Section ledger_of(const report::Report& report);
/// A row for each process of the last run with the memory it had when last seen, the largest first;
/// then what is left before the nearest limit, and how many workers more that is.
Section memory_of(const report::Report& report);
/// A row for each process of the last run: its open descriptors by what they lead to, and its
/// limit.
Section descriptors_of(const report::Report& report);

/// Values over time: the chart of the first finding first; none that is constant.
Charts charts_of(const report::Report& report);
/// The charts, and the events.
Section timeline_of(const report::Report& report);

/// What could not be seen, and for want of it not be said. Those that differ in numbers alone (one
/// for each of many processes) are said once with their count; what the verdict rests on comes
/// first; unless `is_all` the rest is bounded.
Section limitations_of(const std::vector<report::Gap>& gaps, bool is_all);

/// Machine, invocation, versions.
Section about_of(const AnyReport& any);

/// "-" for nothing.
std::string or_dash(std::string text);
/// "worker 4711".
std::string process_name(const report::Process& process);
/// Joined by ", " (or another): "host, code".
std::string joined(const std::vector<std::string>& texts, std::string_view between = ", ");

}  // namespace dlprobe::document
