#include "lib/session/speed_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace dlprobe {
namespace {

constexpr int64_t kLeastBatches = 5;
constexpr int64_t kLeastTurns = 2;
constexpr double kMostWindows = 6;
constexpr double kLeastPatienceS = 20;
// Of a script that imports much, or reads a large dataset first.
constexpr double kPatienceForScriptS = 60;

double seconds(BootNs duration) {
  return static_cast<double>(duration) / 1e9;
}

int64_t batches_to_leave_out(const TuneSetting& setting) {
  constexpr int64_t kWithoutWorkers = 2;
  if (setting.workers <= 0 || setting.variant == TuneVariant::kStepAlone) return kWithoutWorkers;
  const int64_t in_flight = int64_t{setting.workers} * setting.prefetch_factor;
  return std::max(in_flight, kWithoutWorkers);
}

}  // namespace

SpeedMeter::SpeedMeter(const Machine& machine, RecordSink& sink, const TuneSetting& setting,
                       const TuneRequest& request)
    : machine_(machine),
      sink_(sink),
      setting_(setting),
      window_s_(request.window_s),
      most_s_(std::max(kMostWindows * request.window_s,
                       request.knows_batch ? kLeastPatienceS : kPatienceForScriptS)),
      started_at_(machine.clock->now()),
      to_leave_out_(batches_to_leave_out(setting)) {}

void SpeedMeter::add(Record record) {
  if (const auto* info = std::get_if<ProcessInfo>(&record)) {
    use_.take(*info);
  } else if (const auto* sample = std::get_if<Sample>(&record)) {
    use_.take(*sample);
  } else if (const auto* batch = std::get_if<LoaderBatch>(&record)) {
    take(*batch);
  } else if (const auto* told = std::get_if<StartEvent>(&record)) {
    take(*told);
  } else if (const auto* event = std::get_if<Event>(&record);
             event != nullptr && event->kind == kLoaderError) {
    error_ = event->text.plain();
  }
  sink_.add(std::move(record));
}

void SpeedMeter::take(const LoaderBatch& batch) {
  note({.at = batch.at,
        .batches = sum_.batches + 1,
        .samples = sum_.samples + batch.samples,
        .wait_s = sum_.wait_s + batch.wait_s,
        .step_s = sum_.step_s + batch.step_s + batch.copy_s});
}

// Its counts begin anew with each iterator.
void SpeedMeter::take(const StartEvent& event) {
  if (event.kind != StartEventKind::kBatches || !event.count) return;
  const auto [last, is_first] = told_.try_emplace(event.process, event);
  const bool goes_on = !is_first && event.count >= last->second.count;
  const int64_t before = goes_on ? last->second.count.value_or(0) : 0;
  const double waited_before = goes_on ? last->second.seconds.value_or(0) : 0;
  last->second = event;
  note({.at = event.at,
        .batches = sum_.batches + *event.count - before,
        .samples = 0,
        .wait_s = sum_.wait_s + event.seconds.value_or(0) - waited_before,
        .step_s = 0});
}

void SpeedMeter::note(const Progress& progress) {
  if (!first_batch_at_) first_batch_at_ = progress.at;
  sum_ = progress;
  if (sum_.batches < to_leave_out_ || after_) return;
  if (window_.empty()) before_ = look_at_cpu(machine_, use_.living());
  window_.push_back(sum_);
}

double SpeedMeter::since_start_s() const {
  return seconds(machine_.clock->now() - started_at_);
}

int64_t SpeedMeter::turn() const {
  const bool has_workers = setting_.workers > 0 && setting_.variant != TuneVariant::kStepAlone;
  return has_workers ? setting_.workers : 1;
}

bool SpeedMeter::has_window() const {
  if (window_.empty()) return false;
  return sum_.batches - window_.front().batches >= std::max(kLeastBatches, kLeastTurns * turn()) &&
         seconds(sum_.at - window_.front().at) >= window_s_;
}

// Workers deliver in turns, so a window holds whole turns, where that can be had without losing
// much of it. Null: nothing came after its beginning.
const SpeedMeter::Progress* SpeedMeter::end_of_window() const {
  if (window_.size() < 2) return nullptr;
  const Progress& begin = window_.front();
  for (auto place = window_.rbegin(); place + 1 != window_.rend(); ++place) {
    if (2 * (place->batches - begin.batches) < sum_.batches - begin.batches) break;
    if ((place->batches - begin.batches) % turn() == 0) return &*place;
  }
  return &window_.back();
}

bool SpeedMeter::is_enough() {
  if (after_) return true;
  if (!has_window() && since_start_s() < most_s_) return false;
  after_ = look_at_cpu(machine_, use_.living());
  return true;
}

SpeedMeasurement SpeedMeter::result() const {
  SpeedMeasurement speed{.at = machine_.clock->now(), .setting = setting_, .failure = error_};
  if (first_batch_at_) speed.first_batch_s = seconds(*first_batch_at_ - started_at_);
  if (before_ && after_) speed.processes = cpu_between(*before_, *after_);
  use_.put(speed);
  if (!speed.failure.empty()) return speed;
  const Progress* end = end_of_window();
  if (end == nullptr || end->at <= window_.front().at) {
    speed.failure = fmt::format(
        "only {} in {:.0f} s: no steady state",
        sum_.batches == 1 ? "1 batch came" : fmt::format("{} batches came", sum_.batches),
        since_start_s());
    return speed;
  }
  const Progress& begin = window_.front();
  speed.at = end->at;
  speed.window_s = seconds(end->at - begin.at);
  speed.batches = end->batches - begin.batches;
  speed.samples = end->samples - begin.samples;
  speed.wait_s = end->wait_s - begin.wait_s;
  speed.step_s = end->step_s - begin.step_s;
  return speed;
}

}  // namespace dlprobe
