#include "tools/dlprobe/watch.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "lib/base/units.h"
#include "lib/collect/tracked_process.h"
#include "lib/subject/child_process.h"
#include "lib/subject/loader_progress.h"
#include "tools/dlprobe/kill_descendants.h"

namespace dlprobe {
namespace {

// A reference loader of ours that says nothing for so long is stuck, whatever the looks show; it
// would keep dlprobe for ever.
constexpr BootNs kLoaderSilence = 120 * kSecond;
// So many looks tell what there is to tell of a standstill.
constexpr int kMostQuietLooks = 30;
// After a process was asked to end, or helpers had their time.
constexpr BootNs kKillAfter = 3 * kSecond;
constexpr BootNs kLookEvery = 10 * kSecond;
// Of many that fail at once the first is told at once, the others together.
constexpr BootNs kLookAfterFailure = kSecond / 5;
// A second snapshot so soon after another would tell nothing new.
constexpr BootNs kSnapshotIsFresh = 100 * kMillisecond;
constexpr size_t kLongestLine = size_t{1} << 20;

class Watch {
 public:
  Watch(const Machine& machine, WatchTarget target, RecordSink& sink, const SignalFd& signals,
        ProgressLine& progress)
      : machine_(machine),
        target_(std::move(target)),
        sink_(sink),
        signals_(signals),
        progress_(progress),
        collector_(machine, target_.root, target_.collect, sink) {}

  WatchResult run() {
    last_word_ = looked_at_ = now();
    quiet_from_ = now();
    while (!result_.end.at) {
      const BootNs due = collector_.tick();
      if (target_.each_round) target_.each_round();
      read_log();
      take_snapshot_now_and_then();
      look_at_shared_files_now_and_then();
      show_progress();
      look_now_and_then();
      decide();
      if (!result_.end.at) wait_until(due);
    }
    if (target_.each_round) target_.each_round();
    if (target_.log) target_.log->read(sink_, now());
    collector_.take_ledger();
    const bool is_fresh = snapshot_at_ > 0 && now() - snapshot_at_ < kSnapshotIsFresh;
    const bool wants_last =
        target_.snapshots == SnapshotTimes::kAlways && !ending_since_ && !is_fresh;
    if (wants_last && collector_.alive()) collector_.take_snapshot();
    result_.end.at = now();
    result_.end.wait_status = result_.child_wait_status;
    result_.end.still_for = still_for_;
    result_.left = collector_.living();
    sink_.add(result_.end);
    return std::move(result_);
  }

 private:
  BootNs now() const { return machine_.clock->now(); }

  void end_with(RunEndReason reason, std::string text = {}) {
    result_.end = {.at = now(), .reason = reason, .text = std::move(text)};
  }

  bool root_ended() const {
    return target_.child ? result_.child_wait_status.has_value() : !collector_.trainer_alive();
  }

  RunEndReason reason_of_end() const {
    if (result_.interrupted) return RunEndReason::kInterrupted;
    return ended_at_deadline_ ? RunEndReason::kTimeUp : RunEndReason::kSubjectEnded;
  }

  // Whether the watch is over, and what has to be ended first.
  void decide() {
    judge_standstill();
    if (target_.break_off) break_off();
    if (target_.ends_with_watch) end_our_own();
    if (ending_since_) insist(*ending_since_);
    if (root_ended()) {
      if (wait_for_helpers()) return;
      return end_with(reason_of_end(), ended_because_);
    }
    if (interrupted_pid()) return end_with(RunEndReason::kInterrupted);
    if (target_.ends_with_watch || ending_since_) return;
    if (!target_.deadline || now() < *target_.deadline) return;
    if (target_.child) still_for_ = now() - last_moved();
    if (!target_.ends_at_deadline) return end_with(RunEndReason::kTimeUp);
    kill_at_once("ran for as long as it was given");
  }

  // No process may be left that could start another one.
  void break_off() {
    if (ending_since_) return;
    if (const auto because = target_.break_off(collector_.living().size())) kill_at_once(*because);
  }

  void kill_at_once(const std::string& because) {
    // Those that are known, at once: looking for the others takes a few milliseconds.
    for (const ProcessKey& key : collector_.living())
      if (!collector_.is_helper(key)) signal_process(machine_, key, SIGSTOP);
    note_end_by_dlprobe(because);
    kill_descendants(machine_);
    reap_the_killed();
  }

  // Before anything is looked at again: a child whose parent has died first would be seen as
  // dlprobe's own.
  void reap_the_killed() {
    const BootNs until = now() + kKillAfter;
    while (has_children() && now() < until) {
      pollfd file = {.fd = signals_.get(), .events = POLLIN, .revents = 0};
      constexpr int kMilliseconds = 10;
      ::poll(&file, 1, kMilliseconds);
      take_signals();
      reap_children();
    }
  }

  bool interrupted_pid() const { return result_.interrupted && !target_.child; }

  BootNs last_moved() const {
    return target_.progress || target_.ends_with_watch ? last_word_ : collector_.last_motion();
  }

  BootNs standstill() const { return now() - std::max(last_moved(), quiet_from_); }

  // Each snapshot is judged once, when nothing is known to have moved since.
  void judge_standstill() {
    if (!target_.standstill || root_ended() || ending_since_) return;
    const StandstillPolicy& policy = *target_.standstill;
    note_motion(policy);
    if (told_stuck_ || standstill() < policy.judge_after || judged_ == snapshot_at_) return;
    if (!target_.progress && collector_.looked_for_motion_at() <= snapshot_at_) return;
    judged_ = snapshot_at_;
    if (!policy.is_stuck()) return;
    told_stuck_ = true;
    if (policy.when_stuck) policy.when_stuck();
    if (policy.end_tree) end_tree("made no progress for " + standstill_text());
  }

  // What was seen of a standstill that is over proves nothing.
  void note_motion(const StandstillPolicy& policy) {
    const bool moves = standstill() < policy.quiet_after;
    if (!moves || quiet_looks_ == 0) return;
    quiet_looks_ = 0;
    told_stuck_ = false;
    if (target_.snapshots != SnapshotTimes::kWhenQuiet) return;
    sink_.add(Event{.at = now(),
                    .kind = std::string(kMovesAgain),
                    .text = "the loader moves again",
                    .process = target_.root});
  }

  std::string standstill_text() const {
    return format_duration(std::chrono::seconds(standstill() / kSecond));
  }

  void end_our_own() {
    if (!target_.child || ending_since_ || root_ended()) return;
    if (now() - last_word_ > kLoaderSilence) {
      end_tree("made no progress for " + standstill_text());
    } else if (result_.interrupted || (target_.is_enough && target_.is_enough())) {
      end_tree("");
    } else if (target_.deadline && now() >= *target_.deadline) {
      ended_at_deadline_ = true;
      end_tree("");
    }
  }

  // Asked to end; insist() makes it.
  void end_tree(const std::string& because) {
    if (!target_.child) return;
    note_end_by_dlprobe(because);
    ::kill(*target_.child, SIGTERM);
  }

  void note_end_by_dlprobe(const std::string& because) {
    ending_since_ = now();
    if (because.empty()) return;
    const std::string_view who = target_.ends_with_watch ? "the reference loader " : "the command ";
    ended_because_ = fmt::format("{}{}, and dlprobe ended it", who, because);
    sink_.add(Event{.at = now(), .kind = "note", .text = ended_because_, .process = target_.root});
  }

  void insist(BootNs asked_at) {
    const BootNs patience = target_.standstill ? target_.standstill->kill_after : kKillAfter;
    if (!target_.child || root_ended() || now() - asked_at <= patience) return;
    ::kill(*target_.child, SIGKILL);
  }

  // Helpers may outlive the root for a while. Of a tree that dlprobe ended nothing may be left.
  bool wait_for_helpers() {
    if (!linger_until_) {
      linger_until_ =
          now() + (ending_since_ ? std::max(target_.linger, kKillAfter) : target_.linger);
    }
    if (!collector_.alive() || interrupted_pid()) return false;
    if (now() < *linger_until_) return true;
    if (target_.ends_at_deadline && !ending_since_) {
      kill_at_once("left processes behind");
      return false;
    }
    if (!ending_since_ || kill_rounds_ == 2) return false;
    kill_what_is_left();
    linger_until_ = now() + kKillAfter;
    return true;
  }

  // Helpers clean up after the others (a resource tracker removes their semaphores), and end.
  void kill_what_is_left() {
    const bool spares_helpers = ++kill_rounds_ == 1;
    for (const ProcessKey& key : collector_.living()) {
      if (spares_helpers && collector_.is_helper(key)) continue;
      signal_process(machine_, key, SIGKILL);
    }
  }

  void wait_until(BootNs due) {
    for (BootNs left = due - now(); left > 0; left = due - now()) {
      std::array<pollfd, 4> files = {{{signals_.get(), POLLIN, 0},
                                      {target_.progress.get(), POLLIN, 0},
                                      {collector_.wake_descriptor(), POLLIN, 0},
                                      {target_.wakes_round, POLLIN, 0}}};
      const timespec timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
      if (::ppoll(files.data(), files.size(), &timeout, nullptr) <= 0) return;
      if (files[1].revents != 0) read_progress();
      if (files[0].revents != 0 && take_signals()) return;
      if (files[2].revents != 0) return;
      if (files[3].revents != 0) target_.each_round();
    }
  }

  // Returns whether the next tick should come at once.
  bool take_signals() {
    bool something_ended = false;
    while (const auto signal = signals_.next()) {
      if (signal->ssi_signo == SIGCHLD) {
        something_ended = reap_children() || something_ended;
        continue;
      }
      if (signal->ssi_signo == SIGUSR1 || signal->ssi_signo == SIGUSR2) {
        if (target_.child && !result_.child_wait_status) forward_signal(*signal, *target_.child);
        continue;
      }
      result_.interrupted = true;
      if (target_.child && !result_.child_wait_status) forward_signal(*signal, *target_.child);
      something_ended = true;
    }
    return something_ended;
  }

  bool reap_children() {
    bool any = false;
    while (const auto ended = next_ended_child()) {
      // While it is a zombie its start time can still be read.
      if (const auto key = process_key(machine_, ended->pid)) {
        collector_.note_exit(*key, ended->wait_status, "waitid");
      }
      reap(*ended);
      if (target_.child && ended->pid == *target_.child) {
        result_.child_wait_status = ended->wait_status;
      }
      any = true;
    }
    return any;
  }

  void read_progress() {
    std::array<char, 16384> buffer{};
    const ssize_t count = ::read(target_.progress.get(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return target_.progress.reset();
    pending_.append(buffer.data(), static_cast<size_t>(count));
    size_t end = pending_.find('\n');
    for (; end != std::string::npos; end = pending_.find('\n')) {
      take_line(std::string_view(pending_).substr(0, end));
      pending_.erase(0, end + 1);
    }
    if (pending_.size() > kLongestLine) pending_.clear();
  }

  void take_line(std::string_view line) {
    auto record = parse_progress_line(line);
    last_word_ = now();
    if (!record) {
      sink_.add(
          Event{.at = now(), .kind = "note", .text = to_string(record.error()), .process = {}});
      return;
    }
    if (std::holds_alternative<LoaderBatch>(*record)) ++batches_seen_;
    sink_.add(std::move(*record));
  }

  void read_log() {
    if (!target_.log || now() - log_read_at_ < kSecond) return;
    log_read_at_ = now();
    target_.log->read(sink_, log_read_at_);
  }

  // Where there is a deadline the watch is short, and its first second tells most.
  void take_snapshot_now_and_then() {
    // Threads on their way out tell nothing of what they waited for.
    if (target_.snapshots == SnapshotTimes::kNever || ending_since_) return;
    const bool is_quiet = target_.standstill && standstill() > target_.standstill->quiet_after;
    if (target_.snapshots == SnapshotTimes::kWhenQuiet && !wants_quiet_look(is_quiet)) return;
    const BootNs every = target_.deadline || is_quiet ? kSecond : 5 * kSecond;
    const BootNs began = now();
    if (snapshot_at_ != 0 && began - snapshot_at_ < every) return;
    collector_.take_snapshot();
    // The first look reads the libraries, which may take a while: --for is time to watch.
    if (target_.deadline) *target_.deadline += now() - began;
    snapshot_at_ = now();
    if (is_quiet) ++quiet_looks_;
  }

  // Each descriptor of the tree is looked at: with 64 processes this takes 8 ms.
  void look_at_shared_files_now_and_then() {
    if (!target_.shared_files || ending_since_) return;
    const BootNs every = target_.deadline ? 2 * kSecond : 5 * kSecond;
    if (shared_files_at_ != 0 && now() - shared_files_at_ < every) return;
    collector_.take_shared_files();
    shared_files_at_ = now();
  }

  // After half a minute of looks there is a rest as long as the standstill was: a training loop may
  // well do something else for long.
  bool wants_quiet_look(bool is_quiet) {
    if (!is_quiet || root_ended()) return false;
    if (quiet_looks_ < kMostQuietLooks) return true;
    quiet_looks_ = 0;
    quiet_from_ = now();
    return false;
  }

  void look_now_and_then() {
    if (!target_.now_and_then || root_ended()) return;
    has_failure_ = collector_.take_failed_exit() || has_failure_;
    if (now() - looked_at_ < (has_failure_ ? kLookAfterFailure : kLookEvery)) return;
    looked_at_ = now();
    has_failure_ = false;
    target_.now_and_then();
  }

  void show_progress() {
    if (now() - shown_at_ < kSecond / 5) return;
    shown_at_ = now();
    if (ending_since_) return progress_.show("ending the reference loader");
    if (target_.progress) return progress_.show(fmt::format("batch {}", batches_seen_));
    if (!target_.deadline) return;
    const BootNs left = std::max<BootNs>(*target_.deadline - now(), 0);
    progress_.show("watching, " + format_duration(std::chrono::nanoseconds(left)) + " left");
  }

  const Machine& machine_;
  WatchTarget target_;
  RecordSink& sink_;
  const SignalFd& signals_;
  ProgressLine& progress_;
  TreeCollector collector_;
  WatchResult result_;
  std::optional<BootNs> linger_until_;
  std::optional<BootNs> ending_since_;
  std::string ended_because_;  ///< where dlprobe did so of its own accord
  BootNs last_word_ = 0;
  BootNs shown_at_ = 0;
  BootNs looked_at_ = 0;
  BootNs log_read_at_ = 0;
  BootNs shared_files_at_ = 0;
  BootNs snapshot_at_ = 0;           ///< when the last one was complete; 0: none yet
  BootNs judged_ = 0;                ///< the snapshot of that time
  std::optional<BootNs> still_for_;  ///< when the time was up
  BootNs quiet_from_ = 0;            ///< a standstill counts from then on
  int quiet_looks_ = 0;              ///< snapshots of this standstill
  bool told_stuck_ = false;
  bool ended_at_deadline_ = false;
  int kill_rounds_ = 0;       ///< of what was left of the tree that dlprobe ended
  bool has_failure_ = false;  ///< a process has failed since the last look
  uint64_t batches_seen_ = 0;
  std::string pending_;
};

}  // namespace

WatchResult watch(const Machine& machine, WatchTarget target, RecordSink& sink,
                  const SignalFd& signals, ProgressLine& progress) {
  return Watch(machine, std::move(target), sink, signals, progress).run();
}

}  // namespace dlprobe
