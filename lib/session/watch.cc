#include "lib/session/watch.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/collect/tree/cpu_use.h"
#include "lib/os/host_facts.h"
#include "lib/session/progress_lines.h"
#include "lib/session/standstill.h"
#include "lib/session/tree_ending.h"
#include "lib/session/watched_tree.h"

namespace dlprobe {
namespace {

// A reference loader of ours that says nothing for so long is stuck, whatever the looks show; it
// would keep dlprobe for ever.
constexpr BootNs kLoaderSilence = 120 * kSecond;
constexpr BootNs kLookEvery = 10 * kSecond;
// Of many that fail at once the first is told at once, the others together.
constexpr BootNs kLookAfterFailure = kSecond / 5;
// A second snapshot so soon after another would tell nothing new.
constexpr BootNs kSnapshotIsFresh = 100 * kMillisecond;
// Between two looks of a watch with a deadline, as times of what the last one took: of a job with
// thousands of threads, or on a machine that is busy, the samples between them tell what grows.
constexpr BootNs kTimesOfLook = 3;

// The looks at stacks of one watch.
struct Looks {
  BootNs last_at = 0;          ///< when the last one was complete; 0: none yet
  BootNs last_took = 0;        ///< 0: none but the first, which reads the libraries
  BootNs free = 10 * kSecond;  ///< for them beyond what --for allows
};

class Watch {
 public:
  Watch(const WatchTools& tools, WatchTarget target, WatchGuide& guide)
      : tree_(tools, std::move(target), guide),
        lines_(std::move(tree_.target.progress), *tools.machine.clock, tools.sink),
        standstill_(tree_, lines_),
        ending_(tree_),
        cpus_(tools.machine, usable_cpus()),
        looked_at_(now()) {}

  WatchResult run() {
    WatchResult& result = tree_.result;
    while (!result.end.at) {
      const BootNs due = tree_.collector.tick();
      take_news();
      read_log();
      take_snapshot_now_and_then();
      show();
      look_now_and_then();
      decide();
      if (!result.end.at) wait_until(due);
    }
    take_news();
    if (tree_.target.log) tree_.target.log->read(tree_.tools.sink, now());
    tree_.collector.take_ledger();
    take_last_snapshot();
    result.end.at = now();
    result.end.wait_status = result.child_wait_status;
    result.end.still_for = still_for_;
    result.end.busy_cpus = cpus_.busy_cpus();
    result.left = tree_.collector.living();
    tree_.tools.sink.add(result.end);
    return std::move(result);
  }

 private:
  BootNs now() const { return tree_.now(); }

  void take_news() {
    tree_.guide.take_news();
    for (const auto& [key, rank] : tree_.guide.take_ranks())
      tree_.collector.note_rank(key, rank);
  }

  void end_with(RunEndReason reason, Message text = {}) {
    tree_.result.end = {.at = now(), .reason = reason, .text = std::move(text)};
  }

  RunEndReason reason_of_end() const {
    if (tree_.result.interrupted_by != 0) return RunEndReason::kInterrupted;
    return ended_at_deadline_ ? RunEndReason::kTimeUp : RunEndReason::kSubjectEnded;
  }

  // Whether the watch is over, and what has to be ended first.
  void decide() {
    const WatchTarget& target = tree_.target;
    judge_standstill();
    break_off();
    if (target.ends_with_watch) end_our_own();
    ending_.insist();
    if (tree_.root_ended()) {
      if (ending_.waits_for_helpers()) return;
      return end_with(reason_of_end(), ending_.because());
    }
    const bool has_enough = !target.child && tree_.guide.is_enough();
    if (tree_.interrupted_pid() || has_enough) return end_with(RunEndReason::kInterrupted);
    if (target.ends_with_watch || ending_.has_begun()) return;
    if (!target.deadline || now() < *target.deadline) return;
    const BootNs more = std::exchange(was_prolonged_, true) ? 0 : tree_.guide.prolong();
    if (more > 0) {
      tree_.target.deadline = now() + more;
      return;
    }
    if (target.child) still_for_ = now() - standstill_.last_moved();
    if (!target.ends_at_deadline) return end_with(RunEndReason::kTimeUp);
    ending_.kill_at_once("ran as long as allowed");
  }

  void break_off() {
    if (ending_.has_begun()) return;
    const auto because = tree_.guide.why_break_off(tree_.collector.living().size());
    if (because) ending_.kill_at_once(*because);
  }

  void judge_standstill() {
    if (ending_.has_begun()) return;
    if (!standstill_.is_found_in_vain() && !standstill_.is_found_stuck(looks_.last_at)) return;
    tree_.guide.tell_stuck();
    const auto& policy = tree_.target.standstill;
    if (policy && policy->end_tree) ending_.ask("made no progress for " + standstill_.text());
  }

  void end_our_own() {
    if (!tree_.target.child || ending_.has_begun() || tree_.root_ended()) return;
    if (now() - lines_.last_came() > kLoaderSilence) {
      ending_.ask("made no progress for " + standstill_.text());
    } else if (tree_.result.interrupted_by != 0 || tree_.guide.is_enough()) {
      ending_.ask("");
    } else if (tree_.target.deadline && now() >= *tree_.target.deadline) {
      ended_at_deadline_ = true;
      ending_.ask("");
    }
  }

  void wait_until(BootNs due) {
    for (BootNs left = due - now(); left > 0; left = due - now()) {
      const std::array descriptors = {tree_.tools.signals.descriptor(), lines_.descriptor(),
                                      tree_.collector.wake_descriptor(), tree_.target.news};
      const std::vector<bool> readable = tree_.tools.control.wait(descriptors, left);
      if (!readable.empty() && readable[1]) lines_.read();
      if (take_signals(tree_) || readable.empty()) return;
      if (readable[2]) return;
      if (readable[3]) take_news();
      // Of a command news are many. Of what ran already they are a person's wishes.
      if (readable[3] && !tree_.target.child) return;
    }
  }

  void read_log() {
    if (!tree_.target.log || now() - log_read_at_ < kSecond) return;
    log_read_at_ = now();
    tree_.target.log->read(tree_.tools.sink, log_read_at_);
  }

  bool wants_snapshots() {
    if (tree_.target.snapshots == SnapshotTimes::kWhenQuiet) return standstill_.wants_look();
    return tree_.target.snapshots == SnapshotTimes::kAlways;
  }

  // Where there is a deadline the watch is short, and its first second tells most.
  void take_snapshot_now_and_then() {
    WatchTarget& target = tree_.target;
    // Threads on their way out tell nothing of what they waited for.
    if (ending_.has_begun()) return;
    const bool is_quiet = standstill_.is_quiet();
    const bool is_asked = tree_.guide.wants_snapshots();
    if (!is_asked && !wants_snapshots()) return;
    BootNs every = target.deadline || is_quiet || is_asked ? kSecond : 5 * kSecond;
    if (target.deadline) every = std::max(every, kTimesOfLook * looks_.last_took);
    const BootNs began = now();
    const bool is_first = looks_.last_at == 0;
    if (!is_first && began - looks_.last_at < every) return;
    went_on_ = tree_.collector.take_snapshot();
    looks_.last_at = now();
    // The first look reads the libraries, which may take a while: --for is time to watch.
    const BootNs took = looks_.last_at - began;
    const BootNs free = std::min(took, looks_.free);
    looks_.free -= free;
    if (target.deadline) *target.deadline += free;
    if (!is_first) looks_.last_took = took;
    if (is_quiet) standstill_.count_look();
  }

  // The last one decides who waits for what. A wait with a timeout that ran out while it was taken
  // leaves that open: torch's trainer wakes every 5 s.
  void take_last_snapshot() {
    constexpr int kMostLooks = 2;
    if (tree_.target.snapshots != SnapshotTimes::kAlways || ending_.has_begun()) return;
    const bool is_fresh = looks_.last_at > 0 && now() - looks_.last_at < kSnapshotIsFresh;
    bool is_enough = is_fresh && !went_on_;
    for (int i = 0; i < kMostLooks && !is_enough && tree_.collector.alive(); ++i) {
      if (i > 0 || is_fresh) tree_.tools.control.wait({}, kSnapshotIsFresh);
      is_enough = !tree_.collector.take_snapshot();
    }
  }

  void look_now_and_then() {
    if (tree_.root_ended()) return;
    has_failure_ = tree_.collector.take_failed_exit() || has_failure_;
    if (now() - looked_at_ < (has_failure_ ? kLookAfterFailure : kLookEvery)) return;
    looked_at_ = now();
    has_failure_ = false;
    tree_.guide.look_now_and_then();
  }

  void show() {
    if (now() - shown_at_ < kSecond / 5) return;
    shown_at_ = now();
    Notices& notices = tree_.tools.notices;
    if (ending_.has_begun()) return notices.show("ending it");
    if (lines_.is_open()) return notices.show(fmt::format("batch {}", lines_.batches()));
    if (!tree_.target.deadline) return;
    const BootNs left = std::max<BootNs>(*tree_.target.deadline - now(), 0);
    notices.show("watching, " + format_duration(std::chrono::nanoseconds(left)) + " left");
  }

  WatchedTree tree_;
  ProgressLines lines_;
  Standstill standstill_;
  TreeEnding ending_;
  CpuUse cpus_;
  BootNs shown_at_ = 0;
  BootNs looked_at_;
  BootNs log_read_at_ = 0;
  Looks looks_;
  bool went_on_ = false;             ///< a thread that waited, while that one was taken
  std::optional<BootNs> still_for_;  ///< when the time was up
  bool ended_at_deadline_ = false;
  bool was_prolonged_ = false;
  bool has_failure_ = false;  ///< a process has failed since the last look
};

}  // namespace

WatchResult watch(const WatchTools& tools, WatchTarget target, WatchGuide& guide) {
  return Watch(tools, std::move(target), guide).run();
}

}  // namespace dlprobe
