
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "lib/model/memory_need.h"
#include "lib/model/shm_forecast.h"
#include "reports/model/sections.h"

namespace dlprobe {
namespace {

report::Plan plan_of(const LoaderPlan& plan) {
  return {.workers = plan.workers,
          .batch_size = plan.batch_size,
          .sample_shape = plan.sample_shape,
          .dtype = plan.dtype,
          .prefetch_factor = plan.prefetch_factor,
          .start_method = plan.start_method,
          .sharing_strategy = plan.sharing_strategy,
          .pin_memory = plan.pin_memory,
          .persistent_workers = plan.persistent_workers,
          .epochs = plan.epochs,
          .batches = plan.batches,
          .device = plan.device,
          .data_dir = plan.data_dir,
          .fault = plan.fault};
}

// How full one mount was over a run. `rise` is what the run itself added at the most.
struct MountUse {
  const ShmUse* first = nullptr;
  const ShmUse* peak = nullptr;
  const ShmUse* last = nullptr;

  uint64_t rise_bytes() const {
    return peak->used_bytes - std::min(first->used_bytes, peak->used_bytes);
  }
};

std::map<uint64_t, MountUse> use_by_device(const Run& run) {
  std::map<uint64_t, MountUse> result;
  for (const ShmUse& use : run.shm_use) {
    MountUse& mount = result[use.device];
    if (mount.first == nullptr) mount.first = &use;
    if (mount.peak == nullptr || use.used_bytes > mount.peak->used_bytes) mount.peak = &use;
    mount.last = &use;
  }
  return result;
}

void put_use(report::ShmMount& entry, const MountUse& use, const TimeOfDay& time) {
  if (use.last->size_bytes > 0) entry.size_bytes = use.last->size_bytes;
  entry.first_used_bytes = use.first->used_bytes;
  entry.peak_used_bytes = use.peak->used_bytes;
  entry.peak = time.moment(use.peak->at);
  entry.last_used_bytes = use.last->used_bytes;
  if (use.last->inodes > 0) entry.inodes = use.last->inodes;
  entry.last_inodes_used = use.last->inodes_used;
}

std::vector<report::ShmMount> mounts_of(const Run& run, const std::map<uint64_t, MountUse>& uses,
                                        const TimeOfDay& time) {
  std::vector<report::ShmMount> result;
  std::set<uint64_t> told;  // one tmpfs may be seen through several namespaces
  for (const ShmMount& mount : run.mounts) {
    if (!told.insert(mount.device).second) continue;
    report::ShmMount& entry = result.emplace_back();
    entry.mount_point = mount.mount_point;
    entry.device = mount.device;
    entry.fs_type = mount.fs_type;
    entry.options = mount.options;
    entry.seen_through_pid = mount.seen_through.pid;
    if (const auto found = uses.find(mount.device); found != uses.end())
      put_use(entry, found->second, time);
  }
  return result;
}

// The sum over a sample's processes, or nothing if one of them lacks the value: never a smaller
// sum.
template <class Get>
std::optional<uint64_t> sum_of(const Sample& sample, Get get) {
  uint64_t sum = 0;
  for (const ProcessSample& process : sample.processes) {
    const std::optional<uint64_t> value = get(process);
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

size_t count_living(const Sample& sample) {
  return static_cast<size_t>(std::ranges::count_if(
      sample.processes, [](const ProcessSample& process) { return process.state != 'Z'; }));
}

// PSS is costly to read, so each process has its turn: the sum of the newest values, once there is
// one of every process that lives. Only of the tree at its largest: a sum from before the workers
// were started would not be comparable with the peak of RSS.
class PssSum {
 public:
  explicit PssSum(const Run& run) {
    for (const Sample& sample : run.samples)
      most_living_ = std::max(most_living_, count_living(sample));
  }

  std::optional<uint64_t> add(const Sample& sample) {
    for (const ProcessSample& process : sample.processes) {
      if (const auto pss = value_of(process.pss_bytes)) newest_[process.key] = *pss;
    }
    if (count_living(sample) < most_living_) return std::nullopt;
    uint64_t sum = 0;
    for (const ProcessSample& process : sample.processes) {
      if (process.state == 'Z') continue;  // has no memory any more
      const auto known = newest_.find(process.key);
      if (known == newest_.end()) return std::nullopt;
      sum += known->second;
    }
    return sum;
  }

 private:
  std::map<ProcessKey, uint64_t> newest_;
  size_t most_living_ = 0;
};

void put_resources(report::Run& entry, const Run& run) {
  std::optional<uint64_t> rss;
  std::optional<uint64_t> pss;
  std::optional<uint64_t> swap;
  std::optional<uint64_t> fds;
  size_t processes = 0;
  PssSum pss_sum(run);
  for (const Sample& sample : run.samples) {
    processes = std::max(processes, sample.processes.size());
    if (sample.processes.empty()) continue;
    raise(rss, sum_of(sample, [](const auto& p) { return value_of(p.rss_bytes); }));
    raise(pss, pss_sum.add(sample));
    raise(swap, sum_of(sample, [](const auto& p) { return value_of(p.swap_bytes); }));
    for (const ProcessSample& process : sample.processes)
      raise(fds, value_of(process.fd_count));
  }
  entry.rss_sum_peak_bytes = rss;
  entry.pss_sum_peak_bytes = pss;
  entry.swap_sum_peak_bytes = swap;
  entry.fds_of_one_process_peak = fds;
  entry.processes_peak = processes;
  entry.samples = run.samples.size();
}

std::optional<report::Loader> loader_of(const Run& run) {
  if (!run.loader && !run.done && run.batches.empty()) return std::nullopt;
  report::Loader entry;
  if (run.loader) {
    const LoaderHello& hello = *run.loader;
    entry.device = hello.device;
    entry.device_name = hello.device_name;
    entry.libtorch = hello.libtorch;
    entry.opencv = hello.opencv;
    entry.images = hello.images;
    entry.batches_per_epoch = hello.batches_per_epoch;
  }
  if (run.done) {
    const LoaderDone& done = *run.done;
    entry.images_delivered = done.images;
    entry.first_batch_s = done.first_batch_s;
    if (done.seconds > 0) entry.images_per_s = static_cast<double>(done.images) / done.seconds;
    entry.broken_images = done.broken_images;
  }
  double waited_s = 0;
  double all_s = 0;
  for (const LoaderBatch& batch : run.batches) {
    waited_s += batch.wait_s;
    all_s += batch.wait_s + batch.copy_s + batch.step_s;
  }
  if (!run.batches.empty()) entry.batches_seen = run.batches.size();
  if (all_s > 0) entry.wait_share = waited_s / all_s;
  return entry;
}

void put_forecast(report::Run& entry, const Run& run, const std::map<uint64_t, MountUse>& uses,
                  uint64_t page_size) {
  // What was there before dlprobe started the subject is not the subject's.
  const bool is_ours = run.begin.subject != SubjectKind::kPid;
  std::optional<uint64_t> rise;
  for (const auto& [device, use] : uses)
    raise(rise, is_ours ? use.rise_bytes() : use.peak->used_bytes);
  const bool started = !run.end || run.end->reason != RunEndReason::kNotStarted;
  if (started) entry.shm_peak_bytes = rise;
  if (!run.begin.plan) return;
  const ShmForecast forecast = forecast_shm(*run.begin.plan, page_size);
  entry.forecast = {.shm_bytes = forecast.bytes,
                    .batch_bytes = forecast.batch_bytes,
                    .batches = forecast.batches,
                    .formula = forecast.formula};
  const bool has_run = !run.begin.preflight && !run.batches.empty();
  if (rise && has_run && forecast.bytes > 0) {
    entry.shm_peak_over_forecast = static_cast<double>(*rise) / static_cast<double>(forecast.bytes);
  }
}

// What the memory comes up against, and how many workers more that is.
std::optional<report::RunMemory> memory_of(const Run& run, const ReportSource& source) {
  const std::optional<MemoryLimit> limit = nearest_memory_limit(run, last_at_work(run));
  if (!limit) return std::nullopt;
  report::RunMemory memory;
  memory.limit = {.name = source.sentences.text_of(limit->name),
                  .bytes = limit->bytes,
                  .left_bytes = limit->left_bytes,
                  .source = limit->source,
                  .seen = source.time.moment(limit->at)};
  if (const std::optional<WorkerMemory> worker = memory_of_a_worker(run)) {
    memory.worker = {
        .pid = worker->key.pid,
        .private_bytes = worker->own_bytes,
        .to_copy_bytes = worker->to_copy_bytes,
        .more_workers = limit->left_bytes / std::max<uint64_t>(worker->own_bytes, 1),
        .more_workers_if_copied = limit->left_bytes / std::max<uint64_t>(worker->most_bytes(), 1),
        .seen = source.time.moment(worker->at)};
  }
  return memory;
}

std::optional<report::WaitGraph> further_wait_graph(const ReportSource& source, size_t index) {
  for (const WaitGraph& graph : source.verdict.wait_graphs) {
    const bool is_this = std::cmp_equal(graph.run, index);
    if (is_this && &graph != main_wait_graph(source.verdict)) return wait_graph_of(graph, source);
  }
  return std::nullopt;
}

report::Run run_entry(const Run& run, size_t index, const ReportSource& source) {
  const RunSpan span = span_of(run);
  report::Run entry;
  entry.index = index;
  entry.subject = run.begin.subject;
  entry.asked_pid = run.begin.asked_pid;
  entry.command = report::if_any(run.begin.command);
  entry.preflight = run.begin.preflight;
  entry.plan = run.begin.plan.transform(plan_of);
  entry.started = source.time.moment(span.begin);
  entry.duration_s = seconds_between(span.begin, span.end);
  if (run.end)
    entry.end = {.reason = run.end->reason, .text = source.sentences.text_of(run.end->text)};
  const auto uses = use_by_device(run);
  put_forecast(entry, run, uses, source.recording.header.host.page_size);
  put_resources(entry, run);
  entry.memory = memory_of(run, source);
  entry.trial = trial_of(run, source, index);
  entry.loader = loader_of(run);
  entry.shm_mounts = mounts_of(run, uses, source.time);
  entry.shm_ledgers = ledgers_of(run, source);
  entry.wait_graph = further_wait_graph(source, index);
  return entry;
}

}  // namespace

std::vector<report::Run> runs_section(const ReportSource& source) {
  std::vector<report::Run> result;
  result.reserve(source.recording.runs.size());
  for (size_t i = 0; i < source.recording.runs.size(); ++i)
    result.push_back(run_entry(source.recording.runs[i], i, source));
  return result;
}

}  // namespace dlprobe
