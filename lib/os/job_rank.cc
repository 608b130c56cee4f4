#include "lib/os/job_rank.h"

#include <algorithm>
#include <array>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

/// The variables of one launcher; "": it has none for that.
struct Launcher {
  std::string_view rank;
  std::string_view world_size;
  std::string_view local_world_size;
  std::string_view job;                 ///< its name, or the host at which its ranks meet
  std::string_view job_part;            ///< the second half of it: a port, a step
  std::string_view first_node_if_zero;  ///< what `rank` counts is the node's own
  bool needs_number_as_part = false;    ///< a process without one is no rank
};
constexpr auto kLaunchers = std::to_array<Launcher>({
    {"RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", ""},
    {"LOCAL_RANK", "WORLD_SIZE", "", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE",
     "", ""},
    {"PMIX_RANK", "", "", "PMIX_NAMESPACE", "", ""},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS", "PMI_PORT", "", ""},
    // A batch script and what it starts without srun have SLURM_PROCID=0, too: they are in no step.
    {"SLURM_PROCID", "SLURM_NTASKS", "", "SLURM_JOB_ID", "SLURM_STEP_ID", "", true},
});

/// No job has as many ranks; whoever sets a variable to more makes nobody count so far.
constexpr int32_t kMostRanks = 1 << 20;

std::optional<int32_t> number(const EnvironmentLookup& environment, std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto value = environment(name);
  if (!value) return std::nullopt;
  const std::optional<int32_t> parsed = parse_int<int32_t>(*value);
  const bool is_one = parsed.value_or(-1) >= 0 && parsed.value_or(0) <= kMostRanks;
  return is_one ? parsed : std::nullopt;
}

std::optional<JobRank> rank_by(const Launcher& launcher, const EnvironmentLookup& environment) {
  const auto rank = number(environment, launcher.rank);
  if (!rank) return std::nullopt;
  if (!launcher.first_node_if_zero.empty() &&
      number(environment, launcher.first_node_if_zero) != 0) {
    return std::nullopt;
  }
  JobRank found{.rank = *rank, .source = std::string(launcher.rank)};
  found.world_size = number(environment, launcher.world_size);
  // A size that is none leaves open which job that is.
  if (!found.world_size && !launcher.world_size.empty() && environment(launcher.world_size))
    return std::nullopt;
  if (found.world_size && *found.world_size <= *rank) return std::nullopt;
  found.local_world_size = number(environment, launcher.local_world_size);
  found.job = environment(launcher.job).value_or("");
  if (launcher.needs_number_as_part && !number(environment, launcher.job_part)) return std::nullopt;
  const auto part = launcher.job_part.empty() ? std::nullopt : environment(launcher.job_part);
  if (part) found.job += ":" + *part;
  return found;
}

}  // namespace

std::optional<JobRank> job_rank_of(const EnvironmentLookup& environment) {
  for (const Launcher& launcher : kLaunchers)
    if (auto found = rank_by(launcher, environment)) return found;
  return std::nullopt;
}

EnvironmentLookup variables_of(std::string_view environ) {
  return [environ](std::string_view name) -> std::optional<std::string> {
    for (const std::string_view entry : split(environ, '\0')) {
      if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=')
        return std::string(entry.substr(name.size() + 1));
    }
    return std::nullopt;
  };
}

std::optional<JobRank> job_rank_of(std::string_view environ) {
  return job_rank_of(variables_of(environ));
}

bool tells_job_rank(std::string_view entry) {
  const std::string_view name = entry.substr(0, entry.find('='));
  return !name.empty() && std::ranges::any_of(kLaunchers, [name](const Launcher& each) {
    return name == each.rank || name == each.world_size || name == each.local_world_size ||
           name == each.job || name == each.job_part || name == each.first_node_if_zero;
  });
}

}  // namespace dlprobe
