#pragma once

#include "lib/model/recording_view.h"

namespace dlprobe {

// What a recording has: without it nothing can be said of a cause that would show in it.

/// A look at the size and use of a /dev/shm.
bool saw_shm_use(const RecordingView& recording);
/// Whose the files in a /dev/shm are.
bool saw_shm_files(const RecordingView& recording);
/// How many descriptors a process has.
bool saw_open_files(const RecordingView& recording);
/// How many mappings a process has.
bool saw_mappings(const RecordingView& recording);
/// Processes at some moment.
bool saw_processes(const RecordingView& recording);
/// Processes for as long as a growth takes to show.
bool saw_processes_for_long(const RecordingView& recording);
/// Memory that processes share, told from what each has for itself.
bool saw_shared_pages(const RecordingView& recording);
/// The limit of the subject's memory, or the machine's memory.
bool saw_memory_limit(const RecordingView& recording);
/// Stacks and locks.
bool saw_stacks(const RecordingView& recording);
/// Which files several processes share.
bool saw_shared_files(const RecordingView& recording);
/// Stacks and locks, or that nothing needed a look at them: it moved all the time, or came to its
/// end by itself.
bool saw_progress(const RecordingView& recording);
/// The ends of the processes of a loader, or that there was none.
bool saw_ends(const RecordingView& recording);
/// Counters or messages of the OOM killer.
bool saw_oom_killer(const RecordingView& recording);
/// How processes start: what interpreters told of it, or a command under a given start method.
bool saw_starts(const RecordingView& recording);
/// The witness in an interpreter of the command.
bool saw_interpreters(const RecordingView& recording);
/// The text of the program.
bool saw_script(const RecordingView& recording);
/// What `dlprobe gate` reads of the machine.
bool saw_gate_facts(const RecordingView& recording);

}  // namespace dlprobe
