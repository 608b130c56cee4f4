#include "tools/dlprobe/examine.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/collect/tracked_process.h"
#include "lib/os/atomic_file.h"
#include "lib/os/host_facts.h"
#include "lib/subject/child_process.h"
#include "lib/subject/reference_loader.h"
#include "lib/subject/trial_warden.h"
#include "probes/setting_effect.h"
#include "probes/spawn_facts.h"
#include "probes/spawn_trial.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/confirm.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/kill_descendants.h"
#include "tools/dlprobe/own_environment.h"
#include "tools/dlprobe/preflight.h"
#include "tools/dlprobe/python_options.h"
#include "tools/dlprobe/recorder.h"
#include "tools/dlprobe/target.h"
#include "tools/dlprobe/version.h"
#include "tools/dlprobe/watch.h"

namespace dlprobe {
namespace {

// What somebody who faces a hung job waits for an answer; two snapshots a second apart tell enough.
constexpr auto kQuickAnswer = std::chrono::seconds(3);
// Of a mere look, walks of page tables would be the longest part.
constexpr auto kShortestForPss = std::chrono::seconds(1);
// And the tracepoint takes 50 ms to be turned off.
constexpr auto kShortestForDeaths = std::chrono::seconds(1);

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes = {};
  std::string id;
  for (const unsigned char byte : bytes)
    id += fmt::format("{:02x}", byte);
  return id;
}

// Batches that a run of the reference loader needs to fill its queues and then show the steady
// state.
int enough_batches(const LoaderPlan& plan) {
  return std::max(10, plan.workers * plan.prefetch_factor + 6);
}

// That fault's second job must not become a child of dlprobe, and so a part of the subject.
bool plays_another_job(const LoaderPlan& plan) {
  return plan.fault.starts_with(info(FindingCode::kShmHeldByAnotherJob).name);
}

// What is left of a command whose watch is over, and whatever it started since.
void end_descendants(const Machine& machine) {
  constexpr BootNs kPatience = 3 * kSecond;
  const BootNs until = machine.clock->now() + kPatience;
  kill_descendants(machine);
  while (has_children() && machine.clock->now() < until) {
    while (const auto ended = next_ended_child())
      reap(*ended);
    ::usleep(1000);
  }
}

class Examiner {
 public:
  Examiner(const ExamineRequest& request, const Machine& machine, Recorder& recorder)
      : request_(request),
        machine_(machine),
        progress_(request.show_progress),
        recorder_(&recorder) {}

  /// All but the recording, which is the recorder's.
  Examination run() {
    switch (request_.subject) {
      case SubjectKind::kReferenceLoader:
        run_reference_loader();
        break;
      case SubjectKind::kPid:
        run_pid();
        break;
      case SubjectKind::kCommand:
        run_command();
        break;
    }
    progress_.clear();
    return std::move(result_);
  }

 private:
  void refuse(Error error, int exit_code) {
    result_.refusal = std::move(error);
    result_.refusal_exit = exit_code;
  }

  std::optional<BootNs> deadline(std::optional<std::chrono::nanoseconds> span) const {
    if (!span) return std::nullopt;
    return machine_.clock->now() + span->count();
  }

  void begin_run(RunBegin begin) {
    begin.at = machine_.clock->now();
    begin.subject = request_.subject;
    begin.attempt = request_.attempt;
    if (begin.subject != SubjectKind::kPid) begin.open_files_limit = open_files_limit();
    recorder_->add(std::move(begin));
  }

  // That of what dlprobe starts.
  std::optional<Limit> open_files_limit() const {
    const auto& asked = request_.limits.open_files;
    auto limit = asked ? Limit{.soft = asked, .hard = asked} : open_files_limit_of_children();
    if (limit && request_.limits.soft_open_files) limit->soft = request_.limits.soft_open_files;
    return limit;
  }

  WatchResult watch_target(WatchTarget target) {
    target.collect.interval = request_.interval;
    if (request_.probe->needs_snapshots) target.snapshots = SnapshotTimes::kAlways;
    target.shared_files = request_.probe->needs_shared_files;
    if (request_.command_watch) target.snapshots = SnapshotTimes::kWhenQuiet;
    target.collect.snapshot = request_.snapshot;
    target.collect.pss = !request_.watch_for || *request_.watch_for >= kShortestForPss;
    target.collect.deaths = !request_.watch_for || *request_.watch_for >= kShortestForDeaths;
    if (target.child) target.collect.adopter = ::getpid();
    return watch(machine_, std::move(target), *recorder_, signals_, progress_);
  }

  void run_pid() {
    const auto target = find_target(machine_, request_.pid);
    if (!target) return refuse(target.error(), exit_status_of(target.error()));
    if (!target->notice.empty()) complain(target->notice);
    begin_run({.asked_pid = request_.pid, .root = target->key, .plan = request_.told_plan});
    recorder_->add(Event{.at = machine_.clock->now(),
                         .kind = "note",
                         .text = target->reason,
                         .process = target->key});
    const auto span = request_.watch_for.value_or(default_watch_of_pid(*request_.probe));
    watch_target({.root = target->key, .deadline = deadline(span)});
  }

  void run_command() {
    if (request_.trials.empty()) return run_command_once(std::nullopt);
    const off_t input_from = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
    const auto run_trial = [&](const Trial& trial) {
      // Each has all of a file; a pipe or terminal has no more than it has.
      if (input_from >= 0) ::lseek(STDIN_FILENO, input_from, SEEK_SET);
      run_command_once(trial);
    };
    for (const Trial& trial : request_.trials) {
      run_trial(trial);
      if (result_.refusal || interrupted_) return;
      // Its own error was printed, and is the same under any start method.
      if (failed_by_itself(recorder_->current_run())) return;
    }
    if (request_.attempt || !wants_control(recorder_->recording())) return;
    Trial control = request_.trials.front();
    control.start_method = StartMethod::kFork;
    run_trial(control);
  }

  void run_command_once(const std::optional<Trial>& trial) {
    begin_run({.command = mask_secrets(request_.command),
               .plan = request_.told_plan,
               .looks_when_quiet = request_.command_watch || looks_for_confirm(),
               .trial = trial});
    auto scope = prepare_limits();
    if (!scope) return;
    ChildSpec spec{.argv = request_.command, .limits = scope->child_limits()};
    if (!prepare_shim(spec, trial)) return;
    std::ranges::copy(request_.environment, std::back_inserter(spec.environment));
    UniqueFd null;
    if (!set_apart(spec, null)) return;
    auto log = GrowingFile::behind(STDERR_FILENO);
    // The command may be gone before the first sample.
    look_at_its_shm(spec);
    const auto child = ChildProcess::start(spec);
    if (!child) return refuse(child.error(), exit_of_refused_start(child.error()));
    const auto root = process_key(machine_, child->pid());
    if (!root) return refuse(root.error(), kExitIncomplete);
    WatchTarget target{.root = *root,
                       .child = child->pid(),
                       .log = log ? std::optional<LogWatch>(std::move(*log)) : std::nullopt,
                       .deadline = deadline(request_.watch_for)};
    if (!request_.attempt) target.now_and_then = [this] { tell_early(); };
    if (shim_) {
      target.each_round = [this] { read_shim(); };
      target.wakes_round = shim_->descriptor();
    }
    if (request_.command_watch) watch_to_its_end(*request_.command_watch, target);
    if (ends_its_command() && !request_.command_watch) end_where_stuck(target);
    std::optional<Precedence> precedence;
    if (trial) {
      // Its own time is up sooner than that of a job which is watched.
      constexpr BootNs kTimeOfTrial = 60 * kSecond;
      if (!target.deadline) target.deadline = machine_.clock->now() + kTimeOfTrial;
      target.ends_at_deadline = true;
      precedence.emplace();
      contain(*trial, target);
    }
    const WatchResult watched = watch_target(std::move(target));
    result_.wait_status = watched.child_wait_status;
    result_.left = watched.left;
    interrupted_ = watched.interrupted;
    if (ends_its_command()) {
      end_what_goes_on(watched);
    } else if (watched.end.reason == RunEndReason::kTimeUp) {
      fmt::print(stderr, "dlprobe: the command (pid {}) goes on, no longer watched\n",
                 child->pid());
    }
    close_limits(*scope);
    if (!trial && !request_.attempt) say_whether_overrides_took_effect();
    warden_.reset();
    shim_.reset();
  }

  // Of a probe that takes no snapshots: to know that it stands still.
  bool looks_for_confirm() const { return ends_its_command() && !request_.probe->needs_snapshots; }

  // One that is to be run again must not run beside itself.
  bool ends_its_command() const { return request_.confirm || request_.attempt; }

  void end_what_goes_on(const WatchResult& watched) {
    const bool leaves_some = request_.attempt && !watched.left.empty();
    if (watched.end.reason == RunEndReason::kTimeUp || leaves_some) end_descendants(machine_);
  }

  // What a command prints is for whoever reads it, once. Errors are worth seeing.
  bool set_apart(ChildSpec& spec, UniqueFd& null) {
    if (!request_.attempt) return true;
    // Those of the run before are not this one's.
    while (const auto ended = next_ended_child())
      reap(*ended);
    auto opened = open_null_device();
    if (!opened) {
      refuse(opened.error(), kExitIncomplete);
      return false;
    }
    null = std::move(*opened);
    spec.descriptors = {{null.get(), STDIN_FILENO}, {null.get(), STDOUT_FILENO}};
    return true;
  }

  // Nobody else would end it, and it is to be run again.
  void end_where_stuck(WatchTarget& target) const {
    constexpr BootNs kSure = 10 * kSecond;
    const bool looks = request_.probe->needs_snapshots;
    if (!looks) target.snapshots = SnapshotTimes::kWhenQuiet;
    target.standstill = StandstillPolicy{
        .quiet_after = 2 * kSecond,
        .judge_after = looks ? 5 * kSecond : kSure,
        .is_stuck = [this] { return is_stuck() || has_finding(*request_.probe, Severity::kError); },
        .end_tree = true};
  }

  // While a tree may multiply, dlprobe must get its turn among many. Without the right to, it does
  // not.
  class Precedence {
   public:
    Precedence() : before_(::getpriority(PRIO_PROCESS, 0)) {
      constexpr int kBeforeOthers = -10;
      ::setpriority(PRIO_PROCESS, 0, std::min(before_, kBeforeOthers));
    }
    ~Precedence() { ::setpriority(PRIO_PROCESS, 0, before_); }
    Precedence(const Precedence&) = delete;
    Precedence& operator=(const Precedence&) = delete;

   private:
    int before_;
  };

  // Its tree may not outgrow the trial.
  void contain(const Trial& trial, WatchTarget& target) {
    target.collect.discover_every = std::chrono::milliseconds(1);
    target.break_off = [this, trial](size_t living) { return why_break_off(trial, living); };
  }

  std::optional<std::string> why_break_off(const Trial& trial, size_t living) {
    const Run& run = recorder_->current_run();
    const auto tell = [&](std::string_view kind, std::string text) {
      recorder_->add(Event{
          .at = machine_.clock->now(), .kind = std::string(kind), .text = text, .process = {}});
      return text;
    };
    if (living > allowed_processes(run)) {
      return tell(kTooManyProcesses, fmt::format("had {} processes", living));
    }
    const size_t generations = deepest_descent(run).chain.size();
    if (generations > static_cast<size_t>(trial.most_depth) + 1) {
      return tell(kTooDeep, fmt::format("had {} generations of the same process", generations));
    }
    return why_nothing_more_comes(run);
  }

  // A child died of what it was to import or to find, and its parent waits for it, or goes on
  // starting others.
  std::optional<std::string> why_nothing_more_comes(const Run& run) const {
    constexpr BootNs kTimeToGiveUp = 5 * kSecond;
    constexpr size_t kManyRefusals = 20;
    // A pool starts another for each that fails.
    constexpr size_t kManyFailures = 60;
    const auto failures = static_cast<size_t>(std::ranges::count_if(
        run.exits, [](const ProcessExit& exit) { return exit.wait_status.value_or(0) > 0xff; }));
    if (failures > kManyFailures) {
      return fmt::format("had {} processes that failed, one after another", failures);
    }
    size_t refusals = 0;
    size_t of_any_kind = 0;
    BootNs first = 0;
    for (const StartEvent& event : run.start_events) {
      if (event.kind == StartEventKind::kRefused && ++of_any_kind > kManyRefusals) {
        return fmt::format("was refused {} processes", of_any_kind);
      }
      const bool in_child = event.cause == StartRefusal::kBootstrapping ||
                            event.cause == StartRefusal::kNotFoundThere ||
                            event.kind == StartEventKind::kMainNotImported;
      if (!in_child) continue;
      if (refusals++ == 0) first = event.at;
    }
    if (refusals == 0) return std::nullopt;
    const BootNs since = machine_.clock->now() - first;
    if (since <= kTimeToGiveUp && refusals <= kManyRefusals) return std::nullopt;
    return fmt::format("went on for {} after {} of its processes could not start",
                       format_duration(std::chrono::nanoseconds(since)), refusals);
  }

  // With no override asked nothing is loaded into anything.
  bool prepare_shim(ChildSpec& spec, const std::optional<Trial>& trial) {
    ShimOptions options{.overrides = request_.overrides};
    if (trial) options = options_of(*trial);
    if (!options.overrides.any()) return true;
    auto shim = PythonShim::prepare(options);
    if (!shim) {
      refuse(shim.error(), kExitUsage);
      return false;
    }
    if (trial) {
      auto warden = TrialWarden::start(shim->folder());
      if (!warden) {
        refuse(warden.error(), kExitIncomplete);
        return false;
      }
      warden_ = std::move(*warden);
    }
    spec.environment = shim->environment();
    shim_ = std::move(*shim);
    return true;
  }

  static ShimOptions options_of(const Trial& trial) {
    return {.overrides = {.start_method = trial.start_method,
                          .sharing_strategy = trial.sharing_strategy,
                          .num_workers = trial.workers,
                          .prefetch_factor = std::nullopt,
                          .force = trial.forced},
            .tells_batches = true,
            .paced_after = trial.most_processes};
  }

  void read_shim() {
    if (!shim_) return;
    for (StartEvent& event : shim_->read_new())
      recorder_->add(std::move(event));
  }

  // A command may be no Python at all, start its interpreters with an environment of their own, or
  // know better.
  void say_whether_overrides_took_effect() const {
    if (!shim_) return;
    const Run& run = recorder_->current_run();
    if (run.start_events.empty()) {
      return complain(
          "no Python interpreter of the command (3.6 or later) took what was to be overridden: it "
          "ran as it would without");
    }
    for (const Setting& setting : settings_of(request_.overrides)) {
      const std::string won = what_won_over(run, setting);
      if (won.empty()) continue;
      const bool can_force =
          !request_.overrides.force && (setting.kind == SettingKind::kStartMethod ||
                                        setting.kind == SettingKind::kSharingStrategy);
      complain(fmt::format("{} was asked for, but {}{}", describe({setting}), won,
                           can_force ? " (--force overrides that)" : ""));
    }
  }

  // Nothing, and a refusal, if they cannot be had.
  std::optional<LaunchScope> prepare_limits() {
    auto scope = LaunchScope::prepare(machine_, request_.limits);
    if (!scope) {
      refuse(scope.error(), kExitUsage);
      return std::nullopt;
    }
    if (request_.limits.any()) {
      recorder_->add(Event{.at = machine_.clock->now(),
                           .kind = "note",
                           .text = "dlprobe set limits: " + scope->description(),
                           .process = {}});
    }
    return std::move(*scope);
  }

  static void close_limits(LaunchScope& scope) {
    if (const Status closed = scope.close(); !closed) complain(to_string(closed.error()));
  }

  // With a /dev/shm of its own that is one of the child's; else it starts with dlprobe's own.
  void look_at_its_shm(ChildSpec& spec) {
    if (!spec.limits.shm_bytes) return look_at_shm_of(::getpid(), machine_, *recorder_);
    spec.before_exec = [this](pid_t pid) { look_at_shm_of(pid, machine_, *recorder_); };
  }

  // Its helpers may outlive the command, dlprobe does not wait for them.
  void watch_to_its_end(const CommandWatch& options, WatchTarget& target) {
    constexpr BootNs kTimeToSaveAndEnd = 30 * kSecond;
    const BootNs hang_after = options.hang_after.count();
    target.linger = kSecond / 5;
    target.standstill = StandstillPolicy{.quiet_after = hang_after,
                                         .judge_after = hang_after + 2 * kSecond,
                                         .is_stuck = [this] { return is_stuck(); },
                                         .when_stuck =
                                             [this, &options] {
                                               if (options.when_hung)
                                                 options.when_hung(recorder_->recording());
                                             },
                                         .end_tree = options.end_when_hung,
                                         .kill_after = kTimeToSaveAndEnd};
  }

  // A command may go on for long after a failure, or hang: what is certain by now is told in one
  // line, once.
  void tell_early() {
    if (was_told_early_) return;
    const Verdict verdict = request_.probe->examine(recorder_->recording());
    for (const Finding& finding : verdict.findings) {
      if (finding.severity != Severity::kError || finding.confidence != Confidence::kCertain)
        continue;
      complain(fmt::format("{} {}: {} (the command still runs; the report comes when it ends)",
                           info(finding.code).code, info(finding.code).name, finding.message));
      was_told_early_ = true;
      return;
    }
  }

  // Once, in the first run.
  void look_at_gate_once() {
    if (!request_.gate || has_looked_at_gate_) return;
    has_looked_at_gate_ = true;
    GateFacts facts = look_at_gate(machine_, request_.gate->wish);
    facts.level = request_.gate->level;
    facts.deadline = recorder_->recording().header.boottime_ns + request_.gate->deadline.count();
    gate_deadline_ = facts.deadline;
    facts.python = look_at_python(machine_, request_.gate->python, facts.deadline);
    recorder_->add(std::move(facts));
  }

  bool starts_nothing() const { return request_.gate && request_.gate->level == "quick"; }

  void run_reference_loader() {
    if (starts_nothing()) return look_without_run("--level quick starts no loader");
    const std::string named = own_environment("DLPROBE_REFERENCE_LOADER").value_or("");
    const auto executable = find_reference_loader(named, own_executable());
    if (!executable && request_.gate) return look_without_run(executable.error().context);
    if (!executable) return refuse(executable.error(), kExitUsage);
    for (size_t i = 0; i < request_.plans.size() && !result_.refusal && !interrupted_; ++i) {
      LoaderPlan plan = request_.plans[i];
      if (plan.batches == 0) plan.batches = enough_batches(plan);
      progress_.set_title(fmt::format("run {} of {}, {}, {}: ", i + 1, request_.plans.size(),
                                      to_string(plan.start_method),
                                      to_string(plan.sharing_strategy)));
      run_plan(*executable, plan);
    }
  }

  // What the gate can tell without a run of the loader.
  void look_without_run(const std::string& why) {
    const LoaderPlan& plan = request_.plans.front();
    begin_run({.plan = plan, .trial = trial_of(plan)});
    look_at_shm_of(::getpid(), machine_, *recorder_);
    look_at_gate_once();
    recorder_->add(
        RunEnd{.at = machine_.clock->now(), .reason = RunEndReason::kNotStarted, .text = why});
  }

  // A loader that would not fit is not started: on a shared /dev/shm it would take the other jobs
  // down.
  void run_plan(const std::string& executable, const LoaderPlan& plan) {
    begin_run({.plan = plan, .trial = trial_of(plan)});
    // In a /dev/shm of its own it harms nobody.
    if (plan.fault.empty() && !request_.limits.shm_bytes) {
      look_at_shm_of(::getpid(), machine_, *recorder_);
      look_at_gate_once();
      if (gate_deadline_ != 0 && machine_.clock->now() >= gate_deadline_) {
        recorder_->add(RunEnd{.at = machine_.clock->now(),
                              .reason = RunEndReason::kTimeUp,
                              .text = "the deadline had passed"});
        return;
      }
      if (has_finding(*request_.probe, Severity::kError)) {
        recorder_->add(RunEnd{.at = machine_.clock->now(),
                              .reason = RunEndReason::kNotStarted,
                              .text = "it was not started: see the findings"});
        return;
      }
    }
    start_plan(executable, plan);
  }

  // What is known of the loader beside what contains it.
  std::optional<Trial> trial_of(const LoaderPlan& plan) const {
    std::optional<Trial> trial = request_.loader_trial;
    if (!trial) return std::nullopt;
    trial->start_method = plan.start_method;
    trial->sharing_strategy = plan.sharing_strategy;
    trial->workers = plan.workers;
    return trial;
  }

  bool is_stuck() const { return has_finding(*find_probe("deadlock"), Severity::kWarning); }

  // Of the last run.
  bool has_finding(const Probe& probe, Severity least) const {
    const Recording last = {.header = recorder_->recording().header,
                            .runs = {recorder_->current_run()}};
    const Verdict verdict = probe.examine(last);
    return std::ranges::any_of(
        verdict.findings, [least](const Finding& finding) { return finding.severity >= least; });
  }

  void start_plan(const std::string& executable, const LoaderPlan& plan) {
    constexpr int kProgressFd = 3;
    std::array<int, 2> progress{};
    if (::pipe2(progress.data(), O_CLOEXEC) != 0) return refuse(os_error("pipe"), kExitIncomplete);
    UniqueFd read_end(progress[0]);
    UniqueFd write_end(progress[1]);
    ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
    auto scope = prepare_limits();
    if (!scope) return;
    const auto child =
        ChildProcess::start({.argv = reference_loader_argv(executable, plan, kProgressFd),
                             .descriptors = {{write_end.get(), kProgressFd}},
                             .dies_with_us = true,
                             .adopts_orphans = !plays_another_job(plan),
                             .limits = scope->child_limits()});
    write_end.reset();
    if (!child) return refuse(child.error(), kExitUsage);
    const auto root = process_key(machine_, child->pid());
    if (!root) return refuse(root.error(), kExitIncomplete);
    WatchTarget target{.root = *root,
                       .child = child->pid(),
                       .progress = std::move(read_end),
                       .deadline = deadline(request_.watch_for),
                       .ends_with_watch = true};
    if (gate_deadline_ != 0) target.deadline = gate_deadline_;
    if (request_.probe->needs_snapshots) {
      target.standstill = StandstillPolicy{.quiet_after = 2 * kSecond,
                                           .judge_after = 5 * kSecond,
                                           .is_stuck = [this] { return is_stuck(); },
                                           .end_tree = true};
    }
    std::optional<Precedence> precedence;
    if (const auto trial = trial_of(plan)) {
      precedence.emplace();
      contain(*trial, target);
    }
    const WatchResult watched = watch_target(std::move(target));
    close_limits(*scope);
    interrupted_ = watched.interrupted;
    const bool refused_its_options = watched.child_wait_status &&
                                     !recorder_->current_run().loader &&
                                     WIFEXITED(*watched.child_wait_status) &&
                                     WEXITSTATUS(*watched.child_wait_status) == kExitUsage;
    // What the gate says without it is worth a report.
    if (refused_its_options && !request_.gate) {
      refuse({.code = ErrorCode::kInvalid,
              .os_errno = 0,
              .context = "the reference loader cannot run with these options (see its line above)"},
             kExitUsage);
    }
  }

  const ExamineRequest& request_;
  const Machine& machine_;
  SignalFd signals_;
  ProgressLine progress_;
  Recorder* recorder_;
  std::optional<PythonShim> shim_;     ///< of the command that runs
  std::optional<TrialWarden> warden_;  ///< ends its trial should dlprobe be killed
  Examination result_;
  bool interrupted_ = false;
  bool was_told_early_ = false;
  bool has_looked_at_gate_ = false;
  BootNs gate_deadline_ = 0;  ///< 0: none
};

// Empty where it was removed.
std::string working_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

}  // namespace

RecordingHeader recording_header(const Machine& machine, const Probe& probe,
                                 const std::vector<std::string>& arguments,
                                 std::chrono::nanoseconds interval) {
  return {.recording_id = random_id(),
          .realtime_ns = machine.clock->realtime_ns(),
          .boottime_ns = machine.clock->now(),
          .host = read_host_facts(machine, own_environment),
          .invocation = {.version = std::string(kVersion),
                         .probe = std::string(probe.name),
                         .argv = mask_secrets(arguments),
                         .euid = ::geteuid(),
                         .interval_ns = interval.count(),
                         .working_folder = working_folder()}};
}

int exit_of_refused_start(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return kExitNotFound;
    case ErrorCode::kUnsupported:
      return kExitUsage;
    default:
      return kExitNotExecutable;
  }
}

std::string own_executable() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

std::chrono::nanoseconds default_watch_of_pid(const Probe& probe) {
  return probe.needs_snapshots ? kQuickAnswer : std::chrono::seconds(probe.watch_of_pid_s);
}

Examination examine(const ExamineRequest& request) {
  auto machine = live_machine();
  if (!machine) {
    return {
        .recording = {}, .refusal = std::move(machine).error(), .refusal_exit = kExitIncomplete};
  }
  auto recorder = Recorder::open(
      recording_header(*machine, *request.probe, request.arguments, request.interval),
      request.record_path);
  if (!recorder) {
    return {.recording = {}, .refusal = std::move(recorder).error(), .refusal_exit = kExitUsage};
  }
  Examination result;
  {
    // A signal that comes between two runs waits for the second.
    const SignalFd signals;
    result = Examiner(request, *machine, **recorder).run();
    const auto again = [&](const ExamineRequest& attempt) {
      return Examiner(attempt, *machine, **recorder).run().refusal;
    };
    if (request.confirm && !result.refusal)
      confirm_remedies(request, *machine->clock, **recorder, again);
  }
  // Not every examination prints a report.
  if (!(*recorder)->ended_early().empty()) complain((*recorder)->ended_early());
  result.recording = (*recorder)->recording();
  return result;
}

}  // namespace dlprobe
