#include "reports/model/sections.h"

namespace dlprobe {
namespace {

report::TuneRoom room_of(const TuneRequest& request) {
  report::TuneRoom room;
  room.cpus = as_count(request.cpus);
  if (request.quota_cpus) {
    room.quota_cpus = request.quota_cpus;
    room.quota_source = request.quota_source;
  }
  room.usable_cpus = usable_cpus(request);
  room.memory_left_bytes = request.memory_left_bytes;
  room.shm_free_bytes = request.shm_free_bytes;
  room.open_files_limit = request.fd_limit;
  return room;
}

report::TuneRow tune_row_of(const TuneRow& row) {
  report::TuneRow entry;
  entry.workers = as_count(row.setting.workers);
  entry.prefetch_factor = as_count(row.setting.prefetch_factor);
  entry.start_method = row.setting.start_method;
  entry.variant = row.setting.variant;
  entry.outcome = row.outcome;
  entry.why = report::if_any(row.why);
  entry.runs = as_count(row.runs);
  if (row.runs > 0) {
    entry.batches_per_s = row.batches_per_s;
    if (row.samples_per_s > 0) entry.samples_per_s = row.samples_per_s;
    entry.plus_minus_share = row.plus_minus;
    entry.share_of_best = row.of_best;
    entry.wait_share = row.wait_share;
  }
  entry.first_batch_s = row.first_batch_s;
  entry.wanted_cpus = row.wanted_cpus;
  entry.memory_bytes = row.memory_bytes;
  entry.shm_bytes = row.shm_bytes;
  entry.fds = row.fds;
  if (row.fd_forecast > 0) {
    entry.shm_forecast_bytes = row.shm_forecast_bytes;
    entry.fd_forecast = row.fd_forecast;
  }
  return entry;
}

std::optional<report::TuneRow> row_at(const TuneResult& tune, const std::optional<size_t>& place) {
  if (!place || *place >= tune.rows.size()) return std::nullopt;
  return tune_row_of(tune.rows[*place]);
}

}  // namespace

report::Tune tune_section(const TuneResult& tune) {
  report::Tune section;
  section.room = room_of(tune.request);
  section.budget_s = tune.request.budget_s;
  section.window_s = tune.request.window_s;
  section.noise_share = tune.noise;
  section.recommended = row_at(tune, tune.chosen);
  section.fastest = row_at(tune, tune.best);
  section.present = row_at(tune, tune.present);
  if (tune.chosen) {
    section.line = tune.line;
    section.is_settled = tune.is_settled;
    section.fastest_is_faster = tune.differs;
    section.limit = {.what = tune.limit, .text = tune.limit_text};
  }
  for (const TuneRow& row : tune.rows)
    section.settings.push_back(tune_row_of(row));
  return section;
}

}  // namespace dlprobe
