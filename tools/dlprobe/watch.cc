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

namespace dlprobe {
namespace {

// torch_shm_manager stays 2 s after its last client (SHUTDOWN_TIMEOUT); what it leaves then is left
// for good.
constexpr BootNs kLinger = 3 * kSecond;
// A reference loader of ours that says nothing for so long is stuck; it would keep dlprobe for
// ever.
constexpr BootNs kLoaderSilence = 120 * kSecond;
// A loader that says nothing for so long is looked at every second ...
constexpr BootNs kQuiet = 2 * kSecond;
// ... and ended after so long, if the looks show that it is stuck.
constexpr BootNs kStuckSilence = 5 * kSecond;
constexpr BootNs kKillAfter = 3 * kSecond;
constexpr BootNs kLookEvery = 10 * kSecond;
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
    while (!result_.end.at) {
      const BootNs due = collector_.tick();
      take_snapshot_now_and_then();
      show_progress();
      look_now_and_then();
      decide();
      if (!result_.end.at) wait_until(due);
    }
    collector_.take_ledger();
    const bool is_fresh = snapshot_at_ > 0 && now() - snapshot_at_ < kSnapshotIsFresh;
    const bool wants_last = target_.snapshots && !ending_since_ && !is_fresh;
    if (wants_last && collector_.alive()) collector_.take_snapshot();
    result_.end.at = now();
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

  // Whether the watch is over, and what has to be ended first.
  void decide() {
    if (root_ended()) {
      if (!linger_until_) linger_until_ = now() + kLinger;
      if (collector_.alive() && now() < *linger_until_ && !interrupted_pid()) return;
      return end_with(
          result_.interrupted ? RunEndReason::kInterrupted : RunEndReason::kSubjectEnded,
          ended_because_);
    }
    if (interrupted_pid()) return end_with(RunEndReason::kInterrupted);
    if (target_.ends_with_watch) return decide_on_our_own();
    if (target_.deadline && now() >= *target_.deadline) end_with(RunEndReason::kTimeUp);
  }

  bool interrupted_pid() const { return result_.interrupted && !target_.child; }

  // The reference loader: asked to end, then made to; the watch ends once it has.
  void decide_on_our_own() {
    if (!target_.child) return;
    const pid_t child = *target_.child;
    const bool time_is_up = target_.deadline && now() >= *target_.deadline;
    const bool is_silent = silence() > kLoaderSilence;
    if (ending_since_) {
      // It is asked once.
    } else if (is_silent || seems_stuck()) {
      end_silent_loader(child);
    } else if (time_is_up || result_.interrupted) {
      ending_since_ = now();
      ::kill(child, SIGTERM);
    }
    if (ending_since_ && now() - *ending_since_ > kKillAfter) ::kill(child, SIGKILL);
  }

  BootNs silence() const { return now() - last_word_; }

  // Each snapshot is judged once.
  bool seems_stuck() {
    if (!target_.is_stuck || silence() < kStuckSilence || judged_ == snapshot_at_) return false;
    judged_ = snapshot_at_;
    return target_.is_stuck();
  }

  void end_silent_loader(pid_t child) {
    ending_since_ = now();
    ended_because_ = "the reference loader made no progress for " +
                     format_duration(std::chrono::seconds(silence() / kSecond)) +
                     ", and dlprobe ended it";
    sink_.add(Event{.at = now(), .kind = "note", .text = ended_because_, .process = target_.root});
    ::kill(child, SIGTERM);
  }

  void wait_until(BootNs due) {
    for (BootNs left = due - now(); left > 0; left = due - now()) {
      std::array<pollfd, 2> files = {
          {{signals_.get(), POLLIN, 0}, {target_.progress.get(), POLLIN, 0}}};
      const timespec timeout = {.tv_sec = left / kSecond, .tv_nsec = left % kSecond};
      if (::ppoll(files.data(), files.size(), &timeout, nullptr) <= 0) return;
      if (files[1].revents != 0) read_progress();
      if (files[0].revents != 0 && take_signals()) return;
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

  // Where there is a deadline the watch is short, and its first second tells most.
  void take_snapshot_now_and_then() {
    // Threads on their way out tell nothing of what they waited for.
    if (!target_.snapshots || ending_since_) return;
    const bool is_quiet = target_.is_stuck && silence() > kQuiet;
    const BootNs every = target_.deadline || is_quiet ? kSecond : 5 * kSecond;
    const BootNs began = now();
    if (snapshot_at_ != 0 && began - snapshot_at_ < every) return;
    collector_.take_snapshot();
    // The first look reads the libraries, which may take a while: --for is time to watch.
    if (target_.deadline) *target_.deadline += now() - began;
    snapshot_at_ = now();
  }

  void look_now_and_then() {
    if (!target_.now_and_then || root_ended() || now() - looked_at_ < kLookEvery) return;
    looked_at_ = now();
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
  BootNs snapshot_at_ = 0;  ///< when the last one was complete; 0: none yet
  BootNs judged_ = 0;       ///< the snapshot of that time
  uint64_t batches_seen_ = 0;
  std::string pending_;
};

}  // namespace

WatchResult watch(const Machine& machine, WatchTarget target, RecordSink& sink,
                  const SignalFd& signals, ProgressLine& progress) {
  return Watch(machine, std::move(target), sink, signals, progress).run();
}

}  // namespace dlprobe
