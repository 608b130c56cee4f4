#include "lib/collect/tree/second_tier.h"

#include <algorithm>
#include <chrono>
#include <functional>

#include "lib/collect/tree/thread_waits.h"
#include "lib/proc/pid_io.h"
#include "lib/proc/pid_status.h"
#include "lib/proc/smaps_rollup.h"

namespace dlprobe {
namespace {

constexpr size_t kMostSampledThreads = 16;

// Measured on Linux 6.18: 12 ms per GiB of 4-KiB pages, and 50 us whatever the size.
constexpr double kPssNsPerByte = 12e6 / (1U << 30U);
constexpr BootNs kPssFixedNs = 50'000;
constexpr std::chrono::nanoseconds kShortestDeadline = std::chrono::milliseconds(40);
/// A walk of a large mapping stalls the target's own mmap for as long: above this, seldom or never.
constexpr BootNs kLongWalk = 5'000'000;
constexpr BootNs kTooLongWalk = 50'000'000;
constexpr BootNs kLongWalkPeriod = 10'000'000'000;
/// Who has touched no new page has nothing new to show, but what others did with pages it shares.
constexpr uint64_t kFewFaults = 512;
constexpr BootNs kIdlePeriod = 2'000'000'000;
constexpr BootNs kIdlePeriodInLargeTree = 2 * kIdlePeriod;
/// Of who stands still in a large tree: what status says is then the same, too.
constexpr BootNs kStatusPeriod = 5'000'000'000;

BootNs expected_walk(const TrackedProcess& process) {
  const uint64_t rss = process.sample.rss_bytes.value_or(0);
  return kPssFixedNs + static_cast<BootNs>(kPssNsPerByte * static_cast<double>(rss));
}

/// Page faults since its last look; who has had none goes first.
uint64_t faults_to_show(const TrackedProcess* process) {
  if (process->pss.at == 0) return UINT64_MAX;
  const uint64_t now = process->sample.minor_faults;
  return now - std::min(now, process->pss.faults);
}

bool is_due(const ProcessTree& tree, const TrackedProcess& process, BootNs now) {
  if (process.pss.at == 0) return true;
  const BootNs since = now - process.pss.at;
  if (expected_walk(process) > kLongWalk && since < kLongWalkPeriod) return false;
  const BootNs idle = tree.is_large() ? kIdlePeriodInLargeTree : kIdlePeriod;
  return faults_to_show(&process) >= kFewFaults || since >= idle;
}

void read_status(ProcessTree& tree, TrackedProcess& process) {
  const auto status = chain(process.directory->read("status"), parse_pid_status);
  if (!status) {
    process.sample.swap_bytes = Observed<uint64_t>(std::unexpected(status.error()));
    return;
  }
  tree.note_signals_caught(process, status->signals_caught);
  if (status->swap_bytes.has_value()) {
    process.sample.swap_bytes = Observed<uint64_t>(status->swap_bytes.value_or(0));
  }
  process.sample.page_table_bytes = status->page_table_bytes;
}

// Of others it is not asked for: each file costs.
std::optional<uint64_t> calls_of_main(const TrackedProcess& process) {
  if (!takes_part(process.info.role)) return std::nullopt;
  const std::string path = "task/" + std::to_string(process.key.pid) + "/io";
  const auto calls = chain(process.directory->read(path), parse_pid_io_calls);
  return calls ? std::optional(*calls) : std::nullopt;
}

}  // namespace

void SecondTier::read(ProcessTree& tree, BootNs now) {
  for (auto& [key, process] : tree.members()) {
    if (!is_alive(process)) continue;
    if (!tree.stands_still(process) || now - process.pace.status_at >= kStatusPeriod) {
      process.pace.status_at = now;
      read_status(tree, process);
    }
    process.sample.io_calls = chain(process.directory->read("io"), parse_pid_io_calls);
    process.main_calls = calls_of_main(process);
  }
  if (waits_) read_waits(tree);
  if (pss_) read_pss(tree, now);
}

/// All of them in one job of the helper thread: a job costs two switches of threads.
void SecondTier::read_waits(ProcessTree& tree) {
  using Waits = Observed<std::vector<ThreadWait>>;
  struct Request {
    ProcessKey key;
    std::shared_ptr<const Directory> directory;
  };
  std::vector<Request> requests;
  for (const auto& [key, process] : tree.members()) {
    if (is_alive(process) && takes_part(process.info.role)) {
      requests.push_back({.key = key, .directory = process.directory});
    }
  }
  if (requests.empty()) return;
  const auto answers = reader_->run<std::vector<Waits>>(
      "read where threads wait",
      [processes = machine_.processes, requests] -> Expected<std::vector<Waits>> {
        std::vector<Waits> waits;
        waits.reserve(requests.size());
        for (const Request& request : requests) {
          waits.push_back(read_thread_waits(*processes, *request.directory, request.key.pid,
                                            kMostSampledThreads));
        }
        return waits;
      });
  for (size_t i = 0; i < requests.size(); ++i) {
    tree.members().at(requests[i].key).sample.waits =
        answers ? (*answers)[i] : Waits(std::unexpected(answers.error()));
  }
}

/// Those with the most page faults since their last look first, as long as the budget lasts: they
/// are who takes memory, or copies what was shared.
void SecondTier::read_pss(ProcessTree& tree, BootNs now) {
  budget_.refill(now);
  std::vector<TrackedProcess*> queue;
  for (auto& [key, process] : tree.members()) {
    if (is_alive(process) && expected_walk(process) <= kTooLongWalk && is_due(tree, process, now))
      queue.push_back(&process);
  }
  std::ranges::stable_sort(queue, std::greater(), faults_to_show);
  size_t count = 0;
  BootNs expected = 0;
  while (count < queue.size() && budget_.has(expected + expected_walk(*queue[count])))
    expected += expected_walk(*queue[count++]);
  queue.resize(count);
  if (!queue.empty()) read_pss_of(queue, expected, now);
}

/// All of them in one job of the helper thread, as with the waits.
void SecondTier::read_pss_of(const std::vector<TrackedProcess*>& processes, BootNs expected,
                             BootNs now) {
  using Text = Expected<std::string>;
  std::vector<std::shared_ptr<const Directory>> directories;
  directories.reserve(processes.size());
  for (const TrackedProcess* process : processes)
    directories.push_back(process->directory);
  const BootNs before = machine_.clock->now();
  const auto texts = reader_->run<std::vector<Text>>(
      "read smaps_rollup",
      [directories] -> Expected<std::vector<Text>> {
        std::vector<Text> result;
        result.reserve(directories.size());
        for (const auto& directory : directories)
          result.push_back(directory->read("smaps_rollup"));
        return result;
      },
      std::max(std::chrono::nanoseconds(4 * expected), kShortestDeadline));
  // On a busy machine most of that time is not spent, but waited for.
  budget_.spend(std::min(machine_.clock->now() - before, 2 * expected));
  for (size_t i = 0; i < processes.size(); ++i) {
    const auto rollup =
        chain(texts ? (*texts)[i] : Text(std::unexpected(texts.error())), parse_smaps_rollup);
    ProcessSample& sample = processes[i]->sample;
    sample.pss_bytes =
        chain(rollup, [](const SmapsRollup& sums) -> Observed<uint64_t> { return sums.pss_bytes; });
    // Who did not answer in time is asked again.
    if (!rollup && rollup.error().code == ErrorCode::kTimeout) continue;
    processes[i]->pss.at = now;
    processes[i]->pss.faults = sample.minor_faults;
    if (!rollup) continue;
    sample.pss_anon_bytes = rollup->pss_anon_bytes;
    sample.private_bytes = rollup->private_bytes;
  }
}

}  // namespace dlprobe
