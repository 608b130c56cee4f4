#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "lib/base/error.h"
#include "lib/collect/snapshot/kept_looks.h"
#include "lib/collect/snapshot/python_look.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/os/machine.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/schedstat.h"
#include "lib/proc/syscall_file.h"
#include "lib/stacks/native/address_space.h"
#include "lib/stacks/native/memory.h"

namespace dlprobe {

/// One process as a snapshot looks at it: what the looks at its threads share.
struct ProcessImage {
  /// What is given by reference must outlive it.
  ProcessImage(const Machine& on, const SnapshotTarget& looked_at, KeptLooks& keeps);
  ~ProcessImage() = default;
  ProcessImage(const ProcessImage&) = delete;
  ProcessImage& operator=(const ProcessImage&) = delete;

  /// Reads what is the same for all threads. What may not be read is `forbidden`, no error.
  Status open();

  const Machine& machine;
  SnapshotTarget target;
  KeptLooks& kept;
  int32_t main_thread;  ///< a thread that still has the memory of the process
  std::shared_ptr<const Directory> directory;  ///< the /proc directory of main_thread
  PidStatus status;
  ProcessMemory memory;
  AddressSpace space{{}};
  PythonLook python;
  std::optional<Error> forbidden;  ///< a right to look into it is missing
};

/// What was seen of the threads of a process so far, by tid.
struct SeenThreads {
  std::set<int32_t> to_stop;  ///< those whose stacks can be had in no other way
  std::map<int32_t, uint64_t> stack_pointers;
  std::map<int32_t, SyscallFile> calls;                ///< of blocked threads
  std::map<int32_t, std::optional<SchedStat>> slices;  ///< before its look
};

}  // namespace dlprobe
