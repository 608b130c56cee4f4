#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/model/process.h"

namespace dlprobe {

/// What a role is told by: facts of the kernel, nothing that a script chooses to print or to be
/// called.
struct RoleFacts {
  ProcessKey key;
  std::optional<ProcessKey> parent;  ///< when it was first seen; stays after it was orphaned
  std::string comm;
  std::vector<std::string> cmdline;
  std::string exe_name;         ///< without its folder; empty if it could not be read
  uint64_t signals_caught = 0;  ///< SigCgt
  /// Whether it was forked from its parent and has not called execve since (same address layout);
  /// nothing where that cannot be read.
  std::optional<bool> forked_without_exec;
  bool orphaned = false;  ///< forked, and whoever forked it has ended
  std::optional<JobRank> rank;
};

/// Whether its program is a Python interpreter.
bool is_python(const RoleFacts& facts);

/// A data worker of torch that whoever forked it has left behind.
bool is_orphaned_worker(const RoleFacts& facts);

/// Whether one of that role takes part in a loader: its waits and descriptors tell something.
bool takes_part(Role role);

struct RoleAnswer {
  Role role = Role::kOther;
  std::string basis;  ///< for a person: how the role was known
  std::optional<StartMethod> start_method;

  bool operator==(const RoleAnswer&) const = default;
};

/// The role of every process of a tree, in the order of `facts`; `root` is what is watched.
///
/// The trainer is the process whose children are workers; of a distributed job the topmost Python
/// process of each rank. A worker is known by torch's signal
/// handlers (SIGBUS, SIGSEGV, SIGFPE and SIGTERM caught: torch/csrc/DataLoader.cpp), by the thread
/// name pt_data_worker (torch 2.4+), by CPython's command lines (multiprocessing/spawn.py,
/// forkserver.py, resource_tracker.py), or by being forked from a Python process without execve.
std::vector<RoleAnswer> assign_roles(std::span<const RoleFacts> facts, const ProcessKey& root);

/// A process that is a part of its parent's loader.
struct LoaderPart {
  Role role = Role::kOther;  ///< kWorker, kForkserver, kResourceTracker or kShmManager
  bool certain = true;       ///< false: a worker of multiprocessing that need not be a data worker
  std::string basis;
};

/// Whether `facts` is a part of a loader that belongs to `parent`; nothing if it is not.
std::optional<LoaderPart> belongs_to_parent(const RoleFacts& facts, const RoleFacts& parent);

}  // namespace dlprobe
