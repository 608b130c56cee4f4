#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/collect/shm/mounts.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/model/recording.h"
#include "lib/os/directory_watch.h"

namespace dlprobe {

/// Finds tensors for which no room could be reserved in one /dev/shm.
///
/// torch 2.9 and later make a segment by open(O_CREAT|O_EXCL), ftruncate, posix_fallocate, mmap,
/// close or unlink. Where posix_fallocate fails (strace of torch 2.13: ENOSPC), torch throws
/// without closing, mapping or unlinking: the file keeps its name and its full length, has not one
/// block, and its creator has it open but not mapped, until it ends. Under file_descriptor the file
/// then stays for ever; under file_system torch_shm_manager unlinks it 2 s after the creator's end.
/// A healthy segment never looks like that for longer than the call takes. These facts of the
/// kernel are the proof; no message is read.
class SegmentWatch {
 public:
  /// `mount` must stay pinned as long as it is watched.
  SegmentWatch(Machine machine, const WatchedMount& mount);

  /// Looks at segments made since the last call, and at those not yet decided. `free_bytes`: the
  /// least that was free in the mount since the last call. Names found otherwise (the ledger) may
  /// be given with add().
  void check(const ProcessTree& tree, DeadlineReader& reader, uint64_t free_bytes);
  void add(const std::string& name, uint64_t free_bytes);

  /// What was found since the last call.
  std::vector<Event> take_events() { return std::exchange(events_, {}); }
  std::optional<Gap> take_gap() { return std::exchange(gap_, std::nullopt); }
  /// Whether anything was made in the mount since the last call.
  bool take_activity() { return std::exchange(active_, false); }

 private:
  struct Pending {
    std::string name;
    BootNs since = 0;
    uint64_t free_bytes = 0;  ///< the least, about when it was made
  };
  enum class Answer { kWait, kFine, kFailed };

  void take_news(uint64_t free_bytes);
  Answer judge(const Pending& pending, const ProcessTree& tree, DeadlineReader& reader);
  Answer judge_living(const TrackedProcess& creator, uint64_t inode, DeadlineReader& reader) const;
  bool held_in_tree(const ProcessTree& tree, uint64_t inode, DeadlineReader& reader) const;
  void report(const Pending& pending, const FileStat& stat, const ProcessKey& creator, bool alive);

  Machine machine_;
  std::shared_ptr<const Directory> directory_;
  uint64_t device_;
  std::optional<DirectoryWatch> watch_;
  std::deque<Pending> pending_;
  std::set<uint64_t> reported_;  ///< inodes
  std::vector<Event> events_;
  std::optional<Gap> gap_;
  bool active_ = false;
  BootNs rate_since_ = 0;
  uint64_t rate_count_ = 0;
};

}  // namespace dlprobe
