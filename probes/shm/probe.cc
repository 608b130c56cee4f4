#include "probes/probe.h"

#include <algorithm>
#include <array>

#include "probes/facts/facts.h"
#include "probes/facts/seen.h"
#include "probes/shm/facts.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

// Whatever failed is a consequence of what took the space.
void mark_consequence(std::optional<Finding>& finding, const std::optional<Blame>& blame) {
  if (finding && blame) finding->consequence_of = blame->code;
}

std::optional<Finding> what_failed(const Facts& facts, const std::optional<Shortage>& observed) {
  if (!observed) return std::nullopt;
  const std::optional<LoaderStall> stall = find_stall(facts);
  const bool lost = stall && observed->how == Shortage::How::kReservation;
  return lost ? batch_lost(facts, *observed, *stall) : exhausted(facts, *observed);
}

// Files of the job's own that stay: of dead workers, of its own end, or more and more of them. The
// last may be why there was no room, unless somebody is to blame for that.
std::optional<Finding> find_leak(const Facts& facts, const Blame* blame,
                                 const std::optional<Shortage>& observed,
                                 std::optional<Finding>& failure) {
  Finding* failed = failure ? &*failure : nullptr;
  auto leaked = leak(facts, blame, observed ? &*observed : nullptr, failed);
  if (leaked || blame != nullptr) return leaked;
  if (failed == nullptr) leaked = left_at_end(facts);
  if (!leaked) leaked = growing_files(facts, failed);
  return leaked;
}

Verdict examine_run(const RunCase& one) {
  const Run& run = one.run;
  const Facts facts = facts_of(one.recording.header, run);
  Verdict verdict;
  verdict.gaps = gaps_of(facts);
  if (facts.mount == nullptr) return verdict;

  const std::optional<Shortage> observed = observed_shortage(facts);
  const std::optional<Shortage> foretold = foretold_shortage(facts);
  const std::optional<Shortage>& shortage = observed ? observed : foretold;
  const std::optional<Blame> blame =
      shortage ? blame_for(facts, *shortage) : std::optional<Blame>();
  const Blame* cause = blame ? &*blame : nullptr;

  std::optional<Finding> failure = what_failed(facts, observed);
  mark_consequence(failure, blame);

  // What was to be known beforehand is the cause of what then happened.
  std::optional<Finding> forecast;
  const bool never_fits = foretold && foretold->wanted_bytes > foretold->use.size_bytes;
  if (cause == nullptr && (!observed || never_fits)) {
    forecast = too_small(facts, foretold ? &*foretold : nullptr);
    if (failure && forecast) failure->consequence_of = forecast->code;
  }

  const Finding* failed = failure ? &*failure : nullptr;
  add(verdict.findings, held_by_another_job(facts, cause));
  std::optional<Finding> leaked = find_leak(facts, cause, observed, failure);
  add(verdict.findings, stale_files(facts, cause, failed, leaked ? &*leaked : nullptr));
  add(verdict.findings, std::move(leaked));
  add(verdict.findings, std::move(forecast));
  add(verdict.findings, std::move(failure));
  add(verdict.findings, inodes_exhausted(facts));
  add(verdict.findings, leaked_semaphores(facts));
  add(verdict.findings, epoch_end_delayed(facts));
  if (!has_error(verdict.findings)) {
    if (std::optional<Gap> limit = limit_of_short_watch(run)) verdict.limits.push_back(*limit);
  }
  return verdict;
}

constexpr auto kTable = ReportTable::kSharedMemory;
constexpr std::array<Cause, 9> kCauses = {{
    {FindingCode::kShmTooSmall, saw_shm_use, kTable},
    {FindingCode::kShmExhausted, saw_shm_use, kTable},
    {FindingCode::kShmStaleFiles, saw_shm_files, kTable},
    {FindingCode::kShmLeak, saw_shm_files, kTable},
    {FindingCode::kShmHeldByAnotherJob, saw_shm_files, kTable},
    {FindingCode::kBatchLostInWorker, saw_shm_use, kTable},
    {FindingCode::kLeakedSemaphores, saw_shm_files, kTable},
    {FindingCode::kShmInodesExhausted, saw_shm_use, kTable},
    {FindingCode::kEpochEndDelayed, saw_spawned_workers_end},
}};

}  // namespace

const Probe kProbe = {.name = "shm",
                      .summary = "shared memory: too small, full, leaked, or held by others",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .table = kTable,
                      .needs_shared_files = true,
                      .ends_when_found = true};

}  // namespace dlprobe::probes::shm
