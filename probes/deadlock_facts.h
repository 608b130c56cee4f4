#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/model/recording.h"

namespace dlprobe {

/// A thread that did not move from the first snapshot that has its wait to the last one.
struct StuckThread {
  const ProcessSnapshot* process = nullptr;
  const ThreadSnapshot* thread = nullptr;  ///< as the last snapshot has it
  BootNs since = 0;                        ///< the snapshot in which it stood there first
};

/// What the snapshots of a run tell. Points into the recording.
struct DeadlockFacts {
  const Run* run = nullptr;
  const TreeSnapshot* last = nullptr;  ///< null: there was none
  BootNs span = 0;                     ///< from the first snapshot to the last
  std::vector<StuckThread> stuck;      ///< in the order of processes and threads

  const StuckThread* find(const ProcessKey& process, int32_t tid) const;
};

DeadlockFacts deadlock_facts(const Run& run);

/// The pid that a process calls itself by: in the innermost of its pid namespaces.
int32_t own_pid(const Run& run, const ProcessKey& key);

/// Whose thread that is, in the last snapshot; nothing if no process of the tree has it.
struct ThreadPlace {
  const ProcessSnapshot* process = nullptr;
  const ThreadSnapshot* thread = nullptr;
};
std::optional<ThreadPlace> find_thread(const DeadlockFacts& facts, int32_t tid);

/// Whether the process is a copy of another one that has not called execve since: what its parent's
/// threads held then is held for ever.
bool is_forked_copy(const Run& run, const ProcessKey& key);

/// Whether a file is the C library, by its name.
bool is_libc(std::string_view file);

/// "cv::imdecode in libopencv_imgcodecs.so.4.6" for the innermost frame that is not of libc; empty
/// if the stack has none with a name.
std::string blamed_function(const ThreadSnapshot& thread);
/// The file name of the innermost frame that is not of libc: the library that waits.
std::string blamed_library(const ThreadSnapshot& thread);

}  // namespace dlprobe
