#include "probes/probe.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "probes/facts/facts.h"
#include "probes/facts/seen.h"
#include "probes/facts/shared_handles.h"
#include "probes/fd/facts.h"
#include "probes/fd/rules.h"

namespace dlprobe::probes::fd {
namespace {

// What filled the table is the cause of its being full.
std::optional<FindingCode> cause_of_exhaustion(const std::vector<Finding>& findings,
                                               const Finding& exhausted) {
  for (const Finding& finding : findings) {
    if (finding.severity != Severity::kError) continue;
    const bool same = finding.processes.empty() ||
                      std::ranges::find_first_of(finding.processes, exhausted.processes) !=
                          finding.processes.end();
    if (same) return finding.code;
  }
  return std::nullopt;
}

Verdict examine_run(const RunCase& one) {
  const Run& run = one.run;
  const RecordingHeader& header = one.recording.header;
  const Facts facts = facts_of(header, run);
  Verdict verdict;
  verdict.gaps = gaps_of(facts);
  const auto exhaustions = find_exhaustions(facts);
  const auto leaks = find_leaks(facts, exhaustions);
  add(verdict.findings, kept_batches(facts, leaks));
  std::ranges::move(leaks_by_kind(facts, leaks), std::back_inserter(verdict.findings));
  add(verdict.findings, limit_too_low(facts, exhaustions, leaks));
  auto exhausted = descriptors_exhausted(facts, exhaustions);
  if (!exhausted) exhausted = refused_unseen(facts);
  if (exhausted) exhausted->consequence_of = cause_of_exhaustion(verdict.findings, *exhausted);
  add(verdict.findings, std::move(exhausted));
  add(verdict.findings, files_of_machine_exhausted(facts));
  auto mappings = mappings_exhausted(facts);
  // What keeps descriptors keeps their mappings as well.
  if (!mappings && leaks.empty()) mappings = growing_mappings(facts);
  add(verdict.findings, std::move(mappings));
  std::ranges::move(find_shared_handles(run, header.host.machine),
                    std::back_inserter(verdict.findings));
  return verdict;
}

constexpr auto kTable = ReportTable::kOpenFiles;
constexpr std::array<Cause, 6> kCauses = {{
    {FindingCode::kFdLimitTooLow, saw_open_files, kTable},
    {FindingCode::kFdExhausted, saw_open_files, kTable},
    {FindingCode::kBatchesKeptByConsumer, saw_open_files, kTable},
    {FindingCode::kFdLeakInWorker, saw_open_files, kTable},
    {FindingCode::kHandleSharedOverFork, saw_shared_files, kTable},
    {FindingCode::kMemoryMapLimitReached, saw_mappings, kTable},
}};

}  // namespace

const Probe kProbe = {.name = "fd",
                      .summary = "file descriptors and mappings: limits, leaks, kept batches",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .table = kTable,
                      .needs_shared_files = true,
                      .needs_containers = true};

}  // namespace dlprobe::probes::fd
