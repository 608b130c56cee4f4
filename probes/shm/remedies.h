#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/finding.h"
#include "probes/shm/facts.h"

namespace dlprobe::probes::shm {

/// Allows `inodes` files in the mount, as it is done where the subject runs.
Remedy remedy_for_inodes(const Facts& facts, uint64_t inodes);

/// A size to ask for so that `needed_bytes` fit with a quarter to spare, in steps that a person
/// would choose: 64 MiB below 1 GiB, 256 MiB below 8 GiB, then 1 GiB.
uint64_t comfortable_size(uint64_t needed_bytes);

/// A size as mount, docker and Slurm take it: "320m", "2g".
OwnWords size_option(uint64_t bytes);

/// Ways to a /dev/shm of that size, the one for where the subject runs first.
std::vector<Remedy> remedies_for_size(const Facts& facts, uint64_t size_bytes);

/// The settings of the loader that would fit into the mount as it is; nothing where no batch fits.
std::vector<Remedy> remedies_in_code(const Facts& facts, const Demand& demand);

/// How to remove files that nobody has open: those whose makers are dead, and, by a remedy that
/// says so, those that nobody can be named for. Names are hostile text: an odd one goes by inode
/// number.
std::vector<Remedy> remedies_remove(const Facts& facts,
                                    const std::vector<const ShmSegment*>& segments);

/// How to look at who holds what.
Remedy remedy_look(const Facts& facts);

}  // namespace dlprobe::probes::shm
