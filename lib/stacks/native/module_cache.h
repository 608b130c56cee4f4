#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/error.h"
#include "lib/os/file_system.h"
#include "lib/proc/maps.h"
#include "lib/stacks/native/elf_file.h"

namespace dlprobe {

/// The ELF files that the processes of a tree have mapped, each opened and read once.
class ModuleCache {
 public:
  /// The file behind `mapping` of the process whose /proc directory it is; by the process's own
  /// root, so that files of a container are found, and by map_files where the path leads to another
  /// file now (deleted, replaced). The reason is kept, too: a file is tried once. Opening may wait
  /// for a slow file system: run it by DeadlineReader. "[vdso]" is the kernel's: dlprobe's own.
  const Expected<std::shared_ptr<const ElfFile>>& file_of(const Directory& process,
                                                          const Mapping& mapping);

 private:
  using Id = std::pair<uint64_t, uint64_t>;  // device, inode
  std::map<Id, Expected<std::shared_ptr<const ElfFile>>> files_;
  std::optional<Expected<std::shared_ptr<const ElfFile>>> vdso_;
};

}  // namespace dlprobe
