#include "tools/dlprobe/speed_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace dlprobe {
namespace {

constexpr size_t kLeastBatches = 8;
constexpr size_t kLeastTurns = 2;
constexpr double kMostWindows = 6;
constexpr double kLeastPatienceS = 20;

double seconds(BootNs duration) {
  return static_cast<double>(duration) / 1e9;
}

size_t batches_to_leave_out(const TuneSetting& setting) {
  constexpr size_t kWithoutWorkers = 2;
  if (setting.workers <= 0 || setting.variant == TuneVariant::kStepAlone) return kWithoutWorkers;
  const auto in_flight =
      static_cast<size_t>(setting.workers) * static_cast<size_t>(setting.prefetch_factor);
  return std::max(in_flight, kWithoutWorkers);
}

}  // namespace

SpeedMeter::SpeedMeter(const Machine& machine, RecordSink& sink, const TuneSetting& setting,
                       const TuneRequest& request)
    : machine_(machine),
      sink_(sink),
      setting_(setting),
      window_s_(request.window_s),
      most_s_(std::max(kMostWindows * request.window_s, kLeastPatienceS)),
      started_at_(machine.clock->now()),
      to_leave_out_(batches_to_leave_out(setting)) {}

void SpeedMeter::add(Record record) {
  if (const auto* info = std::get_if<ProcessInfo>(&record)) {
    roles_[info->key] = info->role;
  } else if (const auto* sample = std::get_if<Sample>(&record)) {
    take(*sample);
  } else if (const auto* batch = std::get_if<LoaderBatch>(&record)) {
    take(*batch);
  } else if (const auto* event = std::get_if<Event>(&record)) {
    if (event->kind == "loader-error") error_ = event->text;
  }
  sink_.add(std::move(record));
}

void SpeedMeter::take(const LoaderBatch& batch) {
  if (!first_batch_at_) first_batch_at_ = batch.at;
  if (++seen_ < to_leave_out_ || after_) return;
  if (seen_ == to_leave_out_) before_ = look_at_cpu(machine_, living_);
  batches_.push_back({.at = batch.at,
                      .samples = batch.samples,
                      .wait_s = batch.wait_s,
                      .step_s = batch.step_s + batch.copy_s});
}

void SpeedMeter::take(const Sample& sample) {
  living_.clear();
  uint64_t sum = 0;
  bool is_whole = true;
  for (const ProcessSample& process : sample.processes) {
    if (process.state == 'Z') continue;
    living_.push_back(process.key);
    if (process.pss_bytes && *process.pss_bytes) pss_[process.key] = **process.pss_bytes;
    if (process.fd_count && *process.fd_count)
      fds_ = std::max(fds_.value_or(0), **process.fd_count);
    const auto pss = pss_.find(process.key);
    is_whole = is_whole && pss != pss_.end();
    sum += pss == pss_.end() ? 0 : pss->second;
  }
  if (is_whole && !living_.empty()) memory_bytes_ = std::max(memory_bytes_.value_or(0), sum);
  uint64_t used = 0;
  for (const Observed<ShmUse>& use : sample.shm)
    used += use ? use->used_bytes : 0;
  if (sample.shm.empty()) return;
  if (!shm_before_) shm_before_ = used;
  shm_most_ = std::max(shm_most_.value_or(0), used);
}

double SpeedMeter::since_start_s() const {
  return seconds(machine_.clock->now() - started_at_);
}

// They deliver in turns, so a window holds whole turns.
size_t SpeedMeter::turn() const {
  const bool has_workers = setting_.workers > 0 && setting_.variant != TuneVariant::kStepAlone;
  return has_workers ? static_cast<size_t>(setting_.workers) : 1;
}

bool SpeedMeter::has_window() const {
  if (batches_.size() < 2) return false;
  const size_t count = batches_.size() - 1;
  return count >= std::max(kLeastBatches, kLeastTurns * turn()) &&
         seconds(batches_.back().at - batches_.front().at) >= window_s_;
}

bool SpeedMeter::is_enough() {
  if (after_) return true;
  if (!has_window() && since_start_s() < most_s_) return false;
  after_ = look_at_cpu(machine_, living_);
  return true;
}

SpeedMeasurement SpeedMeter::result() const {
  SpeedMeasurement speed{.at = machine_.clock->now(),
                         .setting = setting_,
                         .memory_bytes = memory_bytes_,
                         .fds = fds_,
                         .failure = error_};
  if (first_batch_at_) speed.first_batch_s = seconds(*first_batch_at_ - started_at_);
  for (const auto& [key, bytes] : pss_) {
    const auto role = roles_.find(key);
    if (role != roles_.end() && role->second == Role::kWorker)
      speed.worker_memory_bytes = std::max(speed.worker_memory_bytes.value_or(0), bytes);
  }
  if (shm_before_ && shm_most_) speed.shm_bytes = *shm_most_ - std::min(*shm_before_, *shm_most_);
  if (before_ && after_) speed.processes = cpu_between(*before_, *after_);
  for (ProcessCpu& process : speed.processes) {
    const auto role = roles_.find(process.key);
    if (role != roles_.end()) process.role = role->second;
  }
  const size_t whole = batches_.empty() ? 0 : (batches_.size() - 1) / turn() * turn();
  if (!speed.failure.empty()) return speed;
  if (whole == 0) {
    speed.failure = fmt::format("{} in {:.0f} s, which is no steady state",
                                seen_ == 1 ? "1 batch came" : fmt::format("{} batches came", seen_),
                                since_start_s());
    return speed;
  }
  speed.at = batches_[whole].at;
  speed.window_s = seconds(batches_[whole].at - batches_.front().at);
  speed.batches = static_cast<int64_t>(whole);
  for (size_t i = 1; i <= whole; ++i) {
    speed.samples += batches_[i].samples;
    speed.wait_s += batches_[i].wait_s;
    speed.step_s += batches_[i].step_s;
  }
  return speed;
}

}  // namespace dlprobe
