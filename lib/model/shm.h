#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/fields.h"
#include "lib/model/ids.h"

namespace dlprobe {

/// A mount of /dev/shm as one mount namespace has it. Two namespaces may share one (same `device`).
struct ShmMount {
  uint64_t device = 0;
  uint64_t mount_namespace = 0;
  ProcessKey seen_through;
  std::string mount_point;
  std::string fs_type;
  std::string options;
  bool operator==(const ShmMount&) const = default;
};
constexpr void list_fields(auto&& field, Of<ShmMount> /*of*/) {
  field("dev", &ShmMount::device, "st_dev: the identity of the file system");
  field("mnt_ns", &ShmMount::mount_namespace, "0 where it could not be read");
  field("through", &ShmMount::seen_through,
        "the process whose root was used; its own pid 0: dlprobe's own");
  field("point", &ShmMount::mount_point, R"("/dev/shm")");
  field("fs", &ShmMount::fs_type, R"("tmpfs"; anything else is a fact worth telling)");
  field("options", &ShmMount::options, R"(super options of mountinfo: "rw,size=65536k")");
}

/// statvfs of a /dev/shm at one moment. `size_bytes` 0 is "no limit" (tmpfs with size=0).
struct ShmUse {
  BootNs at = 0;
  uint64_t device = 0;
  uint64_t size_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t inodes = 0;
  uint64_t inodes_used = 0;
  bool operator==(const ShmUse&) const = default;
};
constexpr void list_fields(auto&& field, Of<ShmUse> /*of*/) {
  field("at", &ShmUse::at, "when it was asked", Unit::kMoment);
  field("dev", &ShmUse::device, "st_dev of the mount");
  field("size", &ShmUse::size_bytes, "of the file system; 0: no limit", Unit::kBytes);
  field("used", &ShmUse::used_bytes, "in use", Unit::kBytes);
  field("inodes", &ShmUse::inodes, "0: no limit");
  field("iused", &ShmUse::inodes_used, "in use");
}

/// What made a file in /dev/shm, by its name and its header.
enum class SegmentKind {
  kTorchTensor,      ///< torch_PID_RANDOM_COUNTER (also what the reference loader makes)
  kPythonSemaphore,  ///< sem.mp-XXXXXXXX of multiprocessing, unnamed after a fork
  kSemaphore,        ///< any other sem.*
  kPythonShared,     ///< psm_* of multiprocessing.shared_memory
  kOther,
};
template <>
struct Names<SegmentKind> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"torch-tensor", "python-semaphore", "semaphore", "python-shared-memory", "other"});
};

/// Whether the process whose pid stands in a file's name is alive.
enum class CreatorState {
  kNone,     ///< the name holds no pid
  kAlive,    ///< a process with that pid sees this mount
  kDead,     ///< no process with that pid sees this mount, and every process could be looked at
  kUnknown,  ///< cannot be told: another pid namespace, or a process that cannot be read
};
template <>
struct Names<CreatorState> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"none", "alive", "dead", "unknown"});
};

/// A process that keeps a segment alive.
struct SegmentHolder {
  ProcessKey key;
  std::string comm;
  bool in_tree = false;
  int32_t fds = 0;
  int32_t maps = 0;
  bool operator==(const SegmentHolder&) const = default;
};
constexpr void list_fields(auto&& field, Of<SegmentHolder> /*of*/) {
  field("key", &SegmentHolder::key, "the process");
  field("comm", &SegmentHolder::comm, "hostile text");
  field("in_tree", &SegmentHolder::in_tree, "belongs to the subject");
  field("fds", &SegmentHolder::fds, "descriptors open on it");
  field("maps", &SegmentHolder::maps, "mappings of it");
}

/// One file of a /dev/shm mount: named, or unlinked and still open or mapped.
struct ShmSegment {
  uint64_t inode = 0;
  std::optional<std::string> name;
  bool linked = true;
  SegmentKind kind = SegmentKind::kOther;
  uint64_t size_bytes = 0;
  Observed<uint64_t> allocated_bytes = failure(ErrorCode::kInsufficient, "not read");
  uint32_t uid = 0;
  int64_t modified_ns = 0;
  std::optional<int32_t> creator_pid;
  CreatorState creator = CreatorState::kNone;
  std::vector<SegmentHolder> holders;

  /// What it takes up: its allocated bytes where they were read, else its size.
  uint64_t taken_bytes() const { return allocated_bytes.value_or(size_bytes); }
  bool operator==(const ShmSegment&) const = default;
};
constexpr void list_fields(auto&& field, Of<ShmSegment> /*of*/) {
  field("ino", &ShmSegment::inode, "in its file system");
  field("name", &ShmSegment::name, "as linked now, or as the kernel remembers it; hostile text");
  field("linked", &ShmSegment::linked, "it has a name");
  field("kind", &ShmSegment::kind, "what made it");
  field("size", &ShmSegment::size_bytes, "st_size; of a mapping alone: its length", Unit::kBytes);
  field("alloc", &ShmSegment::allocated_bytes, "that it takes", Unit::kBytes);
  field("uid", &ShmSegment::uid, "its owner");
  field("mtime", &ShmSegment::modified_ns, "st_mtime, CLOCK_REALTIME", Unit::kTimeOfDay);
  field("cpid", &ShmSegment::creator_pid, "from the name: in the creator's pid namespace");
  field("creator", &ShmSegment::creator, "whether its creator lives");
  field("holders", &ShmSegment::holders, "in pid order");
}

/// Where the shm went: used = named + unlinked_open + unlinked_mapped + unexplained.
///
/// `segments` is the whole list, or the largest ones with the rest in `omitted_*` on a crowded
/// mount.
struct ShmLedger {
  BootNs at = 0;
  uint64_t device = 0;
  bool whole_machine = false;
  bool hides_pids = false;
  uint64_t used_bytes = 0;
  uint64_t named_bytes = 0;
  uint64_t unlinked_open_bytes = 0;
  uint64_t unlinked_mapped_bytes = 0;
  int64_t unexplained_bytes = 0;
  std::vector<ShmSegment> segments;
  uint64_t omitted_segments = 0;
  uint64_t omitted_bytes = 0;
  uint64_t processes_scanned = 0;
  uint64_t processes_unreadable = 0;
  bool operator==(const ShmLedger&) const = default;
};
constexpr void list_fields(auto&& field, Of<ShmLedger> /*of*/) {
  field("at", &ShmLedger::at, "when it was made", Unit::kMoment);
  field("dev", &ShmLedger::device, "st_dev of the mount");
  field("all", &ShmLedger::whole_machine,
        "every process was looked at; else the subject, and who held something");
  field("hides_pids", &ShmLedger::hides_pids,
        "Processes of other pid namespaces, which may use the same mount (docker --ipc=host, the "
        "containers of a pod), are out of sight");
  field("used", &ShmLedger::used_bytes, "statvfs, in the middle of the scan", Unit::kBytes);
  field("named", &ShmLedger::named_bytes, "of files with a name", Unit::kBytes);
  field("open", &ShmLedger::unlinked_open_bytes, "no name, at least one descriptor", Unit::kBytes);
  field("mapped", &ShmLedger::unlinked_mapped_bytes, "no name, no descriptor, at least one mapping",
        Unit::kBytes);
  field("unexplained", &ShmLedger::unexplained_bytes,
        "may be negative: files changed during the scan", Unit::kBytes);
  field("segments", &ShmLedger::segments, "by inode");
  field("omitted", &ShmLedger::omitted_segments, "files that are not listed");
  field("omitted_bytes", &ShmLedger::omitted_bytes, "that these take", Unit::kBytes);
  field("scanned", &ShmLedger::processes_scanned, "processes that were looked at");
  field("unreadable", &ShmLedger::processes_unreadable,
        R"(their descriptors or mappings are part of "unexplained")");
}

}  // namespace dlprobe
