#include "lib/collect/shm/segment_watch.h"

#include <sys/syscall.h>

#include <algorithm>
#include <chrono>

#include "lib/base/units.h"
#include "lib/collect/shm/holdings.h"
#include "lib/collect/tree/thread_waits.h"
#include "lib/proc/shm_name.h"

namespace dlprobe {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

/// A reservation takes less than this; a file that is still empty then is looked at closely.
constexpr nanoseconds kHeaderPatience = milliseconds(100);
constexpr nanoseconds kLongest = seconds(5);  ///< then it is let go undecided
constexpr size_t kMostPending = 4096;
constexpr size_t kMostNames = 4096;  ///< taken at once
/// inotify costs the target 6 us per file: above this rate it is not worth it.
constexpr uint64_t kMostPerSecond = 1000;
constexpr size_t kMostSuspects = 64;
constexpr size_t kMostReported = 10'000;

}  // namespace

SegmentWatch::SegmentWatch(Machine machine, const WatchedMount& mount)
    : machine_(std::move(machine)), directory_(mount.directory), device_(mount.mount.device) {
  auto watch = DirectoryWatch::start(*directory_);
  if (watch) {
    watch_.emplace(std::move(*watch));
  } else if (watch.error().code != ErrorCode::kUnsupported) {
    gap_ = Gap{
        .what = "segments made in " + as_path(mount.mount.mount_point),
        .why = as_text(to_string(watch.error())),
        .effect =
            "dlprobe notices a failed allocation a second later, or not at all if it was cleaned "
            "up",
        .remedy = watch.error().code == ErrorCode::kForbidden
                      ? "run dlprobe as a user who may read the folder"
                      : "raise fs.inotify.max_user_instances and max_user_watches, and ulimit -n"};
  }
}

void SegmentWatch::take_news(uint64_t free_bytes) {
  if (!watch_) return;
  const DirectoryWatch::News news = watch_->take(kMostNames);
  for (const std::string& name : news.created)
    add(name, free_bytes);
  active_ = active_ || !news.created.empty();
  const BootNs now = machine_.clock->now();
  rate_count_ += news.created.size();
  if (now - rate_since_ < nanoseconds(seconds(1)).count()) return;
  const bool too_many = rate_count_ > kMostPerSecond || news.overflowed;
  if (too_many && rate_since_ != 0) {
    watch_.reset();
    gap_ = Gap{
        .what = "segments made in " + as_path(directory_->path()),
        .why = counted(rate_count_, "file") + " made within a second",
        .effect =
            "watching each would slow the job: dlprobe notices a failed allocation a second later"};
  }
  rate_since_ = now;
  rate_count_ = 0;
}

void SegmentWatch::add(const std::string& name, uint64_t free_bytes) {
  if (parse_shm_name(name).kind != SegmentKind::kTorchTensor || pending_.size() >= kMostPending)
    return;
  const bool known = std::ranges::any_of(
      pending_, [&name](const Pending& pending) { return pending.name == name; });
  if (known) return;
  pending_.push_back({.name = name, .since = machine_.clock->now(), .free_bytes = free_bytes});
}

void SegmentWatch::check(const ProcessTree& tree, DeadlineReader& reader, uint64_t free_bytes) {
  take_news(free_bytes);
  const BootNs now = machine_.clock->now();
  std::deque<Pending> undecided;
  for (Pending& pending : pending_) {
    const BootNs age = now - pending.since;
    const bool wait = age < kHeaderPatience.count() ||
                      (judge(pending, tree, reader) == Answer::kWait && age < kLongest.count());
    if (wait) undecided.push_back(std::move(pending));
  }
  pending_ = std::move(undecided);
}

SegmentWatch::Answer SegmentWatch::judge(const Pending& pending, const ProcessTree& tree,
                                         DeadlineReader& reader) {
  const auto stat = directory_->stat_link(pending.name);
  if (!stat || stat->allocated_bytes > 0) return Answer::kFine;  // handed over, or filled
  if (stat->size_bytes == 0) return Answer::kWait;               // not yet ftruncate'd
  if (reported_.contains(stat->inode)) return Answer::kFine;
  const auto creator_pid = parse_shm_name(pending.name).creator_pid;
  const auto creator = creator_pid ? tree.find_by_own_pid(*creator_pid) : std::nullopt;
  if (!creator) return Answer::kFine;  // another job's: not ours to judge
  const bool alive = tree.lives(*creator);
  Answer answer = Answer::kFine;
  if (alive) {
    answer = judge_living(tree.members().at(*creator), stat->inode, reader);
  } else if (stat->size_bytes > pending.free_bytes && !held_in_tree(tree, stat->inode, reader)) {
    // A creator killed between ftruncate and its first store looks the same; that there was no room
    // for it when it was made is what tells.
    answer = Answer::kFailed;
  }
  if (answer == Answer::kFailed) report(pending, *stat, *creator, alive);
  return answer;
}

/// Of a creator that lives: it has the file open and not mapped, and is not in the call that
/// reserves the room.
SegmentWatch::Answer SegmentWatch::judge_living(const TrackedProcess& creator, uint64_t inode,
                                                DeadlineReader& reader) const {
  const char state = creator.last_stat.state;
  if (state == 'T' || state == 't' || state == 'D') return Answer::kWait;
  using Waits = std::vector<ThreadWait>;
  const auto waits = reader.run<Waits>(
      "read where threads wait",
      [processes = machine_.processes, directory = creator.directory, pid = creator.key.pid] {
        return read_thread_waits(*processes, *directory, pid, kMostSuspects);
      });
  if (!waits) return Answer::kWait;
  const bool reserving = std::ranges::any_of(*waits, [](const ThreadWait& wait) {
    return wait.syscall == SYS_fallocate || wait.syscall == SYS_ftruncate;
  });
  if (reserving) return Answer::kWait;
  const auto held = read_holdings(reader, machine_, creator.directory, {device_});
  if (!held) return Answer::kWait;
  const auto file = std::ranges::find(*held, inode, &HeldFile::inode);
  if (file == held->end() || file->fds == 0 || file->maps > 0) return Answer::kFine;
  return Answer::kFailed;
}

bool SegmentWatch::held_in_tree(const ProcessTree& tree, uint64_t inode,
                                DeadlineReader& reader) const {
  for (const auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    const auto held = read_holdings(reader, machine_, process.directory, {device_});
    if (held && std::ranges::find(*held, inode, &HeldFile::inode) != held->end()) return true;
  }
  return false;
}

void SegmentWatch::report(const Pending& pending, const FileStat& stat, const ProcessKey& creator,
                          bool alive) {
  if (reported_.size() >= kMostReported || !reported_.insert(stat.inode).second) return;
  events_.push_back(
      {.at = machine_.clock->now(),
       .kind = "segment-reservation-failed",
       .text = say("no space was allocated for {} ({}; {} were free when it was made): the file "
                   "has its full length but no block, and {}",
                   as_path(pending.name), format_bytes(stat.size_bytes),
                   format_bytes(pending.free_bytes),
                   alive ? "its creator has it open but not mapped"
                         : "its creator has ended and no process of its tree holds it"),
       .process = creator});
}

}  // namespace dlprobe
