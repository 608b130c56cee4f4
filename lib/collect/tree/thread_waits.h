#pragma once

#include <vector>

#include "lib/model/process.h"
#include "lib/os/machine.h"
#include "lib/proc/syscall_file.h"

namespace dlprobe {

/// One thread of a process.
struct ProcessThread {
  int32_t pid = 0;
  int32_t tid = 0;
};

/// The threads of a process, its main thread `pid` first, then by number; at most `limit` of them.
Observed<std::vector<int32_t>> list_threads(const Directory& process, int32_t pid, size_t limit);

/// The thread by which a process's memory, program and root are reached: its main thread, or where
/// that has ended (pthread_exit in main) one of the others.
int32_t image_thread(const Directory& process, int32_t pid);

/// Where one thread is, from its syscall file, with the files that it waits on. May wait for the
/// target's mmap lock.
ThreadWait describe_wait(const ProcessAccess& processes, const Directory& process,
                         const ProcessThread& thread, const SyscallFile& call);

/// Where the threads of a process are in the kernel, its main thread first, at most `limit` of
/// them, with the files that they wait on. May wait for the target's mmap lock: run it by
/// DeadlineReader.
Observed<std::vector<ThreadWait>> read_thread_waits(const ProcessAccess& processes,
                                                    const Directory& process, int32_t pid,
                                                    size_t limit);

}  // namespace dlprobe
