#pragma once

#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/loader_job.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// The jobs of this machine that load data by worker processes, and launchers with ranks; never
/// dlprobe itself. One pass over /proc; only of Python processes, and of what was forked without
/// execve, more than their stat is read. Nothing is stopped or traced.
Expected<LoaderJobs> find_jobs(const Machine& machine);

/// Those of `jobs` that a person means by `name`: a job id, an argument of the command or the last
/// part of its path; where there is none, whatever has `name` somewhere in its command.
std::vector<LoaderJob> jobs_named(const std::vector<LoaderJob>& jobs, std::string_view name);

}  // namespace dlprobe
