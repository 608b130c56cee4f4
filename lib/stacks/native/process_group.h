#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/process.h"
#include "lib/model/snapshot.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"
#include "lib/stacks/native/symbol_source.h"

namespace dlprobe {

/// A process group of torch.distributed that a process is a member of, as its C++ object has it
/// (c10d::ProcessGroupGloo, c10d::ProcessGroupNCCL; of torch 1.13 and of 2.x).
struct ProcessGroup {
  std::string_view type;            ///< "c10d::ProcessGroupNCCL"
  std::optional<std::string> name;  ///< hostile text; nothing: torch 1.13, which gives them none
  int32_t rank = 0;
  int32_t size = 0;
  uint64_t status = 0;  ///< address of its c10d::ProcessGroupStatus; 0: none (older torch)
};

/// The groups of a process. Their objects are found on the stacks of the threads that carry out
/// their operations, or in what these threads belong to: each begins with the vtable of its class.
/// `stacks` are stack pointers of all threads but the main one.
std::vector<ProcessGroup> find_process_groups(const Memory& memory, const AddressSpace& space,
                                              SymbolSource& symbols,
                                              const std::vector<uint64_t>& stacks);

/// For a program that gives its rank to init_process_group, where no launcher's variable tells it.
/// Nothing where none is found, or where it may be a group of only some of the ranks.
std::optional<JobRank> rank_of_default_group(const std::vector<ProcessGroup>& groups,
                                             const AddressSpace& space);

/// How far the process is in each of these groups now, by name. NCCL's watchdog writes the number
/// of the last one that is complete every 100 ms (torch 2.11).
std::vector<FlightGroup> progress_of(const Memory& memory, const std::vector<ProcessGroup>& groups);

}  // namespace dlprobe
