#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "lib/model/process.h"

namespace dlprobe {

/// An environment variable by name. The caller decides which environment; nothing below tools/ asks
/// the process's own.
using EnvironmentLookup = std::function<std::optional<std::string>(std::string_view)>;

/// Which rank of which job an environment makes its process. Nothing where no launcher has set it,
/// or a value is no number.
///
/// By torchrun, accelerate and DeepSpeed (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR,
/// MASTER_PORT), Lightning on the first node (LOCAL_RANK, NODE_RANK), Open MPI
/// (OMPI_COMM_WORLD_RANK), PMIx, MPICH (PMI_RANK), or Slurm (SLURM_PROCID), in this order: what was
/// set by the inner launcher counts.
std::optional<JobRank> job_rank_of(const EnvironmentLookup& environment);

/// The same of /proc/PID/environ, NAME=VALUE each ended by a zero byte (proc_pid_environ(5)).
std::optional<JobRank> job_rank_of(std::string_view environ);

/// The variables of such a text, which must outlive what is returned.
EnvironmentLookup variables_of(std::string_view environ);

/// Whether an entry of an environment, NAME=VALUE, is one of those that are asked for.
bool tells_job_rank(std::string_view entry);

}  // namespace dlprobe
