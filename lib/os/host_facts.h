#pragma once

#include <string>
#include <vector>

#include "lib/model/recording.h"
#include "lib/os/job_rank.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// What schedulers and launchers tell a process of its place. Empty: not told.
struct JobFacts {
  std::string node;    ///< SLURMD_NODENAME; NODE_NAME as Kubernetes' downward API is used to set it
  std::string job_id;  ///< of Slurm, PBS, LSF, Grid Engine; the run id of torchrun
  std::string rank;    ///< see job_rank_of
};
JobFacts read_job_facts(const EnvironmentLookup& environment);

/// Whether dlprobe is in the pid namespace that the kernel began with, which sees every process.
bool is_in_first_pid_namespace(const Directory& root);

/// The numbers of the CPUs that dlprobe may use; none: not known.
std::vector<int> usable_cpus();

/// The numbers of the CPUs of the machine that run.
Expected<std::vector<int>> online_cpus(const Directory& root);

/// What is known of this machine: uname, os-release, CPUs that dlprobe may use, page size, and in
/// what kind of container it runs, by what the kernel and the container runtime show. A field that
/// could not be read is empty.
HostFacts read_host_facts(const Machine& machine, const EnvironmentLookup& environment);

}  // namespace dlprobe
