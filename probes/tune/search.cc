#include "probes/tune/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/tune/table.h"

namespace dlprobe::probes::tune {
namespace {

constexpr size_t kMostRepeats = 12;
constexpr size_t kLeastRepeats = 3;
constexpr int kMostWorkers = 1024;
// Shares of the budget that are spent when a part of the search must be over.
constexpr double kForLadder = 0.6;
constexpr double kForDetails = 0.75;
constexpr double kForParts = 0.9;

// Settings between which the noise does not tell yet.
class Contest {
 public:
  Contest(const Table& table, const TuneRequest& request, const Choice& choice)
      : table_(table), request_(request), choice_(choice) {}

  // Those on which the answer hangs and which the noise does not tell apart yet.
  std::vector<const Series*> contested() const {
    std::vector<const Series*> open;
    if (choice_.chosen == nullptr) return open;
    for (const Series& series : table_.series()) {
      if (!series.runs.empty() && is_contested(series)) open.push_back(&series);
    }
    const bool is_known = choice_.chosen->runs.size() >= kLeastRepeats;
    if (open.empty() && is_known) return open;
    for (const Series* series : {choice_.chosen, choice_.best}) {
      if (std::ranges::find(open, series) == open.end()) open.push_back(series);
    }
    return open;
  }

 private:
  bool is_contested(const Series& series) const {
    if (series.setting.variant == TuneVariant::kOneThread) return is_gain_unclear(series);
    const bool is_other =
        series.setting.variant == TuneVariant::kWhole && &series != choice_.chosen;
    if (!is_other) return is_twin_unclear(series);
    if (is_once_only(series)) return true;
    if (is_smaller(request_, series.setting, choice_.chosen->setting))
      return !is_surely_slower(table_, series, *choice_.best);
    return !is_surely_enough(table_, *choice_.chosen, series) || is_twin_unclear(series);
  }

  // One run may have met a bad moment. What is not even half as fast is so in any moment.
  bool is_once_only(const Series& series) const {
    constexpr double kFarOff = 0.5;
    return series.runs.size() < 2 &&
           series.log_speed - choice_.best->log_speed >= std::log(kFarOff);
  }

  // Whether one thread in each worker is faster than what it is beside.
  bool is_gain_unclear(const Series& one_thread) const {
    TuneSetting plain = one_thread.setting;
    plain.variant = TuneVariant::kWhole;
    const Series* twin = table_.find(plain);
    if (twin == nullptr || twin->runs.empty()) return false;
    return !is_surely_slower(table_, *twin, one_thread) &&
           !is_surely_enough(table_, *twin, one_thread);
  }

  bool is_twin_unclear(const Series& plain) const {
    TuneSetting twin = plain.setting;
    twin.variant = TuneVariant::kOneThread;
    const Series* one_thread = table_.find(twin);
    return plain.setting.variant == TuneVariant::kWhole && one_thread != nullptr &&
           !one_thread->runs.empty() && is_gain_unclear(*one_thread);
  }

  const Table& table_;
  const TuneRequest& request_;
  const Choice& choice_;
};

class Search {
 public:
  explicit Search(const RecordingView& recording, const TuneRequest& request)
      : recording_(recording), request_(request), table_(recording) {
    for (const Run& run : recording.runs) {
      if (!run.speed || run.speed->cost_s <= 0) continue;
      spent_s_ += run.speed->cost_s;
      ++runs_;
    }
    choice_ = choose(table_, request_);
  }

  std::optional<TuneStep> next() const {
    for (const auto& part : {step_alone(), first_tries(), prefetches(), between(), parts()}) {
      if (part) return TuneStep{.setting = *part, .round = 0};
    }
    return repeat();
  }

  bool is_settled() const { return contested().empty(); }

 private:
  std::vector<const Series*> contested() const {
    return Contest(table_, request_, choice_).contested();
  }

  bool is_tried(const TuneSetting& setting) const { return table_.find(setting) != nullptr; }

  // Whether one more run would end before that share of the budget is spent.
  bool has_time(double share) const {
    const double cost_s = runs_ > 0 ? spent_s_ / runs_ : 0;
    return spent_s_ + cost_s <= request_.budget_s * share;
  }

  // What would not fit is not started.
  bool costs_nothing(const TuneSetting& setting) const {
    return !why_it_does_not_fit(recording_, setting).empty();
  }

  bool can(TuneVariant variant) const {
    return std::ranges::find(request_.variants, variant) != request_.variants.end();
  }

  TuneSetting setting(int32_t workers, std::optional<int32_t> prefetch_factor = {}) const {
    return {.workers = workers,
            .prefetch_factor = prefetch_factor.value_or(main_prefetch()),
            .start_method = request_.start_methods.empty() ? request_.base.start_method
                                                           : request_.start_methods.front(),
            .variant = TuneVariant::kWhole};
  }

  int32_t main_prefetch() const {
    return request_.prefetch_factors.empty() ? request_.base.prefetch_factor
                                             : request_.prefetch_factors.front();
  }

  std::optional<TuneSetting> step_alone() const {
    TuneSetting alone = setting(0);
    alone.variant = TuneVariant::kStepAlone;
    if (!can(TuneVariant::kStepAlone) || is_tried(alone) || !has_time(1)) return std::nullopt;
    return alone;
  }

  // What was named, what the job has now, and the ladder.
  std::optional<TuneSetting> first_tries() const {
    if (const auto present = present_setting(request_); present && !is_tried(*present))
      return present;
    std::vector<int32_t> prefetches = request_.prefetch_factors;
    if (prefetches.empty()) prefetches = {main_prefetch()};
    for (const int32_t prefetch : prefetches) {
      if (request_.workers.empty()) {
        if (const auto step = climb(prefetch)) return step;
        continue;
      }
      for (const int32_t workers : request_.workers) {
        const TuneSetting named = setting(workers, prefetch);
        if (!is_tried(named) && (has_time(kForParts) || costs_nothing(named))) return named;
      }
    }
    return std::nullopt;
  }

  std::vector<int32_t> ladder() const {
    const int most = std::min(static_cast<int>(std::ceil(usable_cpus(request_))) + 2, kMostWorkers);
    std::vector<int32_t> rungs;
    // Of a script nothing is known of what it does without workers, and no fault is there then.
    const bool is_our_own = !recording_.runs.empty() &&
                            recording_.runs.front().begin.subject == SubjectKind::kReferenceLoader;
    const bool can_do_without = is_our_own && request_.base.fault.empty();
    if (can_do_without) rungs.push_back(0);
    for (int workers = 1; workers < most; workers *= 2)
      rungs.push_back(workers);
    rungs.push_back(most);
    return rungs;
  }

  // Upwards, until two more rungs bring nothing, the training step is the limit, or it breaks.
  std::optional<TuneSetting> climb(int32_t prefetch) const {
    constexpr double kGain = 0.02;
    constexpr int kWithoutGain = 2;
    std::optional<double> best;
    int without_gain = 0;
    for (const int32_t workers : ladder()) {
      const TuneSetting rung = setting(workers, prefetch);
      const Series* series = table_.find(rung);
      if (series == nullptr) return may_climb() ? std::optional(rung) : std::nullopt;
      if (series->runs.empty()) return std::nullopt;
      const bool gains = !best || series->log_speed > *best + kGain;
      best = std::max(best.value_or(series->log_speed), series->log_speed);
      without_gain = gains ? 0 : without_gain + 1;
      if (without_gain == kWithoutGain || is_as_fast_as_step(*series)) return std::nullopt;
    }
    return std::nullopt;
  }

  // However little time there is: without one whole run there is no answer, and with one no choice.
  bool may_climb() const {
    if (choice_.best == nullptr) return true;
    const bool is_only_one = std::ranges::count_if(table_.series(), [](const Series& series) {
                               return series.setting.variant == TuneVariant::kWhole;
                             }) < 2;
    return has_time(is_only_one ? 1 : kForLadder);
  }

  bool is_as_fast_as_step(const Series& series) const {
    constexpr double kSame = 0.97;
    TuneSetting alone = setting(0);
    alone.variant = TuneVariant::kStepAlone;
    const Series* step = table_.find(alone);
    return step != nullptr && !step->runs.empty() &&
           series.log_speed - step->log_speed >= std::log(kSame);
  }

  std::optional<TuneSetting> prefetches() const {
    const bool is_open = request_.prefetch_factors.empty() && choice_.chosen != nullptr &&
                         choice_.chosen->setting.workers > 0;
    if (!is_open) return std::nullopt;
    for (const int32_t prefetch : {1, 4}) {
      const TuneSetting step = setting(choice_.chosen->setting.workers, prefetch);
      if (!is_tried(step) && has_time(kForDetails)) return step;
    }
    return std::nullopt;
  }

  // The smallest that is enough may lie between the smallest tried that is and the one before, and
  // the best beside the best.
  std::optional<TuneSetting> between() const {
    if (!request_.workers.empty() || choice_.chosen == nullptr) return std::nullopt;
    std::set<int32_t> tried;
    for (const Series& series : table_.series()) {
      const TuneSetting& each = series.setting;
      if (each == setting(each.workers)) tried.insert(each.workers);
    }
    const auto middle = [&](int32_t low, int32_t high) -> std::optional<TuneSetting> {
      if (int64_t{high} - low < 2) return std::nullopt;
      const TuneSetting step = setting(std::midpoint(low, high));
      if (step.workers < 0 || is_tried(step) || !has_time(kForDetails)) return std::nullopt;
      return step;
    };
    const auto chosen = tried.find(choice_.chosen->setting.workers);
    if (chosen != tried.end() && chosen != tried.begin()) {
      if (const auto step = middle(*std::prev(chosen), *chosen)) return step;
    }
    const auto best = tried.find(choice_.best->setting.workers);
    if (best == tried.end() || std::next(best) == tried.end()) return std::nullopt;
    return middle(*best, *std::next(best));
  }

  // Of what looks best now: what it is made of, and what else could be set.
  std::optional<TuneSetting> parts() const {
    if (choice_.chosen == nullptr || !has_time(kForParts)) return std::nullopt;
    TuneSetting step = choice_.chosen->setting;
    step.variant = TuneVariant::kLoaderAlone;
    if (can(step.variant) && !is_tried(step)) return step;
    for (const Series* series : {choice_.present, choice_.chosen}) {
      if (series == nullptr || !is_oversubscribed(*series, request_)) continue;
      step = series->setting;
      step.variant = TuneVariant::kOneThread;
      if (can(step.variant) && !is_tried(step)) return step;
    }
    for (const StartMethod method : request_.start_methods) {
      step = choice_.chosen->setting;
      step.start_method = method;
      if (step.workers > 0 && !is_tried(step)) return step;
    }
    return std::nullopt;
  }

  std::optional<TuneStep> repeat() const {
    if (!has_time(1)) return std::nullopt;
    const std::vector<const Series*> open = contested();
    const Series* next = nullptr;
    for (const Series* series : open) {
      if (series->failed != nullptr || series->runs.size() >= kMostRepeats) continue;
      // There and back, so that what changes steadily makes no difference.
      const bool is_backwards = series->runs.size() % 2 == 1;
      const bool comes_first = next == nullptr || series->runs.size() < next->runs.size() ||
                               (series->runs.size() == next->runs.size() && is_backwards);
      if (comes_first) next = series;
    }
    if (next == nullptr) return std::nullopt;
    return TuneStep{.setting = next->setting, .round = static_cast<int32_t>(next->runs.size())};
  }

  const RecordingView& recording_;
  const TuneRequest& request_;
  Table table_;
  Choice choice_;
  double spent_s_ = 0;
  int runs_ = 0;
};

// Of the runs so far: what a worker and all the rest had at the most.
struct KnownMemory {
  uint64_t worker_bytes = 0;
  uint64_t rest_bytes = 0;
};

KnownMemory known_memory(const RecordingView& recording) {
  KnownMemory known;
  for (const Run& run : recording.runs) {
    if (!run.speed || !run.speed->memory_bytes) continue;
    const uint64_t worker = run.speed->worker_memory_bytes.value_or(0);
    const uint64_t workers =
        worker * static_cast<uint64_t>(std::max(run.speed->setting.workers, 0));
    known.worker_bytes = std::max(known.worker_bytes, worker);
    known.rest_bytes = std::max(
        known.rest_bytes, *run.speed->memory_bytes - std::min(*run.speed->memory_bytes, workers));
  }
  return known;
}

}  // namespace

std::string why_it_does_not_fit(const RecordingView& recording, const TuneSetting& setting) {
  const TuneRequest* request = find_request(recording);
  if (request == nullptr || setting.workers <= 0) return "";
  const LoaderPlan plan = plan_of(request->base, setting);
  ShmForecast shm = forecast_shm(plan, recording.header.host.page_size);
  if (!request->knows_batch) shm = ShmForecast();
  if (request->shm_free_bytes && shm.bytes > *request->shm_free_bytes) {
    return fmt::format("needs {} of shared memory, {} are free", format_bytes(shm.bytes),
                       format_bytes(*request->shm_free_bytes));
  }
  const FdForecast fds = forecast_descriptors(plan, kTensorsPerBatch);
  if (request->fd_limit && fds.most > *request->fd_limit) {
    return fmt::format("needs {} open files in one process, the limit is {}", fds.most,
                       *request->fd_limit);
  }
  const KnownMemory known = known_memory(recording);
  const uint64_t memory =
      known.rest_bytes + known.worker_bytes * static_cast<uint64_t>(setting.workers) + shm.bytes;
  if (known.worker_bytes > 0 && request->memory_left_bytes &&
      memory > *request->memory_left_bytes) {
    return fmt::format("needs about {} of memory, {} are left ({})", format_bytes(memory),
                       format_bytes(*request->memory_left_bytes), request->memory_source);
  }
  return "";
}

std::optional<TuneStep> next_step(const RecordingView& recording) {
  const TuneRequest* request = find_request(recording);
  if (request == nullptr) return std::nullopt;
  std::optional<TuneStep> step = Search(recording, *request).next();
  if (step) step->refusal = why_it_does_not_fit(recording, step->setting);
  return step;
}

bool is_settled(const RecordingView& recording) {
  const TuneRequest* request = find_request(recording);
  return request != nullptr && Search(recording, *request).is_settled();
}

}  // namespace dlprobe::probes::tune
