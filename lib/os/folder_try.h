#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/error.h"

namespace dlprobe {

enum class FolderUse { kRead, kWrite };

/// What came of using a folder.
struct FolderTry {
  std::string trouble;  ///< for people; empty: none
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> entries;  ///< of a folder that is read; counted up to `most_entries`
};

/// try_folder in a process that nobody has to wait for: a file system that does not answer keeps
/// whoever asked it in the kernel, where no signal reaches, and a process ends only with its last
/// thread. kTimeout after `limit`.
Expected<FolderTry> try_folder_within(std::chrono::nanoseconds limit, const std::string& path,
                                      FolderUse use, uint64_t most_entries);

/// Uses the folder as a job would: writes 4 KiB to a file without a name (O_TMPFILE; where the file
/// system has none, to one that is removed at once), or reads the beginning
/// of a file in it or in the folders below: the first that can be read. May block for as
/// long as the file system does.
Expected<FolderTry> try_folder(const std::string& path, FolderUse use, uint64_t most_entries);

}  // namespace dlprobe
