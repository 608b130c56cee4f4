// DLP0111 epoch-end-delayed.

#include <algorithm>
#include <set>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

// How long PyTorch waits for the end of each worker (MP_STATUS_CHECK_INTERVAL).
constexpr int32_t kJoinMs = 5000;
// The shortest wait to be told of: samples show a join of 5 s as a little less.
constexpr BootNs kShortestDelay = 4 * kSecond;
constexpr const char* kEndsSource = "state in /proc/PID/stat, /proc/PID/task/TID/syscall";

/// A time in which the trainer waited for spawned workers that had ended before.
struct Delay {
  BootNs from = 0;
  BootNs to = 0;
  std::set<ProcessKey> workers;
  std::set<uint64_t> pipes;       ///< that the trainer waited for, one after the other
  bool knows_batch_pipe = false;  ///< it was seen before to wait for batches, on another

  bool counts() const { return to - from >= kShortestDelay && !pipes.empty(); }
};

bool is_zombie(const ProcessSample& process) {
  return process.state == 'Z' && process.threads <= 1;
}

bool has_manager(const Run& run, const Sample& sample) {
  return std::ranges::any_of(sample.processes, [&](const ProcessSample& process) {
    const ProcessInfo* info = run.find_process(process.key);
    return info != nullptr && info->role == Role::kShmManager && !is_zombie(process);
  });
}

// Those that their trainer has not yet collected. One that failed is another matter.
std::set<ProcessKey> ended_workers(const Facts& facts, const Sample& sample) {
  std::set<ProcessKey> ended;
  for (const ProcessSample& process : sample.processes) {
    const ProcessInfo* info = facts.run->find_process(process.key);
    const bool is_spawned = info != nullptr && info->role == Role::kWorker &&
                            info->start_method == StartMethod::kSpawn &&
                            process.ppid == facts.trainer->key.pid;
    if (!is_spawned || !is_zombie(process)) continue;
    const ProcessExit* exit = facts.run->find_exit(process.key);
    if (exit == nullptr || exit->wait_status.value_or(0) == 0) ended.insert(process.key);
  }
  return ended;
}

// The pipe that the trainer's main thread waits for as a join with a timeout does, which a signal
// may have interrupted; 0: it does something else.
uint64_t joined_pipe(const Facts& facts, const Sample& sample) {
  const ProcessKey& key = facts.trainer->key;
  const std::string& machine = facts.header->host.machine;
  const auto trainer = std::ranges::find(sample.processes, key, &ProcessSample::key);
  if (trainer == sample.processes.end()) return 0;
  const auto& waits = trainer->waits;
  if (!waits || !*waits) return 0;
  const std::vector<ThreadWait>& threads = **waits;
  const auto main = std::ranges::find(threads, key.pid, &ThreadWait::tid);
  if (main == threads.end() || kind_of(*main, machine) != WaitKind::kPoll) return 0;
  const int32_t timeout = poll_timeout_ms(*main, machine).value_or(kJoinMs);
  const bool is_join = main->files.size() == 1 && main->files.front().kind == FileKind::kPipe &&
                       timeout > 0 && timeout <= kJoinMs;
  return is_join ? main->files.front().inode : 0;
}

// A trainer waits for a batch in the same way: what it waited for while workers lived, on a busy
// machine maybe for their ends, does not count.
std::vector<Delay> find_delays(const Facts& facts) {
  std::vector<Delay> delays;
  std::set<uint64_t> pipes_before;
  Delay now;
  for (const Sample& sample : facts.run->samples) {
    const std::set<ProcessKey> ended = ended_workers(facts, sample);
    const uint64_t pipe = joined_pipe(facts, sample);
    if (ended.empty() || !has_manager(*facts.run, sample)) {
      if (now.counts()) delays.push_back(now);
      now = {};
      if (pipe != 0) pipes_before.insert(pipe);
      continue;
    }
    const bool is_other_wait = pipes_before.contains(pipe);
    now.knows_batch_pipe = !pipes_before.empty();
    if (now.workers.empty() || (is_other_wait && now.pipes.empty())) now.from = sample.at;
    now.to = sample.at;
    now.workers.insert(ended.begin(), ended.end());
    if (pipe != 0 && !is_other_wait) now.pipes.insert(pipe);
  }
  if (now.counts()) delays.push_back(now);
  return delays;
}

void add_remedies(Finding& finding) {
  finding.remedies = {
      {.title = "Keep the workers between epochs: the wait then comes only once, at the end",
       .commands = {"DataLoader(..., persistent_workers=True)"},
       .verify = "dlprobe run -- COMMAND"},
      {.title = "Share tensors by descriptors, in the workers too: no torch_shm_manager runs then "
                "(needs more open files)",
       .commands = {"torch.multiprocessing.set_sharing_strategy('file_descriptor')"},
       .verify = "dlprobe run -- COMMAND",
       .settings = {{SettingKind::kSharingStrategy, "", "file_descriptor"}}},
      {.title = "Start workers from a fork server, which reports ended workers in another way",
       .commands = {"DataLoader(..., multiprocessing_context='forkserver')"},
       .verify = "dlprobe run -- COMMAND",
       .settings = {{SettingKind::kStartMethod, "", "forkserver"}}}};
}

}  // namespace

std::optional<Finding> epoch_end_delayed(const Facts& facts) {
  if (facts.trainer == nullptr) return std::nullopt;
  const std::vector<Delay> delays = find_delays(facts);
  if (delays.empty()) return std::nullopt;
  BootNs waited = 0;
  std::set<uint64_t> pipes;
  std::set<ProcessKey> workers;
  bool is_certain = false;
  for (const Delay& delay : delays) {
    is_certain = is_certain || delay.knows_batch_pipe;
    waited += delay.to - delay.from;
    pipes.insert(delay.pipes.begin(), delay.pipes.end());
    workers.insert(delay.workers.begin(), delay.workers.end());
  }
  // There is one pipe for all batches, and one for the end of each worker.
  Finding finding =
      new_finding(FindingCode::kEpochEndDelayed,
                  is_certain || pipes.size() > 1 ? Confidence::kCertain : Confidence::kLikely);
  finding.message = describe(*facts.run, facts.trainer->key) + " waited " +
                    format_duration(std::chrono::nanoseconds(waited)) + " at " +
                    (delays.size() == 1 ? "the end of an epoch"
                                        : "the ends of " + own(delays.size()) + " epochs") +
                    " for " + counted(workers.size(), "worker") +
                    " that had already ended: torch_shm_manager keeps their pipes "
                    "open";
  finding.processes = {facts.trainer->key};
  finding.first_seen = delays.front().from;
  finding.last_seen = delays.back().to;
  finding.evidence = {
      held_against(time_fact("time_at_a_standstill", waited, kEndsSource), ">= 4 s"),
      count_fact("processes", workers.size(), kEndsSource),
      text_fact("trainer_waits_in",
                "poll with torch's timeout of 5 s on " + counted(pipes.size(), "pipe") +
                    ", one after the other",
                "/proc/PID/task/TID/syscall", delays.front().to)};
  finding.rule_out("workers that end slowly",
                   "each was a zombie: it had ended, and its parent had not reaped it");
  add_remedies(finding);
  return finding;
}

bool saw_spawned_workers_end(const RecordingView& recording) {
  return std::ranges::any_of(recording.runs, [](const Run& run) {
    return std::ranges::any_of(run.exits, [&](const ProcessExit& exit) {
      const ProcessInfo* info = run.find_process(exit.key);
      return info != nullptr && info->role == Role::kWorker &&
             info->start_method == StartMethod::kSpawn;
    });
  });
}

}  // namespace dlprobe::probes::shm
