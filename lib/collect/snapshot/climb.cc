#include "lib/collect/snapshot/climb.h"

#include <utility>

#include "lib/base/parse.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/os/deadline.h"

namespace dlprobe {
namespace {

/// Of a forked child nested in forked children ...: no real tree is so deep.
constexpr int kMostSteps = 64;

struct Candidate {
  TrackedProcess process;
  RoleFacts facts;
};

Expected<Candidate> look_at(const Machine& machine, int32_t pid, DeadlineReader& reader) {
  DLP_TRY(TrackedProcess process, open_process(machine, pid));
  std::vector<Error> errors;
  read_info(process, reader, errors);
  RoleFacts facts = process.facts;
  return Candidate{.process = std::move(process), .facts = std::move(facts)};
}

std::optional<LoaderPart> part_of(Candidate& child, const Candidate& parent) {
  child.facts.forked_without_exec =
      forked_without_exec(child.process.last_stat, parent.process.last_stat);
  return belongs_to_parent(child.facts, parent.facts);
}

/// Whether one of its children is a data worker for certain: then it is the trainer, even if it was
/// itself started by multiprocessing (a rank of a distributed job).
bool has_data_workers(const Machine& machine, const Candidate& candidate, DeadlineReader& reader) {
  const Directory& directory = *candidate.process.directory;
  for (const std::string& tid : directory.list("task").value_or(std::vector<std::string>())) {
    const std::string pids = directory.read("task/" + tid + "/children").value_or("");
    for (const std::string_view field : split_fields(trim(pids))) {
      auto child = look_at(machine, parse_int<int32_t>(field).value_or(0), reader);
      if (!child) continue;
      const auto part = part_of(*child, candidate);
      if (part && part->role == Role::kWorker && part->certain) return true;
    }
  }
  return false;
}

OwnWords describe_step(const Candidate& child, const Candidate& parent, const LoaderPart& part) {
  return "process " + own(child.process.key.pid) + " is a part of the loader of process " +
         own(parent.process.key.pid) + " (" + own(part.basis) + ")";
}

}  // namespace

Expected<ClimbResult> climb_to_trainer(const Machine& machine, int32_t pid) {
  DeadlineReader reader;
  auto asked = look_at(machine, pid, reader);
  if (!asked && asked.error().code == ErrorCode::kVanished) {
    return failure(ErrorCode::kVanished,
                   "there is no process " + std::to_string(pid) +
                       ": it has ended, or that is its pid in another pid namespace");
  }
  DLP_TRY(Candidate current, std::move(asked));
  if (is_kernel_thread(current.process.last_stat)) {
    return failure(ErrorCode::kInvalid,
                   "process " + std::to_string(pid) + " is a thread of the kernel");
  }
  OwnWords reason;
  bool from_data_worker = false;
  for (int step = 0; step < kMostSteps && current.process.last_stat.ppid > 1; ++step) {
    auto parent = look_at(machine, current.process.last_stat.ppid, reader);
    if (!parent) break;
    const auto part = part_of(current, *parent);
    if (!part) break;
    if (!part->certain && (from_data_worker || has_data_workers(machine, current, reader))) break;
    from_data_worker = from_data_worker || (part->role == Role::kWorker && part->certain);
    reason += (reason.empty() ? "" : "; ") + describe_step(current, *parent, *part);
    current = std::move(*parent);
  }
  if (reason.empty()) reason = "process " + own(pid) + " is no part of another's loader";
  return ClimbResult{.key = current.process.key, .reason = std::move(reason)};
}

}  // namespace dlprobe
