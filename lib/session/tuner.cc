#include "lib/session/tuner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/collect/tree/cgroup_reader.h"
#include "lib/collect/tree/cpu_quota.h"
#include "lib/model/loader_option.h"
#include "lib/model/memory_need.h"
#include "lib/os/host_facts.h"
#include "lib/os/pipe.h"
#include "lib/session/shm_preview.h"
#include "lib/session/speed_meter.h"
#include "lib/session/step_progress.h"
#include "lib/subject/child_process.h"
#include "lib/subject/reference_loader.h"

namespace dlprobe {
namespace {

// Without a budget a run is as long as a person may wait for, and as short as tells something.
constexpr double kRunsOfBudget = 40;
constexpr double kShortestWindowS = 0.4;
constexpr double kLongestWindowS = 5;
// The exit codes of /bin/sh for a command that it could not run.
constexpr int kShellCannotExecute = 126;
constexpr int kShellFoundNone = 127;
constexpr BootNs kPatienceForLoader = 60 * kSecond;

std::vector<std::pair<std::string, std::string>> one_thread_environment() {
  std::vector<std::pair<std::string, std::string>> environment;
  for (const Setting& setting : one_thread_settings())
    environment.emplace_back(setting.name, setting.value);
  return environment;
}

std::string title_of(const TuneSetting& setting) {
  const std::string workers =
      setting.workers == 0
          ? "no workers"
          : fmt::format("{}, prefetch factor {}, {}", counted(setting.workers, "worker"),
                        setting.prefetch_factor, to_string(setting.start_method));
  const std::string variant = setting.variant == TuneVariant::kWhole
                                  ? std::string()
                                  : fmt::format(", {}", to_string(setting.variant));
  return workers + variant;
}

/// Watches one run of what is tuned, until enough was seen.
class TuneGuide final : public WatchGuide {
 public:
  /// `sink`: for what the subject tells.
  TuneGuide(TuneSubject& subject, RecordSink& sink, std::function<bool()> is_enough)
      : subject_(subject), sink_(sink), is_enough_(std::move(is_enough)) {}

  void take_news() override {
    for (StartEvent& event : subject_.news())
      sink_.add(std::move(event));
  }
  bool is_enough() override { return is_enough_(); }

 private:
  TuneSubject& subject_;
  RecordSink& sink_;
  std::function<bool()> is_enough_;
};

class Tuner {
 public:
  Tuner(const TuneOptions& options, const Surroundings& surroundings, TuneSubject& subject)
      : options_(options),
        surroundings_(surroundings),
        machine_(surroundings.machine),
        notices_(surroundings.notices),
        subject_(subject),
        signals_(surroundings.control.hold_signals()) {}

  Examination run() {
    auto recorder = Recorder::open(
        recording_header(surroundings_, "tune", options_.arguments, options_.interval),
        options_.record_path);
    if (!recorder) return refused(recorder.error());
    recorder_ = std::move(*recorder);
    look_at_machine();
    look_at_its_own_settings();
    StepProgress steps(
        notices_, *machine_.clock,
        {.name = "tune", .until = now() + static_cast<BootNs>(1e9 * request_.budget_s)});
    for (int number = 1; result_.interrupted_by == 0 && !result_.refusal; ++number) {
      const auto step = options_.next_step(recorder_->recording());
      if (!step) break;
      steps.begin(title_of(step->setting));
      take(*step, number);
    }
    notices_.clear_progress();
    result_.recording_cut = !recorder_->ended_early().empty();
    if (result_.recording_cut) notices_.tell(recorder_->ended_early());
    result_.recording = std::move(*recorder_).take();
    return std::move(result_);
  }

 private:
  static Examination refused(Error error, Refusal::Kind kind = Refusal::Kind::kImpossible) {
    return {.refusal = Refusal{.error = std::move(error), .kind = kind}};
  }

  BootNs now() const { return machine_.clock->now(); }

  void begin_run(std::optional<LoaderPlan> plan, bool is_before) {
    recorder_->add(RunBegin{.at = now(),
                            .subject = subject_.kind(),
                            .command = mask_secrets(options_.command),
                            .plan = std::move(plan),
                            .preflight = is_before,
                            .open_files_limit = open_files_limit_of_children()});
  }

  // A run in which nothing runs yet: what there is to be used.
  void look_at_machine() {
    begin_run(std::nullopt, true);
    look_at_shm_of(surroundings_.control.own_pid(), machine_, *recorder_);
    Sample sample{.at = now()};
    sample.host = read_host_memory(*machine_.root);
    const auto self = machine_.root->open_directory("proc/self");
    if (self) {
      auto group = CgroupReader::open(machine_, **self);
      if (group) sample.cgroup = group->read(sample.at);
    }
    recorder_->add(std::move(sample));
    request_ = request();
    if (!subject_.tells_its_own() || request_.configured_workers) recorder_->add(request_);
    recorder_->add(RunEnd{.at = now(),
                          .reason = RunEndReason::kNotStarted,
                          .text = "the machine was looked at, before anything was started"});
  }

  // A script knows how many workers it has: it is started once as it is, until it tells.
  void look_at_its_own_settings() {
    if (!subject_.tells_its_own() || request_.configured_workers || result_.refusal) return;
    notices_.show("the command as it is");
    begin_run(std::nullopt, true);
    auto target = subject_.start_as_it_is();
    if (!target) return refuse(target.error());
    const BootNs until = now() + kPatienceForLoader;
    const auto has_told = [this, until] { return own_loader() != nullptr || now() > until; };
    const WatchResult watched = watch_subject(std::move(*target), *recorder_, has_told);
    refuse_if_it_cannot_run(watched);
    if (result_.refusal) return;
    const StartEvent* loader = own_loader();
    if (loader == nullptr && watched.interrupted_by == 0) {
      return refuse({.code = ErrorCode::kInsufficient,
                     .context = "the command made no PyTorch DataLoader within 60 s: run it by "
                                "itself to see what it does"});
    }
    if (loader != nullptr) {
      request_.configured_workers = loader->workers;
      request_.configured_prefetch_factor = loader->prefetch_factor;
      if (loader->prefetch_factor) request_.base.prefetch_factor = *loader->prefetch_factor;
    }
    recorder_->add(request_);
  }

  // The first with workers, else the first.
  const StartEvent* own_loader() const {
    const StartEvent* found = nullptr;
    for (const StartEvent& event : recorder_->recording().runs.back().start_events) {
      if (event.kind != StartEventKind::kLoaderMade || !event.workers) continue;
      if (*event.workers > 0) return &event;
      if (found == nullptr) found = &event;
    }
    return found;
  }

  TuneRequest request() {
    TuneRequest request = options_.wish;
    const Run& run = recorder_->recording().runs.back();
    request.at = now();
    request.variants = subject_.variants();
    request.window_s =
        std::clamp(request.budget_s / kRunsOfBudget, kShortestWindowS, kLongestWindowS);
    request.cpus = recorder_->recording().header.host.cpus;
    put_quota(request);
    if (const auto memory = nearest_memory_limit(run)) {
      request.memory_left_bytes = memory->left_bytes;
      request.memory_source = memory->source;
    }
    const bool is_limited = !run.shm_use.empty() && run.shm_use.back().size_bytes > 0;
    if (is_limited) {
      const ShmUse& use = run.shm_use.back();
      request.shm_free_bytes = use.size_bytes - std::min(use.size_bytes, use.used_bytes);
    }
    if (const auto limit = open_files_limit_of_children()) request.fd_limit = limit->soft;
    return request;
  }

  void put_quota(TuneRequest& request) {
    const auto quota = read_cpu_quota(machine_);
    if (!quota) {
      recorder_->add(Gap{.what = "the CPU quota of the cgroup",
                         .why = as_text(to_string(quota.error())),
                         .effect = "dlprobe counts usable CPUs by affinity only"});
      return;
    }
    const std::optional<CpuQuota>& limit = *quota;
    if (!limit) return;
    request.quota_cpus = limit->cpus;
    request.quota_source = limit->source;
  }

  void take(const TuneStep& step, int number) {
    begin_run(plan_of(options_.wish.base, step.setting), false);
    if (!step.refusal.empty()) {
      recorder_->add(SpeedMeasurement{
          .at = now(), .setting = step.setting, .round = step.round, .failure = step.refusal});
      recorder_->add(
          RunEnd{.at = now(), .reason = RunEndReason::kNotStarted, .text = "it would not fit"});
      return;
    }
    measure(step, number);
  }

  void measure(const TuneStep& step, int number) {
    const BootNs began = now();
    SpeedMeter meter(machine_, *recorder_, step.setting, request_);
    auto target = subject_.start(step.setting, number);
    if (!target) return refuse(target.error());
    const WatchResult watched =
        watch_subject(std::move(*target), meter, [&meter] { return meter.is_enough(); });
    refuse_if_it_cannot_run(watched);
    SpeedMeasurement speed = meter.result();
    speed.round = step.round;
    speed.cost_s = static_cast<double>(now() - began) / 1e9;
    if (result_.interrupted_by != 0 && speed.failure.empty() && !meter.is_enough())
      speed.failure = "interrupted";
    recorder_->add(std::move(speed));
  }

  WatchResult watch_subject(WatchTarget target, RecordSink& sink, std::function<bool()> is_enough) {
    target.collect.interval = options_.interval;
    target.collect.ledgers = false;
    target.collect.waits = false;
    target.collect.adopter = surroundings_.control.own_pid();
    target.ends_with_watch = true;
    TuneGuide guide(subject_, sink, std::move(is_enough));
    WatchResult watched = watch({.machine = machine_,
                                 .control = surroundings_.control,
                                 .signals = *signals_,
                                 .sink = sink,
                                 .notices = notices_},
                                std::move(target), guide);
    result_.interrupted_by = watched.interrupted_by;
    return watched;
  }

  static Refusal::Kind kind_of(const Error& error) {
    if (error.code == ErrorCode::kNotFound) return Refusal::Kind::kNotFound;
    if (error.code == ErrorCode::kForbidden) return Refusal::Kind::kNotExecutable;
    return error.code == ErrorCode::kInsufficient ? Refusal::Kind::kIncomplete
                                                  : Refusal::Kind::kImpossible;
  }

  void refuse(Error error) {
    const auto kind = subject_.tells_its_own() ? kind_of(error) : Refusal::Kind::kImpossible;
    result_ = refused(std::move(error), kind);
  }

  // What cannot run with these options, or is not there at all, is so in every run.
  void refuse_if_it_cannot_run(const WatchResult& watched) {
    const Run& run = recorder_->recording().runs.back();
    const bool has_spoken = run.loader.has_value() || !run.start_events.empty();
    if (has_spoken || !watched.child_wait_status || !WIFEXITED(*watched.child_wait_status)) return;
    const int code = WEXITSTATUS(*watched.child_wait_status);
    if (!subject_.tells_its_own() && code == kExitOfBadOptions) {
      refuse({.code = ErrorCode::kInvalid, .context = std::string(kRefusedOptions)});
    } else if (subject_.tells_its_own() && code == kShellFoundNone) {
      refuse({.code = ErrorCode::kNotFound,
              .context = "run " + options_.command.front() + ": there is no such command"});
    } else if (subject_.tells_its_own() && code == kShellCannotExecute) {
      refuse({.code = ErrorCode::kForbidden,
              .context = "run " + options_.command.front() + ": it cannot be executed"});
    }
  }

  const TuneOptions& options_;
  const Surroundings& surroundings_;
  const Machine& machine_;
  Notices& notices_;
  TuneSubject& subject_;
  std::unique_ptr<HeldSignals> signals_;
  std::unique_ptr<Recorder> recorder_;
  TuneRequest request_;
  Examination result_;
};

}  // namespace

std::vector<TuneVariant> LoaderTuneSubject::variants() const {
  return {TuneVariant::kLoaderAlone, TuneVariant::kStepAlone, TuneVariant::kOneThread};
}

Expected<WatchTarget> LoaderTuneSubject::start(const TuneSetting& setting, int number) {
  LoaderPlan plan = plan_of(base_, setting);
  // It is ended long before.
  plan.batches = kMostBatches;
  plan.epochs = 1;
  if (plan.workers == 0) plan.fault.clear();
  std::vector<std::string> argv = reference_loader_argv(executable_, plan);
  const auto add = [&argv](const char* option, std::string value) {
    argv.emplace_back(option);
    argv.push_back(std::move(value));
  };
  // Other images first in each run: what the page cache has of the run before is not what a job
  // finds there.
  add("--seed", std::to_string(number));
  add("--threads", std::to_string(std::max(cpus_, 1)));
  if (setting.variant == TuneVariant::kLoaderAlone) add("--step", "none");
  if (setting.variant == TuneVariant::kStepAlone) add("--step", "repeat");
  DLP_TRY(Pipe progress, make_pipe());
  ::fcntl(progress.read_end.get(), F_SETFL, O_NONBLOCK);
  ChildSpec spec{.argv = std::move(argv),
                 .descriptors = {{progress.write_end.get(), kProgressFd}},
                 .dies_with_us = true};
  if (setting.variant == TuneVariant::kOneThread) spec.environment = one_thread_environment();
  DLP_TRY(const ProcessKey root, start_process(surroundings_.control, surroundings_.machine, spec));
  WatchTarget target{.root = root, .child = root.pid};
  target.progress = std::move(progress.read_end);
  return target;
}

Expected<WatchTarget> CommandTuneSubject::start(const TuneSetting& setting, int /*number*/) {
  ShimOptions options{.overrides = {.num_workers = setting.workers}, .tells_batches = true};
  if (setting.workers > 0) options.overrides.prefetch_factor = setting.prefetch_factor;
  if (wish_.start_methods.size() > 1) options.overrides.start_method = setting.start_method;
  return start_with(options, setting.variant == TuneVariant::kOneThread);
}

Expected<WatchTarget> CommandTuneSubject::start_as_it_is() {
  return start_with({.tells_batches = true}, false);
}

Expected<WatchTarget> CommandTuneSubject::start_with(const ShimOptions& options, bool one_thread) {
  guard_.reset();
  DLP_TRY(shim_, PythonShim::prepare(options));
  DLP_TRY(guard_, surroundings_.control.guard_trial(shim_->folder()));
  // dlprobe's own streams are not the command's to write to: it runs again and again.
  std::vector<std::string> argv = {"/bin/sh", "-c", "exec \"$@\" </dev/null >/dev/null 2>&1", "sh"};
  argv.insert(argv.end(), command_.begin(), command_.end());
  ChildSpec spec{.argv = std::move(argv), .environment = shim_->environment()};
  if (one_thread) {
    for (auto& variable : one_thread_environment())
      spec.environment.push_back(std::move(variable));
  }
  DLP_TRY(const ProcessKey root, start_process(surroundings_.control, surroundings_.machine, spec));
  return WatchTarget{.root = root, .child = root.pid, .news = shim_->descriptor()};
}

std::vector<StartEvent> CommandTuneSubject::news() {
  return shim_ ? shim_->read_new() : std::vector<StartEvent>();
}

Examination tune(const TuneOptions& options, const Surroundings& surroundings) {
  if (!options.command.empty()) {
    CommandTuneSubject subject(surroundings, options.wish, options.command);
    return Tuner(options, surroundings, subject).run();
  }
  const std::string named = surroundings.environment("DLPROBE_REFERENCE_LOADER").value_or("");
  const auto executable = find_reference_loader(named, own_executable());
  if (!executable) return {.refusal = Refusal{.error = executable.error()}};
  const int cpus = read_host_facts(surroundings.machine, surroundings.environment).cpus;
  LoaderTuneSubject subject(surroundings, *executable, options.wish.base, cpus);
  return Tuner(options, surroundings, subject).run();
}

}  // namespace dlprobe
