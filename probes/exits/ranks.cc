// DLP0704 uneven-data, of a job that failed by it; ranks that left their job with an error.

#include <algorithm>

#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

// A process closes its connections first, and takes its time to unload libraries.
constexpr BootNs kUnloads = 3 * kSecond;

// A process that the same one has started, for the same, and that was done before.
const Death* through_before(const ExitFacts& facts, const ProcessInfo& failed, BootNs at) {
  const auto found = std::ranges::find_if(facts.deaths, [&](const Death& death) {
    return death.process->ppid == failed.ppid && death.process->role == failed.role &&
           death.process->key != failed.key && death.signal == 0 && death.exit_code == 0 &&
           death.at() <= at;
  });
  return found == facts.deaths.end() ? nullptr : &*found;
}

}  // namespace

bool is_rank_that_left(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending || death.signal != 0 || death.exit_code == 0 || death.process->role == Role::kWorker)
    return false;
  const BootNs raised_at = ending->last->at;
  if (death.at() > raised_at + kJustBefore || death.at() < raised_at - kJustBefore) return false;
  const bool has_said_why = std::ranges::any_of(facts.run->start_events, [&](const auto& event) {
    return event.process == death.process->key && event.kind == StartEventKind::kFailed;
  });
  const ProcessInfo* raiser = facts.run->find_process(ending->last->process);
  return !has_said_why && raiser != nullptr && raiser->key != death.process->key &&
         raiser->ppid == death.process->ppid && raiser->cmdline == death.process->cmdline;
}

bool failed_its_job(const ExitFacts& facts, const Death& death) {
  const auto& ending = facts.ending;
  if (!ending) return false;
  if (!collective_of(*ending->first).empty()) return is_rank_that_left(facts, death);
  const ProcessInfo* launcher = facts.run->find_process(ending->last->process);
  return ending->is_broken() && launcher != nullptr && launcher->role == Role::kLauncher &&
         launcher->key.pid == death.process->ppid && death.at() <= ending->last->at &&
         death.exit_code != 0;
}

std::optional<Finding> rank_that_was_through(const ExitFacts& facts) {
  const Run& run = *facts.run;
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    const std::string operation = collective_of(*event);
    const ProcessInfo* failed = operation.empty() ? nullptr : run.find_process(event->process);
    if (failed == nullptr) continue;
    const Death* through = through_before(facts, *failed, event->at + kUnloads);
    if (through == nullptr) continue;
    Finding finding = new_finding(FindingCode::kUnevenData, Confidence::kLikely);
    finding.discriminator = "ended";
    finding.message =
        say("{} ended with exit code 0 while {} waited for it in {}{}, which then failed",
            describe(run, through->process->key), describe(run, failed->key), as_name(operation),
            place_of(*event));
    finding.processes = {through->process->key, failed->key};
    finding.prove(text_fact("victim", describe(run, through->process->key),
                            "wait status by " + own(through->exit->source), through->exit->at));
    add_exception(finding, *event);
    finding.remedies.push_back(
        {.title = "Give every rank the same number of batches, and let no rank leave early",
         .commands = {"DistributedSampler(dataset, drop_last=True)",
                      "DataLoader(..., drop_last=True)",
                      "torch.distributed.barrier()  # at the end, on every rank"}});
    finding.first_seen = through->at();
    finding.last_seen = event->at;
    return finding;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::exits
