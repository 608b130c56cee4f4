#pragma once

#include <cstdint>

#include "lib/base/error.h"

namespace dlprobe {

/// A tmpfs on /dev/shm.
struct PrivateShm {
  uint64_t size_bytes = 0;
  uint64_t inodes = 0;  ///< 0: no limit
};

/// Gives this process, and those that it starts from now on, a mount namespace of its own with a
/// new, empty tmpfs on /dev/shm. All other mounts stay as they are, and what is mounted outside
/// later is seen inside; the last process takes the tmpfs with it.
///
/// Without CAP_SYS_ADMIN it is done in a user namespace in which the user keeps the user id and the
/// group id. To be called while this process has one thread (a user namespace wants that). The
/// parent-death signal is lost in a user namespace: ask for it afterwards. Errors say what would be
/// needed.
Status enter_private_shm(const PrivateShm& shm);

}  // namespace dlprobe
