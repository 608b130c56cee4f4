// DLP0704 uneven-data, of a job that failed by it.

#include <algorithm>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

// "/usr/lib/.../torch/distributed/distributed_c10d.py:1437 all_reduce" -> "all_reduce"; empty: it
// was raised elsewhere.
std::string collective_of(const StartEvent& event) {
  const size_t colon = event.raised_in.rfind(':');
  const size_t space = event.raised_in.rfind(' ');
  if (colon == std::string::npos || space == std::string::npos || space < colon) return "";
  const std::string file = event.raised_in.substr(0, colon);
  const bool is_it = is_of_torch(file) && file.ends_with("torch/distributed/distributed_c10d.py");
  return is_it ? event.raised_in.substr(space + 1) : "";
}

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

std::optional<Finding> rank_that_was_through(const ExitFacts& facts) {
  const Run& run = *facts.run;
  for (const StartEvent* event : events_of(run, StartEventKind::kFailed)) {
    const std::string operation = collective_of(*event);
    const ProcessInfo* failed = operation.empty() ? nullptr : run.find_process(event->process);
    if (failed == nullptr) continue;
    const Death* through = through_before(facts, *failed, event->at + kSecond / 2);
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
