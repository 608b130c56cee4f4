#pragma once

#include <vector>

#include "lib/model/recording.h"
#include "lib/os/file_system.h"
#include "lib/stacks/native/address_space.h"

namespace dlprobe {

/// The files that a process has mapped and of which a page may have nothing behind it, which SIGBUS
/// says: an Event "mapped-file-without-room" where a page that is written first finds no room in
/// its file system, "mapped-file-cut-short" where the file ends before its mapping. /dev/shm is
/// watched for itself. `process`: its folder in /proc. Asks storage, which may not answer.
std::vector<Event> faulty_mapped_files(const Directory& process, const AddressSpace& space);
/// Where a process that is gone had a file mapped, perhaps: the file systems that a relative of it
/// sees and that are full, each an Event "file-system-without-room".
std::vector<Event> full_file_systems(const Directory& process);

}  // namespace dlprobe
