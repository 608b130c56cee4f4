#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/finding.h"

namespace dlprobe::probes::memory {

std::vector<Remedy> remedies_for_copy_on_write(const Run& run);
/// Of a process that is a worker, or is not.
/// `run` tells whether it has a DataLoader.
std::vector<Remedy> remedies_for_leak(const Run& run, bool is_worker);
/// Of shared memory that the training process holds, or another.
std::vector<Remedy> remedies_for_shared_growth(const Run& run, bool is_trainer);
/// Of shared memory that lies in no segment of /dev/shm.
std::vector<Remedy> remedies_for_pinned_growth();
std::vector<Remedy> remedies_for_backlog(const Run& run);
std::vector<Remedy> remedies_for_swap(const Run& run);
/// `bytes`: a limit that would do.
std::vector<Remedy> remedies_for_limit(const Run& run, uint64_t bytes);

}  // namespace dlprobe::probes::memory
