// Ranks that cannot find one another: by the numbers and the addresses that they came with, or
// because another process listens there.

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

using Came = std::vector<const StartEvent*>;  // of kMeetsAt

bool had_ended(const Run& run, const ProcessKey& key, BootNs at) {
  const ProcessExit* exit = run.find_exit(key);
  return exit != nullptr && exit->at < at;
}

// The process that failed, and its siblings that came to the meeting of as many ranks while it
// waited there; of each what it said last.
Came came_with(const Run& run, const StartEvent& failed) {
  Came came;
  const StartEvent* own = nullptr;
  const ProcessInfo* process = run.find_process(failed.process);
  for (const StartEvent& event : run.start_events) {
    const ProcessInfo* other = run.find_process(event.process);
    const bool is_sibling = process != nullptr && other != nullptr && process->ppid == other->ppid;
    if (event.kind != StartEventKind::kMeetsAt || event.at > failed.at || !is_sibling) continue;
    std::erase_if(came, [&](const StartEvent* each) { return each->process == event.process; });
    came.push_back(&event);
    if (event.process == failed.process) own = &event;
  }
  if (own == nullptr) return {};
  std::erase_if(came, [&](const StartEvent* each) {
    return each->workers != own->workers || had_ended(run, each->process, own->at);
  });
  return came;
}

Message rank_number(const StartEvent& came) {
  return say("rank {} ({})", own(came.count.value_or(0)), own(came.process.pid));
}

Finding finding_of(FindingCode code, const StartEvent& failed, const StartEvent& one,
                   const StartEvent& other) {
  Finding finding = new_finding(code, Confidence::kCertain);
  finding.severity = Severity::kError;
  finding.processes = {one.process, other.process};
  for (const StartEvent* each : {&one, &other})
    finding.prove(text_fact("address", as_text(each->path), kShimSource, each->at));
  add_exception(finding, failed);
  finding.first_seen = std::max(one.at, other.at);
  finding.last_seen = failed.at;
  return finding;
}

std::optional<Finding> number_twice(const Run& run, const StartEvent& failed, const Came& came) {
  for (const StartEvent* one : came) {
    const auto other = std::ranges::find_if(came, [&](const StartEvent* each) {
      return each->process != one->process && each->path == one->path && each->count == one->count;
    });
    if (other == came.end()) continue;
    Finding finding = finding_of(FindingCode::kRankDead, failed, *one, **other);
    finding.discriminator = "number twice";
    finding.message =
        say("{} and {} both came to {} as rank {} of {}{}: no two may have one "
            "number, and another one is missing",
            describe(run, one->process), describe(run, (*other)->process), as_text(one->path),
            own(one->count.value_or(0)), own(one->workers.value_or(0)), place_of(*one));
    finding.advise(
        "Give each process a number of its own, from 0 to WORLD_SIZE - 1; torchrun does",
        {"torchrun --nproc-per-node N train.py", "RANK=0 python train.py & RANK=1 python train.py"},
        "dlprobe run -- COMMAND");
    return finding;
  }
  return std::nullopt;
}

// Where a number came twice they are two jobs.
std::optional<Finding> addresses_differ(const StartEvent& failed, const Came& came) {
  const auto its = std::ranges::find(came, failed.process, &StartEvent::process);
  if (its == came.end()) return std::nullopt;
  const StartEvent& one = **its;
  std::set<int64_t> numbers;
  for (const StartEvent* each : came)
    if (!numbers.insert(each->count.value_or(-1)).second) return std::nullopt;
  const auto elsewhere =
      std::ranges::find_if(came, [&](const StartEvent* each) { return each->path != one.path; });
  if (elsewhere == came.end()) return std::nullopt;
  const bool is_first = one.count < (*elsewhere)->count;
  const StartEvent& first = is_first ? one : **elsewhere;
  const StartEvent& second = is_first ? **elsewhere : one;
  Finding finding = finding_of(FindingCode::kCollectiveMismatch, failed, first, second);
  finding.discriminator = "addresses";
  finding.message =
      say("{} came to {} and {} to {}{}: all ranks of a job have to meet at one "
          "address",
          rank_number(first), as_text(first.path), rank_number(second), as_text(second.path),
          place_of(failed));
  finding.remedies.push_back(
      {.title = "Give all ranks the same address and port: those of rank 0's machine",
       .commands = {"MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python train.py",
                    R"(init_process_group(init_method="tcp://127.0.0.1:29500", ...))"},
       .verify = "dlprobe run -- COMMAND"});
  return finding;
}

std::optional<Finding> port_taken(const Run& run, const StartEvent& failed) {
  if (failed.error_number != EADDRINUSE || !failed.count) return std::nullopt;
  Finding finding = new_finding(FindingCode::kUncaughtException, Confidence::kCertain);
  finding.severity = Severity::kError;
  finding.discriminator = "port";
  finding.processes = {failed.process};
  const OwnWords port = own(*failed.count);
  finding.message =
      say("{} could not listen at port {} for the other ranks{}: ", describe(run, failed.process),
          port, place_of(failed));
  finding.message += failed.child_pid ? say("process {} ({}) listens there", own(*failed.child_pid),
                                            as_text(failed.path))
                                      : Message("another process listens there");
  add_exception(finding, failed);
  finding.prove(text_fact("port", port, "/proc/net/tcp", failed.at));
  finding.advise("Let the job meet at a free port, or end that process",
                 {"torchrun --standalone --nproc-per-node N train.py",
                  "MASTER_PORT=29501 python train.py", "ss -ltnp 'sport = :" + port + "'"},
                 "dlprobe run -- COMMAND");
  finding.first_seen = finding.last_seen = failed.at;
  return finding;
}

}  // namespace

std::optional<Finding> failed_meeting(const Run& run) {
  for (const StartEvent* failed : events_of(run, StartEventKind::kFailed)) {
    if (failed->ended != Ended::kProcess || !failed_to_meet(run, *failed)) continue;
    const Came came = came_with(run, *failed);
    if (auto found = number_twice(run, *failed, came)) return found;
    if (auto found = addresses_differ(*failed, came)) return found;
    if (auto found = port_taken(run, *failed)) return found;
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::exits
