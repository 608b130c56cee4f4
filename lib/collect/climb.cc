#include "lib/collect/climb.h"

#include <utility>

#include "lib/collect/tracked_process.h"
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

void compare_layout(Candidate& child, const Candidate& parent) {
  child.facts.forked_without_exec =
      forked_without_exec(child.process.last_stat, parent.process.last_stat);
}

}  // namespace

Expected<ClimbResult> climb_to_trainer(const Machine& machine, int32_t pid) {
  DeadlineReader reader;
  DLP_TRY(Candidate current, look_at(machine, pid, reader));
  if (is_kernel_thread(current.process.last_stat)) {
    return failure(ErrorCode::kInvalid,
                   "process " + std::to_string(pid) + " is a thread of the kernel");
  }
  std::string reason;
  for (int step = 0; step < kMostSteps; ++step) {
    const int32_t parent_pid = current.process.last_stat.ppid;
    if (parent_pid <= 1) break;
    auto parent = look_at(machine, parent_pid, reader);
    if (!parent) break;
    compare_layout(current, *parent);
    const auto why = belongs_to_parent(current.facts, parent->facts);
    if (!why) break;
    if (!reason.empty()) reason += "; ";
    reason += "process " + std::to_string(current.process.key.pid) +
              " is a part of the loader of process " + std::to_string(parent_pid) + " (" + *why +
              ")";
    current = std::move(*parent);
  }
  if (reason.empty()) reason = "process " + std::to_string(pid) + " is no part of another's loader";
  return ClimbResult{.key = current.process.key, .reason = std::move(reason)};
}

}  // namespace dlprobe
