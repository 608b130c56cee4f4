#pragma once

#include <cstdint>
#include <string>

#include "lib/base/error.h"
#include "lib/base/own_words.h"
#include "lib/model/ids.h"
#include "lib/os/job_rank.h"
#include "lib/os/machine.h"
#include "lib/session/refusal.h"

namespace dlprobe {

/// A process id that a person typed. kInvalid, with what is wrong, for anything but a positive
/// number that a pid can be.
Expected<int32_t> parse_pid(const std::string& text);

/// The live process tree that a person means by a process id.
struct Target {
  ProcessKey key;      ///< of the trainer, or of the process that was named if it is no part of one
  OwnWords reason;     ///< why this one; never empty
  std::string notice;  ///< what the user should be told beforehand; may be empty
};

/// How far find_target goes from what was named.
enum class Climb { kToTrainer, kStay };

/// Finds it: a thread's id stands for its process, a worker for its trainer. kVanished: there is no
/// such process, or it is a zombie. kInvalid: dlprobe itself, a thread of the kernel. kForbidden:
/// this user may not look into it; the message says what would help.
Expected<Target> find_target(const Machine& machine, int32_t pid, Climb climb = Climb::kToTrainer);

/// A process of the scheduler's job that dlprobe itself belongs to by `environment` (JobFacts), one
/// of its ranks on this machine: none of dlprobe's own step. kInvalid: dlprobe is part of no job.
/// kVanished: no rank of it is here.
Expected<int32_t> find_rank_of_own_job(const Machine& machine,
                                       const EnvironmentLookup& environment);

/// What an error of find_target refuses.
Refusal::Kind kind_of_refused_target(const Error& error);

}  // namespace dlprobe
