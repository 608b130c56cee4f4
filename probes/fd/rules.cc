// DLP0201 fd-limit-too-low, DLP0202 fd-exhausted, DLP0203 batches-kept-by-consumer, DLP0204
// fd-leak-in-worker.

#include "probes/fd/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "lib/base/units.h"
#include "lib/model/fd_forecast.h"
#include "lib/model/fd_limit.h"
#include "probes/facts/count_growth.h"
#include "probes/facts/facts.h"
#include "probes/facts/grown_containers.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::fd {
namespace {

constexpr const char* kForecastSource =
    "forecast: descriptors of PyTorch's loader, counted on 1.13 and 2.13";
constexpr double kUrgent = 600;  // seconds to the limit
constexpr double kThisDay = 86'400;

OwnWords of_limit(const Series& series, uint64_t count) {
  return own(count) + " of " + own(series.limit.value_or(0));
}

Limit limit_of(const Series& series) {
  return {.soft = series.limit, .hard = series.hard_limit};
}

void add_limits(Finding& finding, const Series& series) {
  if (series.limit) finding.prove(count_fact("limit", *series.limit, kLimitSource));
  if (series.hard_limit) finding.prove(count_fact("hard_limit", *series.hard_limit, kLimitSource));
}

void add_held(Finding& finding, const Series& series, BootNs at) {
  const FdLook* look = look_near(series, at);
  if (look == nullptr) return;
  finding.prove(
      text_fact("held", held_text(look), "/proc/PID/fd, the newest descriptors", look->at));
  if (look->in_flight > 0)
    finding.prove(
        count_fact("in_flight", look->in_flight, "scm_fds of /proc/PID/fdinfo/N", look->at));
}

// Batches that the training loop took, or that worker made, in the span of the growth; 0: unknown.
uint64_t batches_in(const Facts& facts, const CountGrowth& growth) {
  return static_cast<uint64_t>(std::ranges::count_if(
      facts.run->batches,
      [&](const LoaderBatch& batch) { return batch.at >= growth.from && batch.at <= growth.to; }));
}

Severity severity_of(const Leak& leak) {
  if (leak.exhaustion != nullptr) return Severity::kError;
  if (!leak.seconds_left) return Severity::kInfo;
  if (*leak.seconds_left < kUrgent && !leak.has_ended && !leak.brief) return Severity::kError;
  return *leak.seconds_left < kThisDay ? Severity::kWarning : Severity::kInfo;
}

Confidence confidence_of(const Leak& leak) {
  return leak.brief ? Confidence::kPossible : Confidence::kLikely;
}

void add_growth(Finding& finding, const Facts& facts, const Leak& leak) {
  const Series& series = *leak.series;
  finding.prove(count_fact("descriptors", leak.growth.last, kCountSource, leak.growth.to));
  finding.prove(
      count_fact("descriptors_before", leak.growth.first, kCountSource, leak.growth.from));
  const OwnWords second = leak.second ? ", " + own(to_string(*leak.second)) : "";
  finding.prove(
      text_fact("kind", own(to_string(leak.kind)) + second, kKindsSource, leak.growth.to));
  finding.prove(count_fact("of_kind", leak.of_kind, kKindsSource, leak.growth.to));
  finding.prove(number_fact("growth_per_second", leak.growth.per_second, "1/s", kCountSource));
  if (const uint64_t batches = batches_in(facts, leak.growth); batches > 0) {
    const double per_batch =
        static_cast<double>(leak.growth.last - leak.growth.first) / static_cast<double>(batches);
    finding.prove(number_fact("growth_per_batch", per_batch, "1",
                              "batches that the reference loader reported"));
  }
  if (leak.seconds_left) {
    finding.prove(number_fact("time_to_limit", *leak.seconds_left, "s",
                              "the limit less the count, by the rate"));
  }
  add_limits(finding, series);
  add_held(finding, series, leak.growth.to);
  finding.first_seen = leak.growth.from;
  finding.last_seen = leak.growth.to;
}

const GrownContainer* name_what_keeps(Finding& finding, const Facts& facts, const Leak& leak) {
  return name_grown_container(finding, *facts.run,
                              {.process = leak.series->key(),
                               .from = leak.growth.from,
                               .to = leak.growth.to,
                               .count_per_second = leak.growth.per_second});
}

OwnWords outlook(const Leak& leak) {
  const OwnWords limit = own(leak.series->limit.value_or(0));
  OwnWords open =
      leak.brief ? what_brief_growth_leaves_open(*leak.brief, "a cache or pool of them") : "";
  if (leak.exhaustion != nullptr) return ", up to its limit of " + limit;
  if (!leak.seconds_left) return open;
  if (leak.has_ended) {
    return "; at this rate its limit of " + limit + " would have been reached in " +
           time_ahead_text(*leak.seconds_left) + open;
  }
  return "; at this rate its limit of " + limit + " is reached in " +
         time_ahead_text(*leak.seconds_left) + open;
}

bool is_kept_batches(const Facts& facts, const Leak& leak) {
  return leak.kind == FdKind::kSegment && leak.series->process == facts.trainer;
}

// Most descriptors are the loader's own: segments on their way, pipes to its workers.
bool is_of_loader(const Exhaustion& exhaustion) {
  return exhaustion.kind == FdKind::kSegment || exhaustion.kind == FdKind::kPipe;
}

const Exhaustion* exhausted_by_loader(const std::vector<Exhaustion>& exhaustions,
                                      const std::vector<Leak>& leaks) {
  for (const Exhaustion& each : exhaustions) {
    const bool leaks_it =
        std::ranges::any_of(leaks, [&](const Leak& leak) { return leak.exhaustion == &each; });
    if (!leaks_it && is_of_loader(each)) return &each;
  }
  return nullptr;
}

// The limit that the plan's loader has: the trainer's, else what a child of dlprobe inherits.
std::optional<Limit> limit_of_plan(const Facts& facts) {
  if (facts.trainer != nullptr && facts.trainer->open_files_limit)
    return *facts.trainer->open_files_limit;
  return facts.run->begin.open_files_limit;
}

std::optional<Finding> too_low_for_plan(const Facts& facts) {
  if (!facts.run->begin.plan) return std::nullopt;
  LoaderPlan plan = *facts.run->begin.plan;
  const auto limit = limit_of_plan(facts);
  const FdForecast forecast = forecast_descriptors(plan, kTensorsPerBatch);
  if (!limit || !limit->soft || forecast.most * 5 <= *limit->soft * 4) return std::nullopt;
  Finding finding = new_finding(FindingCode::kFdLimitTooLow, Confidence::kCertain);
  const bool fits = forecast.most <= *limit->soft;
  if (fits) finding.severity = Severity::kWarning;
  finding.message = "this loader opens up to " + own(forecast.most) +
                    " descriptors in one process, " + (fits ? "more than 80 % of" : "and") +
                    " the limit " + (fits ? "" : "is ") + own(*limit->soft);
  finding.prove(held_against(count_fact("forecast", forecast.most, kForecastSource), "> limit"));
  finding.prove(text_fact("forecast_formula", forecast.formula, kForecastSource));
  for (const SharingStrategy strategy : kValues<SharingStrategy>) {
    plan.sharing_strategy = strategy;
    const std::string name = "forecast_" + std::string(to_string(strategy));
    finding.prove(count_fact(NumberName::made_of(name),
                             forecast_descriptors(plan, kTensorsPerBatch).most, kForecastSource));
  }
  finding.prove(count_fact("limit", *limit->soft, kLimitSource));
  if (limit->hard) finding.prove(count_fact("hard_limit", *limit->hard, kLimitSource));
  add_limit_remedies(finding, facts, comfortable_limit(forecast.most), *limit);
  if (facts.run->begin.plan->sharing_strategy == SharingStrategy::kFileDescriptor)
    add_strategy_remedy(finding);
  return finding;
}

Finding too_low_by_measure(const Facts& facts, const Exhaustion& exhaustion) {
  const Series& series = *exhaustion.series;
  Finding finding = new_finding(FindingCode::kFdLimitTooLow, Confidence::kLikely);
  finding.discriminator = "measured";
  finding.message = describe(*facts.run, series.key()) + " has a limit of " +
                    own(series.limit.value_or(0)) + " descriptors, and " + own(exhaustion.of_kind) +
                    " " + plural_of(exhaustion.kind.value_or(FdKind::kSegment)) +
                    " of the loader itself fills them";
  finding.processes = {series.key()};
  finding.prove(count_fact("descriptors", series.most, kCountSource, exhaustion.to));
  finding.prove(count_fact("of_kind", exhaustion.of_kind, kKindsSource, exhaustion.to));
  add_limits(finding, series);
  add_held(finding, series, exhaustion.from);
  finding.first_seen = exhaustion.from;
  add_limit_remedies(finding, facts, comfortable_limit(2 * series.most), limit_of(series));
  if (exhaustion.kind == FdKind::kSegment) add_strategy_remedy(finding);
  return finding;
}

// It has another one than the command was started with.
bool sets_its_own_limit(const Run& run, const Series& series) {
  const auto& given = run.begin.open_files_limit;
  return series.refused != nullptr && given && given->soft != series.limit;
}

// Some that it was refused another one for may be closed when the witness counts.
std::optional<uint64_t> counted_after(const Series& series) {
  if (series.refused == nullptr || !series.refused->count || *series.refused->count < 0) return {};
  const auto count = static_cast<uint64_t>(*series.refused->count);
  return is_at_fd_limit(count, series.limit.value_or(0)) ? std::nullopt : std::optional(count);
}

void add_refusal(Finding& finding, const StartEvent& refused) {
  finding.message += " and could not open another" + place_of(refused);
  add_exception(finding, refused);
}

void add_what_failed(Finding& finding, const Facts& facts, const Exhaustion& exhaustion) {
  const StartEvent* refused = exhaustion.series->refused;
  if (refused != nullptr) add_refusal(finding, *refused);
  if (exhaustion.failure) {
    if (exhaustion.kind || refused != nullptr) finding.message += ",";
    finding.message += exhaustion.failure->key == exhaustion.series->key()
                           ? " when it ended with " + exhaustion.failure->how
                           : " when " + describe(*facts.run, exhaustion.failure->key) +
                                 " ended with " + exhaustion.failure->how;
    finding.prove(text_fact(
        "failed", describe(*facts.run, exhaustion.failure->key) + ": " + exhaustion.failure->how,
        "wait status", exhaustion.failure->at));
  } else if (exhaustion.still_for > 0) {
    finding.message += ", and the job has not moved for " +
                       format_duration(std::chrono::nanoseconds(exhaustion.still_for));
    finding.prove(time_fact("stands_still_for", exhaustion.still_for, "/proc/PID/stat"));
  }
}

// Files of the job's own, most of what it has open: of one folder, or one file many times.
const FdGroup* kept_files(const Exhaustion& exhaustion) {
  if (exhaustion.kind != FdKind::kFile) return nullptr;
  const FdLook* look = look_near(*exhaustion.series, exhaustion.from);
  if (look == nullptr || look->most.empty()) return nullptr;
  const FdGroup& most = look->most.front();
  const bool is_most = most.kind == FdKind::kFile && most.count * 2 >= exhaustion.of_kind;
  return is_most && most.name.starts_with('/') ? &most : nullptr;
}

void add_closing_remedy(Finding& finding) {
  finding.advise("Close what a sample opens, or keep it in a bounded cache",
                 {"with open(path, 'rb') as file: ...",
                  "functools.lru_cache(maxsize=64) around the open; close what it drops"},
                 "dlprobe fd -- COMMAND");
}

}  // namespace

std::optional<Finding> limit_too_low(const Facts& facts, const std::vector<Exhaustion>& exhaustions,
                                     const std::vector<Leak>& leaks) {
  if (auto finding = too_low_for_plan(facts)) return finding;
  const Exhaustion* exhaustion = exhausted_by_loader(exhaustions, leaks);
  if (exhaustion == nullptr) return std::nullopt;
  return too_low_by_measure(facts, *exhaustion);
}

std::optional<Finding> descriptors_exhausted(const Facts& facts,
                                             const std::vector<Exhaustion>& exhaustions) {
  if (exhaustions.empty()) return std::nullopt;
  const Exhaustion& first = exhaustions.front();
  const Series& series = *first.series;
  const bool lasts = first.still_for > 0 || first.to - first.from >= kSecond;
  const bool has_failed = first.failure || series.refused != nullptr;
  Finding finding = new_finding(FindingCode::kFdExhausted,
                                has_failed ? Confidence::kCertain : Confidence::kLikely);
  if (!has_failed && !lasts) finding.severity = Severity::kWarning;
  const auto counted = counted_after(series);
  finding.message =
      describe(*facts.run, series.key()) +
      (counted ? " reached its limit of " + own(series.limit.value_or(0)) + " descriptors"
               : " had " + of_limit(series, series.most) + " descriptors open");
  if (first.kind) {
    finding.message += ", " + own(first.of_kind) + " of them " + plural_of(*first.kind);
    finding.discriminator = std::string(to_string(*first.kind));
  }
  const FdGroup* files = kept_files(first);
  if (files != nullptr)
    finding.message += " (" + own(files->count) + " x " + as_path(files->name) + ")";
  // Who has opened so many files needs no higher limit.
  constexpr uint64_t kMany = 4096;
  const bool are_many =
      series.limit.value_or(0) >= kMany && first.kind.value_or(FdKind::kFile) == FdKind::kFile;
  if (files != nullptr || are_many) add_closing_remedy(finding);
  add_what_failed(finding, facts, first);
  for (const Exhaustion& each : exhaustions)
    finding.processes.push_back(each.series->key());
  if (counted) {
    finding.prove(count_fact("descriptors", *counted, kShimSource, first.to));
  } else {
    finding.prove(held_against(count_fact("descriptors", series.most, kCountSource, first.to),
                               ">= limit - " + own(fd_limit_margin(series.limit.value_or(0)))));
  }
  add_limits(finding, series);
  if (first.kind) finding.prove(count_fact("of_kind", first.of_kind, kKindsSource, first.to));
  add_held(finding, series, first.from);
  finding.first_seen = first.from;
  finding.last_seen = first.to;
  const uint64_t enough = comfortable_limit(2 * series.most);
  if (sets_its_own_limit(*facts.run, series)) {
    finding.advise("The command sets this limit itself: raise it there",
                   {say("resource.setrlimit(resource.RLIMIT_NOFILE, ({}, {}))", enough, enough),
                    say("ulimit -n {}", enough)});
  } else {
    add_limit_remedies(finding, facts, enough, limit_of(series));
  }
  if (first.kind == FdKind::kSegment) add_strategy_remedy(finding);
  return finding;
}

std::optional<Finding> refused_unseen(const Facts& facts) {
  const auto refused = fatal_exceptions(*facts.run);
  const auto first = std::ranges::find_if(refused, [&](const StartEvent* event) {
    return is_refused_descriptor(*event) && facts.run->find_process(event->process) == nullptr;
  });
  if (first == refused.end()) return std::nullopt;
  const StartEvent& event = **first;
  const uint64_t limit = event.limit.value_or(0);
  Finding finding = new_finding(FindingCode::kFdExhausted, Confidence::kCertain);
  finding.message = describe(*facts.run, event.process) + " reached its limit of " + own(limit) +
                    " descriptors and could not open another" + place_of(event);
  finding.processes = {event.process};
  add_exception(finding, event);
  finding.prove(count_fact("limit", limit, kLimitSource));
  finding.first_seen = finding.last_seen = event.at;
  add_limit_remedies(finding, facts, comfortable_limit(2 * limit), {.soft = limit});
  return finding;
}

std::optional<Finding> files_of_machine_exhausted(const Facts& facts) {
  const auto refused = fatal_exceptions(*facts.run);
  const auto first = std::ranges::find(refused, ENFILE, &StartEvent::error_number);
  if (first == refused.end()) return std::nullopt;
  const StartEvent& event = **first;
  Finding finding = new_finding(FindingCode::kFdExhausted, Confidence::kCertain);
  finding.discriminator = "machine";
  finding.message = describe(*facts.run, event.process) + " could not open a file" +
                    place_of(event) + ": the whole machine is at its limit (fs.file-max)";
  finding.processes = {event.process};
  add_exception(finding, event);
  finding.first_seen = finding.last_seen = event.at;
  finding.remedies.push_back(
      {.title = "See how many are open, and raise the machine's limit",
       .commands = {"cat /proc/sys/fs/file-nr", "sudo sysctl -w fs.file-max=9223372036854775807"},
       .applies_to = {"bare-host"},
       .verify = "cat /proc/sys/fs/file-nr"});
  return finding;
}

std::optional<Finding> kept_batches(const Facts& facts, const std::vector<Leak>& leaks) {
  const auto leak =
      std::ranges::find_if(leaks, [&](const Leak& each) { return is_kept_batches(facts, each); });
  if (leak == leaks.end()) return std::nullopt;
  const bool is_proven = leak->exhaustion != nullptr && leak->exceeds_flight;
  Finding finding = new_finding(FindingCode::kBatchesKeptByConsumer,
                                is_proven ? Confidence::kCertain : confidence_of(*leak));
  finding.severity = severity_of(*leak);
  finding.processes = {leak->series->key()};
  finding.message = describe(*facts.run, leak->series->key()) +
                    " keeps the tensors of batches: " + own(leak->of_kind) + " segments, " +
                    count_rate_text(leak->growth.per_second) + " more" + outlook(*leak);
  const GrownContainer* kept = name_what_keeps(finding, facts, *leak);
  add_growth(finding, facts, *leak);
  finding.rule_out("DLP0204", "the workers' descriptors do not grow with them");
  if (leak->exceeds_flight) {
    finding.rule_out("DLP0201", "it holds more than twice what all workers had in flight");
  }
  finding.advise("Keep copies, or numbers: each live tensor of a batch holds a descriptor",
                 {"kept.append(batch.clone())  # a copy in ordinary memory",
                  "losses.append(loss.item())  # a number instead of a tensor"},
                 "dlprobe fd -- COMMAND");
  replace_cycle(finding, kept);
  add_strategy_remedy(finding);
  add_limit_remedies(finding, facts, comfortable_limit(4 * leak->growth.last),
                     limit_of(*leak->series));
  return finding;
}

namespace {

// Of a leak of one kind: in the first of these, which comes to its limit first, and in others.
Finding leak_of_kind(const Facts& facts, FdKind kind, const std::vector<const Leak*>& alike) {
  const Leak& first = *alike.front();
  Finding finding =
      new_finding(FindingCode::kFdLeakInWorker,
                  first.exhaustion != nullptr ? Confidence::kCertain : confidence_of(first));
  finding.severity = severity_of(first);
  finding.discriminator = std::string(to_string(kind));
  finding.message = describe(*facts.run, first.series->key()) + " opens " + plural_of(kind) +
                    (first.second ? " and " + plural_of(*first.second) + "," : "") +
                    " and does not close them: " + own(first.of_kind) + " open, " +
                    count_rate_text(first.growth.per_second) + " more" + outlook(first);
  if (first.are_event_loops)
    finding.message += "; two sockets and an epoll each, as an event loop of asyncio has";
  name_what_keeps(finding, facts, first);
  if (alike.size() > 1)
    finding.message += say("; the same in {}", counted(alike.size() - 1, "other process"));
  for (const Leak* leak : alike)
    finding.processes.push_back(leak->series->key());
  add_growth(finding, facts, first);
  finding.rule_out("DLP0203", kind == FdKind::kSegment
                                  ? "they are open in a worker, not in the trainer"
                                  : "they are not tensors of batches");
  if (first.are_event_loops) {
    finding.advise("Close each event loop, or keep one for all samples",
                   {"asyncio.run(fetch(path))  # closes its loop",
                    "loop.close()  # of asyncio.new_event_loop()"},
                   "dlprobe fd -- COMMAND");
  } else {
    add_closing_remedy(finding);
  }
  add_limit_remedies(finding, facts, comfortable_limit(4 * first.growth.last),
                     limit_of(*first.series));
  return finding;
}

}  // namespace

std::vector<Finding> leaks_by_kind(const Facts& facts, const std::vector<Leak>& leaks) {
  std::vector<Finding> findings;
  for (const FdKind kind : kValues<FdKind>) {
    std::vector<const Leak*> alike;
    for (const Leak& leak : leaks) {
      if (leak.kind == kind && !is_kept_batches(facts, leak)) alike.push_back(&leak);
    }
    if (alike.empty()) continue;
    std::ranges::stable_sort(alike, {}, [](const Leak* leak) {
      return std::pair(leak->exhaustion == nullptr, leak->seconds_left.value_or(1e18));
    });
    findings.push_back(leak_of_kind(facts, kind, alike));
  }
  return findings;
}

uint64_t comfortable_limit(uint64_t needed) {
  constexpr uint64_t kLeast = 1024;
  return std::max(kLeast, std::bit_ceil(needed + needed / 4));
}

void add_limit_remedies(Finding& finding, const Facts& facts, uint64_t limit, const Limit& now) {
  if (now.soft.value_or(0) >= limit) return;  // it is the growth that is wrong
  const OwnWords number = own(limit);
  const std::string& container = facts.header->host.container;
  if (facts.run->begin.own_open_files) {
    finding.advise("Give the command a higher limit: dlprobe set this one (--limit-fds)",
                   {"dlprobe run --limit-fds " + number + " -- COMMAND"});
  } else if (now.hard.value_or(limit) >= limit) {
    finding.remedies.push_back({.title = "Raise the soft limit in the shell that starts the job",
                                .commands = {"ulimit -n " + number},
                                .applies_to = {"bare-host", "docker", "kubernetes", "slurm"},
                                .verify = "ulimit -n"});
  } else if (container == "docker" || container == "podman") {
    finding.remedies.push_back(
        {.title = "Start the container with a higher limit",
         .commands = {own(container) + " run --ulimit nofile=" + number + " ..."},
         .applies_to = {"docker"},
         .verify = "ulimit -Hn"});
  } else {
    finding.remedies.push_back(
        {.title =
             "Ask the administrator to raise the hard limit (limits.conf(5), or LimitNOFILE= of "
             "the service)",
         .commands = {"* hard nofile " + number},
         .applies_to = {"bare-host", "slurm"},
         .verify = "ulimit -Hn"});
  }
  // Of a command that dlprobe starts, up to the hard limit.
  finding.remedies.back().settings = {{SettingKind::kOpenFiles, "", number}};
}

void add_strategy_remedy(Finding& finding) {
  finding.remedies.push_back(
      {.title = "Or share tensors by name, which needs no descriptor for each (a killed job then "
                "leaves files in /dev/shm)",
       .commands = {"torch.multiprocessing.set_sharing_strategy('file_system')"},
       .verify = "dlprobe fd -- COMMAND",
       .settings = {{SettingKind::kSharingStrategy, "", "file_system"}}});
}

}  // namespace dlprobe::probes::fd
