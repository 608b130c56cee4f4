// DLP0704 uneven-data, of a job that failed by it; ranks that left their job with an error.

#include <algorithm>
#include <csignal>
#include <utility>
#include <vector>

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

// Null: it was not started by a launcher.
const ProcessInfo* launcher_of(const ExitFacts& facts, const ProcessInfo& rank) {
  const auto found = std::ranges::find_if(facts.run->processes, [&](const ProcessInfo& process) {
    return process.role == Role::kLauncher && process.key.pid == rank.ppid;
  });
  return found == facts.run->processes.end() ? nullptr : &*found;
}

// As far as its sender was to be seen.
bool was_ended_by(const ExitFacts& facts, const Death& death, const ProcessInfo& launcher) {
  if (death.signal != SIGTERM && death.signal != SIGKILL) return false;
  if (death.sent == nullptr) return true;
  const ProcessInfo* sender = sender_in_tree(facts, *death.sent);
  return sender != nullptr && sender->key == launcher.key;
}

// Those that the launcher ended once that rank had left; empty: another one failed otherwise.
std::vector<const Death*> ended_for(const ExitFacts& facts, const Death& left,
                                    const ProcessInfo& launcher) {
  std::vector<const Death*> others;
  for (const Death& other : facts.deaths) {
    if (other.process->ppid != launcher.key.pid || !other.failed()) continue;
    const bool is_soon = other.at() >= left.at() && other.at() <= left.at() + kJustBefore;
    if (!is_soon || !was_ended_by(facts, other, launcher)) return {};
    others.push_back(&other);
  }
  return others;
}

// What is the same of both: the rank that ended well, and that it did.
Finding of_rank_that_ended(const Run& run, const Death& through) {
  Finding finding = new_finding(FindingCode::kUnevenData, Confidence::kLikely);
  finding.discriminator = "ended";
  finding.message = say("{} ended with exit code 0", describe(run, through.process->key));
  finding.processes = {through.process->key};
  finding.prove(text_fact("victim", describe(run, through.process->key),
                          "wait status by " + own(through.exit->source), through.exit->at));
  finding.first_seen = through.at();
  return finding;
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
    Finding finding = of_rank_that_ended(run, *through);
    finding.message += say(" while {} waited for it in {}{}, which then failed",
                           describe(run, failed->key), as_name(operation), place_of(*event));
    finding.processes.push_back(failed->key);
    add_exception(finding, *event);
    finding.remedies.push_back(
        {.title = "Give every rank the same number of batches, and let no rank leave early",
         .commands = {"DistributedSampler(dataset, drop_last=True)",
                      "DataLoader(..., drop_last=True)",
                      "torch.distributed.barrier()  # at the end, on every rank"}});
    finding.last_seen = event->at;
    return finding;
  }
  return std::nullopt;
}

std::optional<Finding> rank_that_left_its_launcher(const ExitFacts& facts) {
  const Run& run = *facts.run;
  if (!command_failed(run)) return std::nullopt;
  for (const Death& left : facts.deaths) {
    const ProcessInfo* launcher = launcher_of(facts, *left.process);
    if (launcher == nullptr || left.failed()) continue;
    const std::vector<const Death*> others = ended_for(facts, left, *launcher);
    if (others.empty()) continue;
    Finding finding = of_rank_that_ended(run, left);
    const Death& first = *others.front();
    finding.message +=
        say(" while {} ran on; {} ({}) then ended {} by {}", describe(run, first.process->key),
            describe(run, launcher->key), as_name(launcher->comm),
            others.size() == 1 ? "it" : "the others", signal_name(first.signal));
    for (const Death* other : others)
      finding.processes.push_back(other->process->key);
    for (Evidence& each : signal_evidence(facts, first))
      finding.prove(std::move(each));
    finding.remedies.push_back(
        {.title = "Let no rank leave before the others, and none without MPI_Finalize",
         .commands = {"sys.exit()  # not os._exit(), which does not finalize MPI",
                      "MPI.COMM_WORLD.Barrier()  # at the end, on every rank"},
         .verify = "dlprobe run -- COMMAND"});
    finding.last_seen = others.back()->at();
    return finding;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::exits
