#pragma once

#include <cstdint>
#include <set>
#include <string_view>

namespace dlprobe {

/// The inodes of the files that have a lock of flock(2) or fcntl(2), by /proc/locks (Linux
/// fs/locks.c): "1: POSIX  ADVISORY  WRITE 4711 fe:00:2483149 0 EOF". Who only waits for one has a
/// line with "->". Lines of another form are left out.
std::set<uint64_t> parse_file_locks(std::string_view text);

}  // namespace dlprobe
