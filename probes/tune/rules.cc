#include "probes/tune/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "lib/model/tune_step.h"
#include "probes/facts/facts.h"

namespace dlprobe::probes::tune {
namespace {

constexpr const char* kBatches = "batches and the time between them";
constexpr const char* kSchedule = "/proc/PID/task/TID/schedstat, status";

double speed_of(const Series& series) {
  return std::exp(series.log_speed);
}

Evidence speed_fact(NumberName name, const Series& series) {
  const Message source =
      say("{}, {} ({})", kBatches, counted(series.runs.size(), "run"), describe(series.setting));
  return number_fact(name, speed_of(series), "1/s", source, series.runs.back()->at);
}

Evidence usable_cpus_fact(const TuneRequest& request) {
  return number_fact("usable_cpus", usable_cpus(request), "1",
                     request.quota_cpus ? as_path(request.quota_source) : "sched_getaffinity");
}

std::vector<int> runs_of(const RecordingView& recording, const Series& series) {
  std::vector<int> indices;
  for (size_t i = 0; i < recording.runs.size(); ++i) {
    const std::optional<SpeedMeasurement>& speed = recording.runs[i].speed;
    if (speed && speed->setting == series.setting) indices.push_back(static_cast<int>(i));
  }
  return indices;
}

bool is_own_job(const RecordingView& recording) {
  return !recording.runs.empty() && recording.runs.front().begin.subject == SubjectKind::kCommand;
}

// Of the reference loader it is known for the reference loader.
Confidence confidence_of(const RecordingView& recording) {
  return is_own_job(recording) ? Confidence::kCertain : Confidence::kLikely;
}

double percent(double log_ratio) {
  return (std::exp(log_ratio) - 1) * 100;
}

std::optional<uint64_t> memory_of(const Series& series) {
  std::optional<uint64_t> most;
  for (const SpeedMeasurement* run : series.runs) {
    if (run->memory_bytes) most = std::max(most.value_or(0), *run->memory_bytes);
  }
  return most;
}

void add_memory(const Series& present, const Series& chosen, Finding& finding) {
  const auto now = memory_of(present);
  const auto then = memory_of(chosen);
  if (!now || !then) return;
  constexpr const char* kSource = "Pss of /proc/PID/smaps_rollup, all processes";
  finding.prove(bytes_fact("memory", *now, kSource));
  finding.prove(bytes_fact("memory_of_fewer", *then, kSource));
}

std::vector<Setting> settings_of(const TuneSetting& setting) {
  std::vector<Setting> settings;
  if (setting.workers > 0) {
    settings.push_back({SettingKind::kPrefetchFactor, "", own(setting.prefetch_factor)});
  }
  settings.push_back({SettingKind::kNumWorkers, "", own(setting.workers)});
  return settings;
}

std::vector<AttemptAccount> accounts_of(const Series& series, bool has_failed_alike) {
  std::vector<AttemptAccount> accounts;
  accounts.reserve(series.runs.size());
  for (const SpeedMeasurement* run : series.runs) {
    accounts.push_back({.has_failed_alike = has_failed_alike,
                        .has_ended_well = !has_failed_alike,
                        .ended = own(fmt::format(
                            "{:.1f} batches/s", static_cast<double>(run->batches) / run->window_s)),
                        .seconds = run->cost_s});
  }
  return accounts;
}

// The job itself was run with and without it, by turns: there is no need to ask for --confirm.
Confirmation confirmed_by_speed(const Series& plain, const Series& one_thread) {
  return {.outcome = RemedyOutcome::kConfirmed,
          .text = own(
              fmt::format("confirmed: {:.1f} batches/s with one thread ({}), {:.1f} before ({})",
                          speed_of(one_thread), counted(one_thread.runs.size(), "run"),
                          speed_of(plain), counted(plain.runs.size(), "run"))),
          .with_it = accounts_of(one_thread, false),
          .without = accounts_of(plain, true)};
}

std::vector<Remedy> thread_remedies() {
  OwnWords variables;
  for (const Setting& each : one_thread_settings())
    variables += own(each.name) + "=" + own(each.value) + " ";
  return {{.title = "Let libraries in the workers use one thread",
           .commands = {variables + "python train.py"},
           .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
           .verify = "dlprobe tune",
           .settings = one_thread_settings()},
          {.title = "Or only in worker_init_fn; the trainer then keeps its threads: "
                    "torch.set_num_threads(1), cv2.setNumThreads(0), "
                    "threadpoolctl.threadpool_limits(1)"}};
}

std::vector<Evidence> thread_evidence(const Facts& facts, const Series& plain,
                                      const Series& one_thread) {
  const WorkerCpu cpu = cpu_of_workers(plain);
  const double queued = cpu.queued_s / std::max(cpu.ran_s + cpu.queued_s, 1e-9);
  return {held_against(number_fact("busy_threads_in_workers", cpu.busy_threads, "1", kSchedule),
                       "> usable_cpus"),
          usable_cpus_fact(facts.request),
          held_against(number_fact("threads_that_want_a_cpu", wanted_cpus(plain).value_or(0), "1",
                                   "CPU time and time in the run queue of all threads, by time"),
                       "> 1.25 x usable_cpus"),
          held_against(number_fact("time_in_run_queue", 100 * queued, "%", kSchedule), "> 20 %"),
          count_fact("preempted", cpu.preempted, "nonvoluntary_ctxt_switches of the workers"),
          speed_fact("speed", plain),
          held_against(speed_fact("speed_with_one_thread", one_thread), "> speed / 0.95")};
}

Finding oversubscription(const Facts& facts, const Series& plain, const Series& one_thread) {
  const WorkerCpu cpu = cpu_of_workers(plain);
  const double half = facts.table.half_width(plain, one_thread);
  const double gain = one_thread.log_speed - plain.log_speed;
  Finding finding =
      new_finding(FindingCode::kThreadOversubscription, confidence_of(facts.recording));
  finding.message = own(fmt::format(
      "{} of {} share {:.4g} CPUs; with one thread in each worker the job makes {:.1f} instead of "
      "{:.1f} batches/s ({:+.0f} %, 95 % interval {:+.0f} to {:+.0f} %)",
      counted(static_cast<uint64_t>(cpu.busy_threads), "busy thread"),
      counted(static_cast<uint64_t>(cpu.workers), "worker"), usable_cpus(facts.request),
      speed_of(one_thread), speed_of(plain), percent(gain), percent(gain - half),
      percent(gain + half)));
  finding.discriminator = "tune";
  finding.evidence = thread_evidence(facts, plain, one_thread);
  finding.rule_out(std::string(info(FindingCode::kTooManyWorkers).code),
                   "with as many workers and one thread each it is faster");
  finding.remedies = thread_remedies();
  if (is_own_job(facts.recording))
    finding.remedies.front().confirmation = confirmed_by_speed(plain, one_thread);
  finding.runs = runs_of(facts.recording, plain);
  finding.first_seen = plain.runs.front()->at;
  finding.last_seen = plain.runs.back()->at;
  return finding;
}

}  // namespace

OwnWords describe(const TuneSetting& setting) {
  if (setting.workers == 0) return "no workers";
  return counted(static_cast<uint64_t>(std::max(setting.workers, 0)), "worker") +
         ", prefetch factor " + own(setting.prefetch_factor);
}

std::optional<Finding> find_too_many_workers(const Facts& facts) {
  const Series* present = facts.choice.present;
  const Series* chosen = facts.choice.chosen;
  if (present == nullptr || chosen == nullptr) return std::nullopt;
  const bool is_more = present->setting.workers > chosen->setting.workers;
  if (!is_more || !is_surely_enough(facts.table, *chosen, *present)) return std::nullopt;
  const double half = facts.table.half_width(*chosen, *present);
  const double ratio = chosen->log_speed - present->log_speed;
  Finding finding = new_finding(FindingCode::kTooManyWorkers, confidence_of(facts.recording));
  finding.message = own(fmt::format(
      "{} workers deliver {:.1f} batches/s, {} deliver {:.1f} ({:+.0f} %, 95 % interval {:+.0f} to "
      "{:+.0f} %)",
      present->setting.workers, speed_of(*present),
      chosen->setting.workers == 0 ? "none" : fmt::format("{}", chosen->setting.workers),
      speed_of(*chosen), percent(ratio), percent(ratio - half), percent(ratio + half)));
  finding.discriminator = "tune";
  finding.evidence = {
      speed_fact("speed", *present),
      held_against(speed_fact("speed_of_fewer", *chosen), ">= 95 % of speed"),
      number_fact("noise", 100 * facts.table.noise(), "%", "deviation of one run, all settings")};
  add_memory(*present, *chosen, finding);
  finding.prove(usable_cpus_fact(facts.request));
  finding.rule_out(
      "more workers would be faster with other prefetching",
      own(fmt::format("the fastest measured, {}, makes {:.1f} batches/s",
                      describe(facts.choice.best->setting), speed_of(*facts.choice.best))));
  finding.remedies.push_back({.title = "Use " + describe(chosen->setting),
                              .verify = "dlprobe tune --workers " + own(chosen->setting.workers),
                              .settings = settings_of(chosen->setting)});
  finding.runs = runs_of(facts.recording, *present);
  finding.first_seen = present->runs.front()->at;
  finding.last_seen = present->runs.back()->at;
  return finding;
}

std::optional<Finding> find_thread_oversubscription(const Facts& facts) {
  for (const Series& one_thread : facts.table.series()) {
    if (one_thread.setting.variant != TuneVariant::kOneThread || one_thread.runs.empty()) continue;
    TuneSetting setting = one_thread.setting;
    setting.variant = TuneVariant::kWhole;
    const Series* plain = facts.table.find(setting);
    if (plain == nullptr || !is_oversubscribed(*plain, facts.request)) continue;
    if (is_surely_slower(facts.table, *plain, one_thread))
      return oversubscription(facts, *plain, one_thread);
  }
  return std::nullopt;
}

}  // namespace dlprobe::probes::tune
