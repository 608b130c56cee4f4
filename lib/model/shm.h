#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// A mount of /dev/shm as one mount namespace has it. Two namespaces may share one (same `device`).
struct ShmMount {
  uint64_t device = 0;           ///< st_dev: the identity of the file system
  uint64_t mount_namespace = 0;  ///< 0 where it could not be read
  ProcessKey seen_through;       ///< the process whose root was used; its own pid 0: dlprobe's own
  std::string mount_point;       ///< "/dev/shm"
  std::string fs_type;           ///< "tmpfs"; anything else is a fact worth telling
  std::string options;           ///< super options of mountinfo: "rw,size=65536k"
  bool operator==(const ShmMount&) const = default;
};

/// statvfs of a /dev/shm at one moment. `size_bytes` 0 is "no limit" (tmpfs with size=0).
struct ShmUse {
  BootNs at = 0;
  uint64_t device = 0;
  uint64_t size_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t inodes = 0;  ///< 0: no limit
  uint64_t inodes_used = 0;
  bool operator==(const ShmUse&) const = default;
};

/// What made a file in /dev/shm, by its name and its header.
enum class SegmentKind {
  kTorchTensor,      ///< torch_PID_RANDOM_COUNTER (also what the reference loader makes)
  kPythonSemaphore,  ///< sem.mp-XXXXXXXX of multiprocessing, unnamed after a fork
  kSemaphore,        ///< any other sem.*
  kPythonShared,     ///< psm_* of multiprocessing.shared_memory
  kOther,
};
std::string_view to_string(SegmentKind kind);  ///< "torch-tensor" ...
SegmentKind segment_kind_from_string(std::string_view name);

/// Whether the process whose pid stands in a file's name is alive.
enum class CreatorState {
  kNone,     ///< the name holds no pid
  kAlive,    ///< a process with that pid sees this mount
  kDead,     ///< no process with that pid sees this mount, and every process could be looked at
  kUnknown,  ///< cannot be told: another pid namespace, or a process that cannot be read
};
std::string_view to_string(CreatorState state);
CreatorState creator_state_from_string(std::string_view name);

/// A process that keeps a segment alive.
struct SegmentHolder {
  ProcessKey key;
  std::string comm;      ///< hostile text
  bool in_tree = false;  ///< belongs to the subject
  int32_t fds = 0;       ///< descriptors open on it
  int32_t maps = 0;      ///< mappings of it
  bool operator==(const SegmentHolder&) const = default;
};

/// One file of a /dev/shm mount: named, or unlinked and still open or mapped.
struct ShmSegment {
  uint64_t inode = 0;
  std::optional<std::string> name;  ///< as linked now, or as the kernel remembers it; hostile text
  bool linked = true;
  SegmentKind kind = SegmentKind::kOther;
  uint64_t size_bytes = 0;  ///< st_size; of a mapping alone: its length
  Observed<uint64_t> allocated_bytes = failure(ErrorCode::kInsufficient, "not read");
  uint32_t uid = 0;
  int64_t modified_ns = 0;             ///< st_mtime, CLOCK_REALTIME
  std::optional<int32_t> creator_pid;  ///< from the name: in the creator's pid namespace
  CreatorState creator = CreatorState::kNone;
  std::vector<SegmentHolder> holders;  ///< in pid order
  bool operator==(const ShmSegment&) const = default;
};

/// Where the shm went: used = named + unlinked_open + unlinked_mapped + unexplained.
///
/// `segments` is the whole list, or the largest ones with the rest in `omitted_*` on a crowded
/// mount.
struct ShmLedger {
  BootNs at = 0;
  uint64_t device = 0;
  bool whole_machine =
      false;  ///< every process was looked at; else the subject, and who held something
  /// Processes of other pid namespaces, which may use the same mount (docker --ipc=host, the
  /// containers of a pod), are out of sight.
  bool hides_pids = false;
  uint64_t used_bytes = 0;  ///< statvfs, in the middle of the scan
  uint64_t named_bytes = 0;
  uint64_t unlinked_open_bytes = 0;    ///< no name, at least one descriptor
  uint64_t unlinked_mapped_bytes = 0;  ///< no name, no descriptor, at least one mapping
  int64_t unexplained_bytes = 0;       ///< may be negative: files changed during the scan
  std::vector<ShmSegment> segments;    ///< by inode
  uint64_t omitted_segments = 0;
  uint64_t omitted_bytes = 0;
  uint64_t processes_scanned = 0;
  uint64_t processes_unreadable = 0;  ///< their descriptors or mappings are part of "unexplained"
  bool operator==(const ShmLedger&) const = default;
};

}  // namespace dlprobe
