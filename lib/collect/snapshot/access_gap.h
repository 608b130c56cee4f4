#pragma once

#include <cstdint>

#include "lib/model/recording.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// Why dlprobe may not look into a process, as exactly as the kernel's files tell (the user, the
/// process's dumpable attribute, Yama, a missing capability), and the line that would help. `root`
/// is the machine's "/", `process` the process's /proc directory. `error` is what the kernel said.
Gap access_gap(const Directory& root, const Directory& process, int32_t pid, const Error& error);

/// Who traces it: "process 99 (gdb)".
Message describe_tracer(const Directory& root, int32_t tracer_pid);

}  // namespace dlprobe
