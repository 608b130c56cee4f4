#include "tools/dlprobe/top/job_picture.h"

#include <algorithm>
#include <ranges>
#include <tuple>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "lib/model/run_words.h"

namespace dlprobe {
namespace {

// Rates are counted over so long at least: a clock tick of CPU time is 10 ms.
constexpr BootNs kRateSpan = kSecond;
// A chain of parents that is longer is none.
constexpr int kDeepestTree = 64;

double per_second(uint64_t before, uint64_t after, BootNs span) {
  if (after < before || span <= 0) return 0;
  return static_cast<double>(after - before) * static_cast<double>(kSecond) /
         static_cast<double>(span);
}

std::optional<uint64_t> known_value(const Observed<uint64_t>& value) {
  return value ? std::optional(*value) : std::nullopt;
}

bool is_of_loader(const TopProcess& process) {
  return process.role == Role::kTrainer || process.role == Role::kWorker;
}

// Launchers first, then each trainer with its workers, then the rest; and counts the workers.
void arrange(std::vector<TopProcess>& processes, const std::map<ProcessKey, ProcessKey>& trainers) {
  std::ranges::sort(processes, {}, [&](const TopProcess& process) {
    const bool is_launcher = process.role == Role::kLauncher;
    return std::tuple(!is_launcher, !is_launcher && !is_of_loader(process),
                      process.rank.value_or(0), trainers.at(process.key),
                      process.role == Role::kWorker, process.key.start_ticks, process.key.pid);
  });
  std::map<ProcessKey, size_t> counts;
  for (TopProcess& process : processes) {
    if (process.role == Role::kWorker && !process.has_ended)
      process.index = counts[trainers.at(process.key)]++;
  }
}

}  // namespace

void JobPicture::take(const HostFacts& host, const Run& run) {
  host_ = host;
  root_ = run.begin.root.value_or(ProcessKey{});
  for (const ProcessInfo& info : run.processes) {
    ProcessInfo& known = infos_[info.key];
    if (known != info) known = info;
  }
  const auto newer = std::ranges::find_if(run.samples | std::views::reverse,
                                          [&](const Sample& each) { return each.at <= at_; });
  for (auto sample = newer.base(); sample != run.samples.end(); ++sample)
    take(*sample);
  take_ledgers(run.ledgers);
  if (!run.shm_use.empty()) shm_.insert_or_assign(run.shm_use.back().device, run.shm_use.back());
  if (!ended_during_watch(run)) return;
  const ProcessExit* exit = run.find_exit(root_);
  end_ = exit == nullptr ? "its status is not known" : describe_exit(exit->wait_status).plain();
}

void JobPicture::take(const Sample& sample) {
  at_ = sample.at;
  std::map<ProcessKey, Known> old;
  std::swap(old, known_);
  for (const ProcessSample& process : sample.processes) {
    if (auto node = old.extract(process.key)) known_.insert(std::move(node));
    take(process, sample.at);
  }
  // The picture of a job that has ended is that of its last processes.
  if (sample.processes.empty()) known_ = std::move(old);
  for (const auto& use : sample.shm)
    if (use) shm_.insert_or_assign(use->device, *use);
  if (sample.cgroup && *sample.cgroup) cgroup_ = **sample.cgroup;
}

void JobPicture::take(const ProcessSample& sample, BootNs at) {
  Known& known = known_[sample.key];
  take_rates(known, sample, at);
  if (sample.pss_bytes && *sample.pss_bytes) {
    known.pss_bytes = **sample.pss_bytes;
    known.pss_at = at;
  }
  const auto fds = known.sample.fd_count;
  // Where it waits is read once a second.
  const bool was_read = sample.waits || sample.state != 'S' || known.state.empty();
  if (was_read) known.state = state_words(sample, host_.machine);
  known.sample = sample;
  if (!sample.fd_count) known.sample.fd_count = fds;
}

void JobPicture::take_rates(Known& known, const ProcessSample& sample, BootNs at) const {
  const uint64_t ticks = sample.utime_ticks + sample.stime_ticks;
  const bool is_new = known.marked_at == 0;
  bool has_moved = is_new || ticks != known.last_ticks;
  known.last_ticks = ticks;
  if (is_new) {
    known.marked_at = at;
    known.marked_ticks = ticks;
  } else if (at - known.marked_at >= kRateSpan) {
    known.cpu = per_second(known.marked_ticks, ticks, at - known.marked_at) /
                static_cast<double>(std::max<uint64_t>(host_.ticks_per_second, 1));
    known.marked_at = at;
    known.marked_ticks = ticks;
  }
  if (sample.io_calls && *sample.io_calls) {
    const uint64_t calls = **sample.io_calls;
    if (known.io_calls) known.io_rate = per_second(*known.io_calls, calls, at - known.io_at);
    has_moved = has_moved || known.io_calls != calls;
    known.io_calls = calls;
    known.io_at = at;
  }
  if (has_moved) known.moved_at = at;
}

void JobPicture::take_ledgers(const std::vector<ShmLedger>& ledgers) {
  if (ledgers.empty() || ledgers.back().at <= ledger_at_) return;
  ledger_at_ = ledgers.back().at;
  shm_bytes_.clear();
  // The newest of each mount.
  std::vector<uint64_t> seen;
  for (const ShmLedger& ledger : ledgers | std::views::reverse) {
    if (std::ranges::count(seen, ledger.device) > 0) continue;
    seen.push_back(ledger.device);
    for (const ShmSegment& segment : ledger.segments) {
      for (const SegmentHolder& holder : segment.holders)
        shm_bytes_[holder.key] += segment.taken_bytes();
    }
  }
}

std::optional<ProcessKey> JobPicture::trainer_of(const ProcessKey& key) const {
  auto found = infos_.find(key);
  for (int depth = 0; found != infos_.end() && depth < kDeepestTree; ++depth) {
    if (found->second.role == Role::kTrainer) return found->first;
    const int32_t parent = found->second.ppid;
    const auto lives =
        std::ranges::find_if(known_, [&](const auto& entry) { return entry.first.pid == parent; });
    found = lives == known_.end() ? infos_.end() : infos_.find(lives->first);
  }
  return std::nullopt;
}

TopProcess JobPicture::describe_process(const ProcessKey& key, const Known& known) const {
  TopProcess process{.key = key,
                     .state = known.state,
                     .cpu = known.cpu,
                     .io_rate = known.io_rate,
                     .rss_bytes = known_value(known.sample.rss_bytes),
                     .pss_bytes = known.pss_bytes,
                     .has_ended = known.sample.state == 'Z' || known.sample.state == 'X'};
  // Whether it read or wrote is part of it.
  if (known.io_calls && !process.has_ended) process.still = at_ - known.moved_at;
  if (known.pss_bytes) process.pss_age = at_ - known.pss_at;
  if (known.sample.fd_count) process.fds = known_value(*known.sample.fd_count);
  if (ledger_at_ != 0) {
    const auto shm = shm_bytes_.find(key);
    process.shm_bytes = shm == shm_bytes_.end() ? 0 : shm->second;
  }
  const ProcessInfo* info = info_of(key);
  if (info == nullptr) return process;
  process.role = info->role;
  const auto trainer = is_of_loader(process) ? trainer_of(key) : std::nullopt;
  const ProcessInfo* ranked = trainer ? info_of(*trainer) : info;
  const JobRank* rank = ranked == nullptr ? nullptr : ranked->rank_of_several();
  if (rank != nullptr) process.rank = rank->rank;
  return process;
}

const ProcessInfo* JobPicture::info_of(const ProcessKey& key) const {
  const auto found = infos_.find(key);
  return found == infos_.end() ? nullptr : &found->second;
}

TopPicture JobPicture::picture() const {
  TopPicture picture{.at = at_, .root_pid = root_.pid, .end = end_};
  if (const ProcessInfo* root = info_of(root_)) picture.command = root->cmdline;
  // The script tells the job, not the folder of its interpreter.
  if (!picture.command.empty()) picture.command.front() = base_name(picture.command.front());
  if (root_.pid != 0 && host_.ticks_per_second != 0) {
    const auto tick_ns = kSecond / static_cast<int64_t>(host_.ticks_per_second);
    picture.age = std::max<BootNs>(at_ - static_cast<int64_t>(root_.start_ticks) * tick_ns, 0);
  }
  std::map<ProcessKey, ProcessKey> trainers;
  for (const auto& [key, known] : known_) {
    picture.processes.push_back(describe_process(key, known));
    trainers.emplace(key, trainer_of(key).value_or(ProcessKey{}));
  }
  arrange(picture.processes, trainers);
  for (const auto& [device, use] : shm_)
    picture.shm.push_back(use);
  if (cgroup_) {
    picture.memory_used_bytes = cgroup_->used_bytes;
    picture.memory_limit_bytes = cgroup_->limit_bytes;
  }
  return picture;
}

}  // namespace dlprobe
