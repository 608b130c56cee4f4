#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/model/descriptors.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// How many descriptors a process has open; `descriptors` is its /proc/PID/fd. In 0.4 us where the
/// kernel tells it as the size of that directory (since Linux 6.2), else by listing it.
Expected<uint64_t> count_descriptors(const Directory& descriptors);

/// The same where it takes no listing.
std::optional<uint64_t> descriptors_by_size(const Directory& descriptors);

/// Counts the descriptors of a process by what they lead to, 2 us each. `shm_devices` are the
/// st_dev of the /dev/shm that the tree sees. kInsufficient above `most`.
Expected<FdKinds> read_fd_kinds(const Directory& descriptors, const std::set<uint64_t>& shm_devices,
                                size_t most);

/// What the newest descriptors of a process (those of the highest numbers) lead to, by groups;
/// about 4 us each. `process` is its /proc/PID. `at` and `key` are left to the caller.
Expected<FdLook> look_at_descriptors(const Directory& process,
                                     const std::set<uint64_t>& shm_devices);

/// The name of the group that a descriptor belongs to, by what /proc/PID/fd/N says: of a tensor its
/// creator's ("/dev/shm/torch_42_*"), of another file its path, of what has no path its kind.
std::string group_name(FdKind kind, std::string_view link);

}  // namespace dlprobe
