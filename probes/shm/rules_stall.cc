// DLP0106 batch-lost-in-worker.

#include <algorithm>
#include <map>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/waits.h"
#include "probes/shm/remedies.h"
#include "probes/shm/rules.h"

namespace dlprobe::probes::shm {
namespace {

// A worker looks for its parent every 5 s (MP_STATUS_CHECK_INTERVAL): one such tick must have
// passed.
constexpr BootNs kShortestStall = 6 * kSecond;
constexpr int32_t kStatusCheckMs = 5000;
constexpr const char* kWaitSource = "/proc/PID/task/TID/syscall";

const ThreadWait* main_thread(const ProcessSample& process) {
  if (!process.waits || !*process.waits) return nullptr;
  for (const ThreadWait& wait : **process.waits) {
    if (wait.tid == process.key.pid) return &wait;
  }
  return nullptr;
}

// The pipe or socket that a thread polls by itself, with nothing to read on it (else it would
// return).
const WaitedFile* polled_channel(const ThreadWait& wait, const std::string& machine) {
  if (kind_of(wait, machine) != WaitKind::kPoll || wait.files.size() != 1) return nullptr;
  const WaitedFile& file = wait.files.front();
  return file.kind == FileKind::kPipe || file.kind == FileKind::kSocket ? &file : nullptr;
}

// The reference loader's training loop polls nothing but what it needs for the next batch: the
// result queue first, and its helpers' ends.
const WaitedFile* first_polled_channel(const ThreadWait& wait, const std::string& machine) {
  if (kind_of(wait, machine) != WaitKind::kPoll) return nullptr;
  const auto channel = std::ranges::find_if(wait.files, [](const WaitedFile& file) {
    return file.kind == FileKind::kPipe || file.kind == FileKind::kSocket;
  });
  return channel == wait.files.end() ? nullptr : &*channel;
}

// A worker that waits for its next task, as PyTorch's do: its index queue is empty.
const WaitedFile* idle_worker_channel(const ProcessSample& process, const std::string& machine) {
  const ThreadWait* wait = main_thread(process);
  if (wait == nullptr) return nullptr;
  const WaitedFile* file = polled_channel(*wait, machine);
  const int32_t timeout = poll_timeout_ms(*wait, machine).value_or(kStatusCheckMs);
  return timeout > 0 && timeout <= kStatusCheckMs ? file : nullptr;
}

struct TrainerWait {
  const WaitedFile* file = nullptr;
  bool through_pin_thread = false;
};

// What the trainer waits for, if it is a batch: its main thread polls one channel for a time, or
// its main thread waits for another thread and that one polls.
TrainerWait trainer_wait(const ProcessSample& trainer, const std::string& machine,
                         SubjectKind subject) {
  const ThreadWait* main = main_thread(trainer);
  if (main == nullptr || !trainer.waits || !*trainer.waits) return {};
  if (subject == SubjectKind::kReferenceLoader) {
    return {.file = first_polled_channel(*main, machine), .through_pin_thread = false};
  }
  if (const WaitedFile* file = polled_channel(*main, machine)) {
    const bool has_end = poll_timeout_ms(*main, machine).value_or(kStatusCheckMs) > 0;
    return has_end ? TrainerWait{.file = file, .through_pin_thread = false} : TrainerWait{};
  }
  if (kind_of(*main, machine) != WaitKind::kFutex) return {};
  for (const ThreadWait& wait : **trainer.waits) {
    const WaitedFile* file = wait.tid == main->tid ? nullptr : polled_channel(wait, machine);
    if (file != nullptr &&
        poll_timeout_ms(wait, machine).value_or(kStatusCheckMs) == kStatusCheckMs) {
      return {.file = file, .through_pin_thread = true};
    }
  }
  return {};
}

using Cpu = std::map<ProcessKey, uint64_t>;

// One look at the whole loader: whether it is a stall, and the CPU time that each process had.
struct Look {
  bool has_waits = false;
  bool is_stall = false;
  TrainerWait trainer;
  Cpu cpu;
};

Look look_at(const Facts& facts, const Sample& sample) {
  const std::string& machine = facts.header->host.machine;
  Look look;
  uint64_t workers = 0;
  bool all_idle = true;
  for (const ProcessSample& process : sample.processes) {
    const ProcessInfo* info = facts.run->find_process(process.key);
    if (info == nullptr || (info->role != Role::kTrainer && info->role != Role::kWorker)) continue;
    look.cpu[process.key] = process.utime_ticks + process.stime_ticks;
    if (info->role == Role::kTrainer) {
      look.has_waits = process.waits && *process.waits;
      if (look.has_waits) look.trainer = trainer_wait(process, machine, facts.run->begin.subject);
      continue;
    }
    ++workers;
    all_idle = all_idle && idle_worker_channel(process, machine) != nullptr;
  }
  look.is_stall = workers > 0 && all_idle && look.trainer.file != nullptr;
  return look;
}

// The same processes, on the same channel, and next to no CPU time since.
bool stands_still(const Facts& facts, const Look& first, const Look& now, BootNs span) {
  if (first.trainer.file->inode != now.trainer.file->inode || first.cpu.size() != now.cpu.size())
    return false;
  const auto ticks_per_second = static_cast<double>(facts.header->host.ticks_per_second);
  const double allowed = 2 + 0.03 * ticks_per_second * static_cast<double>(span) / kSecond;
  return std::ranges::all_of(now.cpu, [&](const auto& entry) {
    const auto before = first.cpu.find(entry.first);
    return before != first.cpu.end() &&
           static_cast<double>(entry.second - before->second) <= allowed;
  });
}

void rule_out(Finding& finding, const Facts& facts) {
  finding.rule_out("a deadlock (DLP0301 to DLP0306)",
                   "no worker waits for a lock: each polls its own task queue, which is empty");
  finding.rule_out("a slow sample or slow storage (DLP0313, DLP0310)",
                   "every worker is idle and used no CPU time");
  const bool died = std::ranges::any_of(facts.run->exits, [&](const ProcessExit& exit) {
    const ProcessInfo* process = facts.run->find_process(exit.key);
    return process != nullptr && process->role == Role::kWorker && exit.wait_status &&
           *exit.wait_status != 0;
  });
  if (!died) {
    finding.rule_out("a dead worker", "no worker died during the stall");
  }
}

}  // namespace

std::optional<LoaderStall> find_stall(const Facts& facts) {
  std::optional<LoaderStall> longest;
  std::optional<Look> first;
  BootNs first_at = 0;
  for (const Sample& sample : facts.run->samples) {
    Look look = look_at(facts, sample);
    if (!look.has_waits) continue;
    const bool goes_on =
        look.is_stall && first && stands_still(facts, *first, look, sample.at - first_at);
    if (!goes_on) {
      first = look.is_stall ? std::optional(look) : std::nullopt;
      first_at = sample.at;
      continue;
    }
    const BootNs span = sample.at - first_at;
    if (span < kShortestStall || (longest && span <= longest->to - longest->from)) continue;
    longest = LoaderStall{.from = first_at,
                          .to = sample.at,
                          .trainer_waits = "poll on " + own(to_string(look.trainer.file->kind)) +
                                           " " + own(look.trainer.file->inode),
                          .through_pin_thread = look.trainer.through_pin_thread};
  }
  return longest;
}

Finding batch_lost(const Facts& facts, const Shortage& shortage, const LoaderStall& stall) {
  const bool sure = shortage.confidence == Confidence::kCertain && !stall.through_pin_thread;
  Finding finding = new_finding(FindingCode::kBatchLostInWorker,
                                sure ? Confidence::kCertain : Confidence::kLikely);
  const OwnWords span = format_duration(std::chrono::nanoseconds(stall.to - stall.from));
  finding.message = describe(*facts.run, shortage.victims.front()) + " could not allocate " +
                    format_bytes(shortage.wanted_bytes) + " of shared memory (" +
                    format_bytes(free_bytes(shortage.use)) + " of " +
                    format_bytes(shortage.use.size_bytes) +
                    " free) and dropped its batch: the trainer has waited for it for " + span +
                    ", and every worker is idle";
  finding.processes = shortage.victims;
  if (facts.trainer != nullptr) finding.processes.push_back(facts.trainer->key);
  finding.first_seen = std::min(shortage.at, stall.from);
  finding.last_seen = stall.to;
  finding.evidence = {
      time_fact("stalled_for", stall.to - stall.from, kWaitSource),
      text_fact("trainer_waits_in", stall.trainer_waits, kWaitSource, stall.to),
      count_fact("idle_workers", facts.most_workers,
                 OwnWords(kWaitSource) + ": poll, 5000 ms, one pipe", stall.to),
      bytes_fact("shm_size", shortage.use.size_bytes, facts.source, shortage.use.at),
      held_against(bytes_fact("shm_free", free_bytes(shortage.use), facts.source, shortage.use.at),
                   "< segment_size"),
      bytes_fact("segment_size", shortage.wanted_bytes, "stat of the segment"),
  };
  finding.evidence.insert(finding.evidence.end(), shortage.proof.begin(), shortage.proof.end());
  if (const ShmLedger* ledger = ledger_at(facts, shortage.at)) {
    for (const ShmSegment* segment : split_ledger(facts, *ledger).unheld.segments) {
      finding.prove(text_fact(
          "file_nobody_has_open",
          as_path(segment->name.value_or("?")) + ", " + format_bytes(segment->taken_bytes()),
          "scan of /dev/shm", ledger->at));
    }
  }
  rule_out(finding, facts);
  const Demand demand = demand_of(facts);
  const uint64_t size = comfortable_size(shortage.use.used_bytes +
                                         std::max(demand.most_bytes, shortage.wanted_bytes));
  finding.prove(bytes_fact("size_that_would_do", size, "the need and a quarter more"));
  finding.remedies = remedies_for_size(facts, size);
  finding.advise(
      "Restart the job: the batch is lost. A timeout turns the next such hang into an error",
      {"DataLoader(..., timeout=120)"}, "dlprobe shm --pid PID");
  finding.remedies.push_back(remedy_look(facts));
  return finding;
}

std::optional<Gap> limit_of_short_watch(const Run& run) {
  // Two of a worker's looks for its parent: one may lie before the watch.
  constexpr BootNs kEnough = 10 * kSecond;
  if (run.begin.subject != SubjectKind::kPid || !run.end) return std::nullopt;
  const BootNs span = run.end->at - run.begin.at;
  if (span >= kEnough || run.end->reason == RunEndReason::kSubjectEnded) return std::nullopt;
  return Gap{
      .what = "whether a worker has lost a batch (DLP0106)",
      .why = "the watch of " + format_duration(std::chrono::nanoseconds(span)) +
             " is shorter than two of the 5 s waits of an idle worker",
      .effect = "dlprobe cannot tell such a hang from a loader that waits for its training loop",
      .remedy = "watch longer: --for 15s"};
}

}  // namespace dlprobe::probes::shm
