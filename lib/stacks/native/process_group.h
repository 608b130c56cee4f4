#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lib/model/process.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/symbol_source.h"

namespace dlprobe {

/// The rank of a process in the default process group of torch.distributed, as its C++ object has
/// it (c10d::Backend::rank_ and size_; of torch 1.13 and of 2.x): for a program that gives its rank
/// to init_process_group, where no launcher's variable tells it.
///
/// The object is found on the stacks of the threads that carry out its operations: it is what
/// begins with the vtable of such a class. `stacks` are stack pointers of all threads but the main
/// one. Nothing where none is found, or where it may be a group of only some of the ranks.
std::optional<JobRank> read_group_rank(const Memory& memory, const AddressSpace& space,
                                       SymbolSource& symbols, const std::vector<uint64_t>& stacks);

}  // namespace dlprobe
