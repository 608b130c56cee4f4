#include "reports/sections.h"

namespace dlprobe {
namespace {

template <class T>
void put_optional(Json& object, const char* key, const std::optional<T>& value) {
  if (value) object[key] = *value;
}

Json room_of(const TuneRequest& request) {
  Json room = {{"cpus", request.cpus}};
  if (request.quota_cpus) {
    put_number(room, "quota_cpus", *request.quota_cpus);
    room["quota_source"] = json_text(request.quota_source);
  }
  put_number(room, "usable_cpus", usable_cpus(request));
  put_optional(room, "memory_left_bytes", request.memory_left_bytes);
  put_optional(room, "shm_free_bytes", request.shm_free_bytes);
  put_optional(room, "open_files_limit", request.fd_limit);
  return room;
}

Json setting_of(const TuneSetting& setting) {
  return {{"workers", setting.workers},
          {"prefetch_factor", setting.prefetch_factor},
          {"start_method", to_string(setting.start_method)},
          {"variant", to_string(setting.variant)}};
}

Json row_of(const TuneRow& row) {
  Json entry = setting_of(row.setting);
  entry["outcome"] = to_string(row.outcome);
  if (!row.why.empty()) entry["why"] = json_text(row.why);
  entry["runs"] = row.runs;
  if (row.runs > 0) {
    put_number(entry, "batches_per_s", row.batches_per_s);
    if (row.samples_per_s > 0) put_number(entry, "samples_per_s", row.samples_per_s);
    put_number(entry, "plus_minus_share", row.plus_minus);
    put_number(entry, "share_of_best", row.of_best);
    put_number(entry, "wait_share", row.wait_share);
  }
  if (row.first_batch_s) put_number(entry, "first_batch_s", *row.first_batch_s);
  if (row.wanted_cpus) put_number(entry, "wanted_cpus", *row.wanted_cpus);
  put_optional(entry, "memory_bytes", row.memory_bytes);
  put_optional(entry, "shm_bytes", row.shm_bytes);
  put_optional(entry, "fds", row.fds);
  if (row.fd_forecast > 0) {
    entry["shm_forecast_bytes"] = row.shm_forecast_bytes;
    entry["fd_forecast"] = row.fd_forecast;
  }
  return entry;
}

void put_row(Json& object, const char* key, const TuneResult& tune,
             const std::optional<size_t>& place) {
  if (place && *place < tune.rows.size()) object[key] = row_of(tune.rows[*place]);
}

}  // namespace

Json tune_section(const TuneResult& tune) {
  Json section = {{"room", room_of(tune.request)}};
  put_number(section, "budget_s", tune.request.budget_s);
  put_number(section, "window_s", tune.request.window_s);
  put_number(section, "noise_share", tune.noise);
  put_row(section, "recommended", tune, tune.chosen);
  put_row(section, "fastest", tune, tune.best);
  put_row(section, "present", tune, tune.present);
  if (tune.chosen) {
    section["line"] = json_text(tune.line);
    section["is_settled"] = tune.is_settled;
    section["fastest_is_faster"] = tune.differs;
    section["limit"] = {{"what", to_string(tune.limit)}, {"text", json_text(tune.limit_text)}};
  }
  Json rows = Json::array();
  for (const TuneRow& row : tune.rows)
    rows.push_back(row_of(row));
  section["settings"] = std::move(rows);
  return section;
}

}  // namespace dlprobe
