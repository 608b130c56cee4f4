#include "probes/probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/model/fd_forecast.h"
#include "lib/model/shm_forecast.h"
#include "probes/facts/facts.h"
#include "probes/tune/rules.h"
#include "probes/tune/search.h"
#include "probes/tune/table.h"

namespace dlprobe::probes::tune {
namespace {

template <class T>
void raise(std::optional<T>& most, const std::optional<T>& value) {
  if (value) most = std::max(most.value_or(*value), *value);
}

TuneOutcome outcome_of(const Series& series) {
  if (!series.runs.empty()) return TuneOutcome::kMeasured;
  return series.was_started ? TuneOutcome::kFailed : TuneOutcome::kNotStarted;
}

void put_speed(const Facts& facts, const Series& series, TuneRow& row) {
  double window_s = 0;
  double wait_s = 0;
  double batches = 0;
  double samples = 0;
  for (const SpeedMeasurement* run : series.runs) {
    window_s += run->window_s;
    wait_s += run->wait_s;
    batches += static_cast<double>(run->batches);
    samples += static_cast<double>(run->samples);
    if (run->first_batch_s)
      row.first_batch_s = std::min(row.first_batch_s.value_or(HUGE_VAL), *run->first_batch_s);
    raise(row.memory_bytes, run->memory_bytes);
    raise(row.shm_bytes, run->shm_bytes);
    raise(row.fds, run->fds);
  }
  row.runs = static_cast<int32_t>(series.runs.size());
  row.batches_per_s = std::exp(series.log_speed);
  row.samples_per_s = batches > 0 ? row.batches_per_s * samples / batches : 0;
  row.plus_minus = std::expm1(facts.table.half_width(series));
  row.wait_share = wait_s / window_s;
  row.wanted_cpus = wanted_cpus(series);
  if (facts.choice.best != nullptr)
    row.of_best = std::exp(series.log_speed - facts.choice.best->log_speed);
}

TuneRow row_of(const Facts& facts, const Series& series) {
  TuneRow row{.setting = series.setting, .outcome = outcome_of(series)};
  if (series.failed != nullptr) row.why = series.failed->failure;
  if (!series.runs.empty()) put_speed(facts, series, row);
  const bool has_queue = facts.request.knows_batch && series.setting.workers > 0 &&
                         series.setting.variant != TuneVariant::kStepAlone;
  if (!has_queue) return row;
  const LoaderPlan plan = plan_of(facts.request.base, series.setting);
  row.shm_forecast_bytes = forecast_shm(plan, facts.recording.header.host.page_size).bytes;
  row.fd_forecast = forecast_descriptors(plan, kTensorsPerBatch).most;
  return row;
}

std::optional<size_t> place_of(const std::vector<TuneRow>& rows, const Series* series) {
  if (series == nullptr) return std::nullopt;
  const auto place = std::ranges::find(rows, series->setting, &TuneRow::setting);
  return static_cast<size_t>(place - rows.begin());
}

std::string line_of(const TuneSetting& setting, const TuneRequest& request) {
  if (setting.workers == 0) return "DataLoader(..., num_workers=0)";
  const bool is_usual =
      request.start_methods.empty() || setting.start_method == request.start_methods.front();
  return fmt::format(
      "DataLoader(..., num_workers={}, prefetch_factor={}{})", setting.workers,
      setting.prefetch_factor,
      is_usual ? std::string()
               : fmt::format(", multiprocessing_context=\"{}\"", to_string(setting.start_method)));
}

OwnWords headline_of(const Facts& facts, const TuneResult& result) {
  const Series& chosen = *facts.choice.chosen;
  const Series& best = *facts.choice.best;
  const double speed = std::exp(chosen.log_speed);
  if (&chosen == &best) {
    return own(fmt::format("use {}: {:.1f} batches/s, the fastest measured",
                           describe(chosen.setting), speed));
  }
  const std::string what = fmt::format("use {}: {:.1f} batches/s", describe(chosen.setting), speed);
  if (!result.differs) {
    return own(fmt::format("{}, as fast as the fastest, {} ({:.1f}), within the noise", what,
                           describe(best.setting), std::exp(best.log_speed)));
  }
  return own(fmt::format("{}, {:.0f} % of the fastest, {} ({:.1f})", what,
                         100 * std::exp(chosen.log_speed - best.log_speed), describe(best.setting),
                         std::exp(best.log_speed)));
}

/// The job cut in halves: what each would do alone.
struct Halves {
  double whole = 0;
  std::optional<double> loader;
  std::optional<double> step;
  double wait_share = 0;
  std::optional<double> wanted_cpus;
};

Halves halves_of(const Facts& facts, const std::vector<TuneRow>& rows) {
  Halves halves;
  for (const TuneRow& row : rows) {
    if (row.outcome != TuneOutcome::kMeasured) continue;
    if (row.setting.variant == TuneVariant::kStepAlone) halves.step = row.batches_per_s;
    TuneSetting whole = row.setting;
    whole.variant = TuneVariant::kWhole;
    if (whole != facts.choice.chosen->setting) continue;
    if (row.setting.variant == TuneVariant::kLoaderAlone) halves.loader = row.batches_per_s;
    if (row.setting.variant != TuneVariant::kWhole) continue;
    halves.whole = row.batches_per_s;
    halves.wait_share = row.wait_share;
    halves.wanted_cpus = row.wanted_cpus;
  }
  return halves;
}

std::string text_of(const Halves& halves) {
  std::string text = fmt::format("whole {:.1f} batches/s", halves.whole);
  if (halves.loader) text += fmt::format(", the loader alone {:.1f}", *halves.loader);
  if (halves.step) text += fmt::format(", the training step alone {:.1f}", *halves.step);
  return text + fmt::format("; the training loop waits for batches {:.0f} % of its time",
                            100 * halves.wait_share);
}

TuneLimit limit_of(const Halves& halves, const TuneRequest& request) {
  constexpr double kAsGood = 0.9;
  constexpr double kHardlyWaits = 0.05;
  constexpr double kMostlyWaits = 0.5;
  const bool keeps_up_with_step = halves.step && halves.whole >= kAsGood * *halves.step;
  const bool is_all_loader = halves.loader && halves.whole >= kAsGood * *halves.loader;
  if (keeps_up_with_step && is_all_loader)
    return halves.wait_share < kMostlyWaits / 2 ? TuneLimit::kConsumer : TuneLimit::kLoader;
  if (keeps_up_with_step) return TuneLimit::kConsumer;
  if (is_all_loader) return TuneLimit::kLoader;
  if (halves.step && halves.loader) {
    const bool is_full = halves.wanted_cpus.value_or(0) >= kAsGood * usable_cpus(request);
    return is_full ? TuneLimit::kCpus : TuneLimit::kUnknown;
  }
  if (halves.step || halves.loader) return TuneLimit::kUnknown;
  if (halves.wait_share <= kHardlyWaits) return TuneLimit::kConsumer;
  return halves.wait_share >= kMostlyWaits ? TuneLimit::kLoader : TuneLimit::kUnknown;
}

std::string meaning_of(TuneLimit limit) {
  switch (limit) {
    case TuneLimit::kConsumer:
      return "the training step is the limit, not the loader: more workers cannot help";
    case TuneLimit::kLoader:
      return "the loader is the limit: the training step could use more";
    case TuneLimit::kCpus:
      return "the loader and the training step compete for the CPUs: each alone would be faster";
    case TuneLimit::kUnknown:
      break;
  }
  return "no single limit was found";
}

TuneResult result_of(const Facts& facts) {
  TuneResult result{.request = facts.request, .noise = facts.table.noise()};
  for (const Series& series : facts.table.series())
    result.rows.push_back(row_of(facts, series));
  std::ranges::sort(result.rows, {}, [](const TuneRow& row) {
    return std::tuple(row.setting.variant, row.setting.start_method, row.setting.workers,
                      row.setting.prefetch_factor);
  });
  const Choice& choice = facts.choice;
  result.best = place_of(result.rows, choice.best);
  result.chosen = place_of(result.rows, choice.chosen);
  result.present = place_of(result.rows, choice.present);
  if (choice.chosen == nullptr || choice.best == nullptr) return result;
  result.is_settled = is_settled(facts.recording);
  result.differs = choice.best->log_speed - choice.chosen->log_speed >
                   facts.table.half_width(*choice.best, *choice.chosen);
  const Halves halves = halves_of(facts, result.rows);
  result.limit = limit_of(halves, facts.request);
  result.limit_text = meaning_of(result.limit) + " (" + text_of(halves) + ")";
  result.line = line_of(choice.chosen->setting, facts.request);
  result.headline = headline_of(facts, result);
  return result;
}

// Nothing was measured: why not.
Gap gap_of_sweep(const Facts& facts) {
  Message why = "no run finished";
  for (const Series& series : facts.table.series()) {
    if (series.failed != nullptr) why = as_text(series.failed->failure);
  }
  return {.what = "the speed of any setting",
          .why = why,
          .effect = "dlprobe cannot recommend a number of workers",
          .remedy = "give it more time with --for"};
}

void conclude(const RecordingView& recording, Verdict& verdict) {
  const TuneRequest* request = find_request(recording);
  if (request == nullptr) return;
  const Table table(recording);
  const Facts facts{.recording = recording,
                    .request = *request,
                    .table = table,
                    .choice = choose(table, *request)};
  verdict.tune = result_of(facts);
  if (facts.choice.chosen == nullptr) {
    verdict.gaps.push_back(gap_of_sweep(facts));
    return;
  }
  const auto threads = find_thread_oversubscription(facts);
  auto workers = find_too_many_workers(facts);
  if (threads) verdict.findings.push_back(*threads);
  // The fewer the workers, the fewer the threads.
  if (threads && workers) workers->consequence_of = threads->code;
  if (workers) verdict.findings.push_back(std::move(*workers));
  if (!verdict.tune->is_settled) {
    verdict.limits.push_back(
        {.what = "differences between settings that are smaller than the noise",
         .why = own(fmt::format("runs of one setting differ by {:.1f} %", 100 * table.noise())),
         .effect = "another setting may also be within 5 % of the best, or this one just below",
         .remedy = "give it more time with --for, on a quiet machine"});
  }
}

bool saw_speed(const RecordingView& recording) {
  return find_request(recording) != nullptr;
}

// Whether there are too many can only be said where it is known how many there are.
bool saw_present_speed(const RecordingView& recording) {
  const TuneRequest* request = find_request(recording);
  return request != nullptr && choose(Table(recording), *request).present != nullptr;
}

constexpr std::array<Cause, 2> kCauses = {{
    {FindingCode::kTooManyWorkers, saw_present_speed},
    {FindingCode::kThreadOversubscription, saw_speed},
}};

}  // namespace

// What short runs say: the table and the recommendation (Verdict::tune).
const Probe kProbe = {.name = "tune",
                      .summary = "measure how many workers a job needs",
                      .causes = kCauses,
                      .conclude = conclude,
                      .use = ProbeUse::kAlone,
                      .measures_speed = true};

}  // namespace dlprobe::probes::tune
