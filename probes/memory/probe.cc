#include "probes/probe.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "probes/facts/all_well.h"
#include "probes/facts/facts.h"
#include "probes/facts/seen.h"
#include "probes/memory/facts.h"
#include "probes/memory/rules.h"

namespace dlprobe::probes::memory {
namespace {

// What makes the group's memory grow is the cause of its limit being too low, and of swapping.
void mark_consequences(std::vector<Finding>& findings) {
  const auto is_cause = [](const Finding& finding) {
    return finding.code == FindingCode::kCopyOnWriteGrowth ||
           finding.code == FindingCode::kWorkerMemoryLeak ||
           finding.code == FindingCode::kPrefetchBacklog;
  };
  const auto cause = std::ranges::find_if(findings, is_cause);
  if (cause == findings.end()) return;
  const FindingCode code = cause->code;
  for (Finding& finding : findings) {
    if (!is_cause(finding)) finding.consequence_of = code;
  }
}

Verdict examine_run(const RunCase& one) {
  const Run& run = one.run;
  const Facts facts = facts_of(one.recording.header, run);
  Verdict verdict;
  verdict.gaps = gaps_of(facts);
  // Who looks at everything does not ask for what takes long.
  if (one.is_asked_alone) verdict.limits = limits_of(facts);
  add(verdict.findings, copy_on_write_growth(facts));
  std::ranges::move(growing_processes(facts), std::back_inserter(verdict.findings));
  auto backlog = prefetch_backlog(facts);
  // What waits for the training loop is not kept for good.
  if (!backlog) add(verdict.findings, shared_memory_growth(facts));
  add(verdict.findings, std::move(backlog));
  add(verdict.findings, swap_thrash(facts));
  add(verdict.findings, limit_too_low(facts));
  mark_consequences(verdict.findings);
  return verdict;
}

constexpr auto kTable = ReportTable::kMemory;
constexpr std::array<Cause, 5> kCauses = {{
    {FindingCode::kCopyOnWriteGrowth, saw_shared_pages, kTable},
    {FindingCode::kWorkerMemoryLeak, saw_processes_for_long, kTable},
    {FindingCode::kPrefetchBacklog, saw_processes, kTable},
    {FindingCode::kSwapThrash, saw_memory_limit, kTable},
    {FindingCode::kMemoryLimitTooLow, saw_memory_limit, kTable},
}};

Message all_well(const RecordingView& recording) {
  return say("nothing {} wrong with memory in {}", is_over(recording) ? "was" : "is",
             describe_samples(recording));
}

}  // namespace

const Probe kProbe = {.name = "memory",
                      .summary = "memory: leaks, copy-on-write, swap, limits, OOM kills",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .all_well = all_well,
                      .table = kTable,
                      .judges_ends = true,
                      .needs_shared_files = true,
                      .needs_containers = true,
                      .watch_of_pid_s = 30};

}  // namespace dlprobe::probes::memory
