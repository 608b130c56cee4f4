#include "lib/session/command_runs.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/collect/deaths/oom_watch.h"
#include "lib/collect/tasks/task_look.h"
#include "lib/os/atomic_file.h"
#include "lib/os/growing_file.h"
#include "lib/os/process_access.h"
#include "lib/proc/pid_stat.h"
#include "lib/session/kill_descendants.h"
#include "lib/session/shm_preview.h"
#include "lib/session/step_progress.h"

namespace dlprobe {
namespace {

// A limit that cannot be had is a request that cannot be carried out.
Refusal::Kind kind_of_refused_start(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
      return Refusal::Kind::kNotFound;
    case ErrorCode::kUnsupported:
      return Refusal::Kind::kImpossible;
    default:
      return Refusal::Kind::kNotExecutable;
  }
}

// What is left of a command whose watch is over, and whatever it started since.
void end_descendants(ProcessControl& control, const Machine& machine) {
  constexpr BootNs kPatience = 3 * kSecond;
  const BootNs until = machine.clock->now() + kPatience;
  kill_descendants(control, machine);
  while (control.has_children() && machine.clock->now() < until) {
    reap_ended_children(control);
    control.wait({}, kMillisecond);
  }
}

ShimOptions options_of(const Trial& trial) {
  return {.overrides = {.start_method = trial.start_method,
                        .sharing_strategy = trial.sharing_strategy,
                        .num_workers = trial.workers,
                        .prefetch_factor = std::nullopt,
                        .force = trial.forced},
          .tells_batches = true,
          .paced_after = trial.most_processes};
}

// Its helpers may outlive the command, dlprobe does not wait for them.
void watch_to_its_end(const CommandWatch& options, WatchTarget& target) {
  constexpr BootNs kTimeToSaveAndEnd = 30 * kSecond;
  constexpr BootNs kWorthALook = 10 * kSecond;
  const BootNs hang_after = options.hang_after.count();
  target.linger = kSecond / 5;
  target.snapshots = SnapshotTimes::kWhenQuiet;
  target.standstill = StandstillPolicy{.early_after = kWorthALook,
                                       .quiet_after = hang_after,
                                       .judge_after = hang_after + 2 * kSecond,
                                       .end_tree = options.end_when_hung,
                                       .kill_after = kTimeToSaveAndEnd};
}

// Nobody else would end it, and it is to be run again. `looks`: the probe takes snapshots anyway.
void end_where_stuck(bool looks, WatchTarget& target) {
  constexpr BootNs kSure = 10 * kSecond;
  if (!looks) target.snapshots = SnapshotTimes::kWhenQuiet;
  target.standstill = StandstillPolicy{
      .quiet_after = 2 * kSecond, .judge_after = looks ? 5 * kSecond : kSure, .end_tree = true};
}

// What does not move is worth a look, whatever else was asked; nothing follows from it meanwhile.
void look_where_quiet(WatchTarget& target) {
  target.snapshots = SnapshotTimes::kWhenQuiet;
  target.standstill = StandstillPolicy{.quiet_after = 5 * kSecond,
                                       .judge_after = std::numeric_limits<BootNs>::max()};
}

}  // namespace

void CommandRuns::run() {
  if (subject_.trials.empty()) return run_once(std::nullopt);
  const off_t input_from = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
  std::optional<StepProgress> steps;
  // A control run may follow.
  if (!subject_.attempt) {
    steps.emplace(
        context_.notices, *context_.machine.clock,
        StepPlan{
            .name = context_.request.probe, .steps = subject_.trials.size() + 1, .is_most = true});
  }
  const auto run_trial = [&](const Trial& trial) {
    if (steps) steps->begin(to_string(trial.start_method));
    // Each has all of a file; a pipe or terminal has no more than it has.
    if (input_from >= 0) ::lseek(STDIN_FILENO, input_from, SEEK_SET);
    run_once(trial);
  };
  for (const Trial& trial : subject_.trials) {
    run_trial(trial);
    if (context_.is_over()) return;
    // Its own error was printed, and is the same under any start method.
    if (context_.judge.failed_by_itself(context_.recorder.current_run())) return;
  }
  if (subject_.attempt || !context_.judge.wants_control(context_.recorder.recording())) return;
  Trial control = subject_.trials.front();
  control.start_method = StartMethod::kFork;
  run_trial(control);
}

void CommandRuns::run_once(const std::optional<Trial>& trial) {
  const bool always_looks = context_.request.looks.snapshots && !subject_.watch;
  const bool never_looks = trial && !ends_its_command();
  context_.begin_run({.subject = SubjectKind::kCommand,
                      .command = mask_secrets(subject_.argv),
                      .plan = subject_.told_plan,
                      .looks_when_quiet = !always_looks && !never_looks,
                      .trial = trial,
                      .attempt = subject_.attempt},
                     subject_.limits);
  tell_own_limit();
  auto scope = context_.prepare_limits(subject_.limits);
  if (!scope) return;
  auto log = GrowingFile::behind(STDERR_FILENO);
  const auto root = start(
      {.argv = subject_.argv, .limits = subject_.limits, .cgroup_procs = scope->cgroup_procs()},
      trial);
  if (!root) return;
  WatchTarget target = target_of(*root, trial);
  if (log) target.log.emplace(std::move(*log));
  const WatchResult watched = context_.watch(std::move(target), *this);
  context_.result.wait_status = watched.child_wait_status;
  context_.result.left = watched.left;
  end_what_goes_on(watched, root->pid);
  context_.close_limits(*scope);
  if (!trial && !subject_.attempt) tell_which_overrides_failed();
  containment_.reset();
  guard_.reset();
  shim_.reset();
  ended_ = 0;
}

// A hang is told by what is read of the job while it lasts.
void CommandRuns::tell_own_limit() {
  constexpr uint64_t kFilesForASmallJob = 64;
  const uint64_t files = raise_open_files_limit();
  if (files == 0 || files >= kFilesForASmallJob) return;
  const OwnWords why = own(files) + " files at most may be open in dlprobe itself (ulimit -Hn)";
  const OwnWords remedy =
      "to limit the command alone: dlprobe run --limit-fds " + own(files) + " -- COMMAND";
  context_.recorder.add(Gap{.what = "all of the command",
                            .why = why,
                            .effect = "dlprobe may miss a hang or a leak",
                            .remedy = remedy});
  if (subject_.watch) context_.notices.tell(why + ": it may miss a hang; " + remedy);
}

std::optional<ProcessKey> CommandRuns::start(ChildSpec spec, const std::optional<Trial>& trial) {
  if (!prepare_shim(spec, trial)) return std::nullopt;
  if (shim_) look_at_tasks(std::nullopt);
  // Before anything of it can have been killed.
  if (auto counter = read_host_oom_counter(context_.machine))
    context_.recorder.add(std::move(*counter));
  std::ranges::copy(subject_.environment, std::back_inserter(spec.environment));
  UniqueFd null;
  if (!set_apart(spec, null)) return std::nullopt;
  // The command may be gone before the first sample. With a /dev/shm of its own that is one of the
  // child's; else it starts with dlprobe's own.
  const auto look_at_its_shm = [this](pid_t pid) {
    look_at_shm_of(pid, context_.machine, context_.recorder);
  };
  if (spec.limits.shm_bytes) {
    spec.before_exec = look_at_its_shm;
  } else {
    look_at_its_shm(context_.control.own_pid());
  }
  return context_.start(spec, kind_of_refused_start);
}

// Without a witness less is known of the command, which runs all the same.
void CommandRuns::do_without_witness(Message why, const char* remedy) {
  context_.recorder.add(
      Gap{.what = "exceptions in the command's interpreters",
          .why = std::move(why),
          .effect = "dlprobe does not see exceptions and refused starts of processes",
          .remedy = remedy});
}

bool CommandRuns::prepare_shim(ChildSpec& spec, const std::optional<Trial>& trial) {
  const ShimOptions options =
      trial ? options_of(*trial) : ShimOptions{.overrides = subject_.overrides};
  const bool is_needed = options.overrides.any();
  if (!is_needed && !subject_.has_witness) return true;
  const auto python = parse_python_command(subject_.argv);
  if (const auto why = python && !is_needed ? why_shim_is_not_loaded(*python) : std::nullopt)
    do_without_witness(own(*why), "start the interpreter without it");
  auto shim = PythonShim::prepare(options);
  if (!shim && !is_needed) {
    do_without_witness(as_text(to_string(shim.error())), "set TMPDIR to a writable folder");
    return true;
  }
  if (!shim) {
    context_.refuse(shim.error(), Refusal::Kind::kImpossible);
    return false;
  }
  if (trial) {
    auto guard = context_.control.guard_trial(shim->folder());
    if (!guard) {
      context_.refuse(guard.error(), Refusal::Kind::kIncomplete);
      return false;
    }
    guard_ = std::move(*guard);
  }
  spec.environment = shim->environment();
  shim_ = std::move(*shim);
  return true;
}

// What a command prints is for whoever reads it, once. Errors are worth seeing.
bool CommandRuns::set_apart(ChildSpec& spec, UniqueFd& null) {
  if (!subject_.attempt) return true;
  // Those of the run before are not this one's.
  reap_ended_children(context_.control);
  auto opened = open_null_device();
  if (!opened) {
    context_.refuse(opened.error(), Refusal::Kind::kIncomplete);
    return false;
  }
  null = std::move(*opened);
  spec.descriptors = {{null.get(), STDIN_FILENO}, {null.get(), STDOUT_FILENO}};
  return true;
}

WatchTarget CommandRuns::target_of(const ProcessKey& root, const std::optional<Trial>& trial) {
  WatchTarget target{.root = root, .child = root.pid, .deadline = context_.deadline()};
  if (shim_) target.news = shim_->descriptor();
  if (subject_.watch) {
    watch_to_its_end(*subject_.watch, target);
  } else if (ends_its_command()) {
    end_where_stuck(context_.request.looks.snapshots, target);
  } else if (!context_.request.looks.snapshots && !trial) {
    look_where_quiet(target);
  }
  if (trial) {
    // Its own time is up sooner than that of a job which is watched.
    constexpr BootNs kTimeOfTrial = 60 * kSecond;
    if (!target.deadline) target.deadline = context_.now() + kTimeOfTrial;
    target.ends_at_deadline = true;
    containment_.emplace(*trial, context_);
    Containment::put(target.collect);
  }
  return target;
}

// One that is to be run again must not run beside itself.
void CommandRuns::end_what_goes_on(const WatchResult& watched, pid_t child) {
  const bool goes_on = watched.end.reason == RunEndReason::kTimeUp;
  const bool leaves_some = subject_.attempt && !watched.left.empty();
  if (ends_its_command()) {
    if (goes_on || leaves_some) end_descendants(context_.control, context_.machine);
  } else if (goes_on) {
    context_.notices.tell(fmt::format("the command (pid {}) continues, no longer watched", child));
  }
}

void CommandRuns::take_news() {
  if (!shim_) return;
  for (StartEvent& event : shim_->read_new()) {
    const bool is_full =
        event.cause == StartRefusal::kNoProcess || event.cause == StartRefusal::kNoThread;
    if (is_full) look_at_tasks(event.process);
    learn_timeout(event);
    learn_rank(event);
    context_.recorder.add(std::move(event));
  }
  take_crashes();
}

void CommandRuns::take_crashes() {
  const size_t ended = context_.recorder.current_run().exits.size();
  if (!shim_ || std::exchange(ended_, ended) == ended) return;
  for (StartEvent& crash : shim_->read_crashes()) {
    crash.at = context_.now();
    context_.recorder.add(std::move(crash));
  }
}

void CommandRuns::learn_timeout(const StartEvent& event) {
  constexpr double kLongest = 3600;
  const double seconds = event.seconds.value_or(0);
  const bool has_one = event.kind == StartEventKind::kLoaderMade ||
                       event.kind == StartEventKind::kMeetsAt ||
                       event.kind == StartEventKind::kWaitsAtMost;
  if (!has_one || seconds <= 0 || seconds > kLongest) return;
  const auto timeout = static_cast<BootNs>(seconds * kSecond);
  shortest_timeout_ = shortest_timeout_ == 0 ? timeout : std::min(shortest_timeout_, timeout);
}

void CommandRuns::learn_rank(const StartEvent& event) {
  const auto rank = event.count.value_or(-1);
  const auto size = event.workers.value_or(0);
  if (event.kind != StartEventKind::kJoinedGroup || rank < 0 || rank >= size) return;
  ranks_[event.process] = {
      .rank = static_cast<int32_t>(rank), .world_size = size, .source = "torch.distributed"};
}

namespace {

// A zombie has its folder, and no limits or groups any more.
std::shared_ptr<const Directory> folder_of_living(const Directory& root, int32_t pid) {
  auto folder = root.open_directory("proc/" + std::to_string(pid));
  if (!folder) return nullptr;
  const auto stat = chain((*folder)->read("stat"), parse_pid_stat);
  return stat && stat->start_code != 0 ? std::move(*folder) : nullptr;
}

}  // namespace

// While who was refused one is still there; one that has ended left its limits to its children,
// which are younger, and had them of its parent.
void CommandRuns::look_at_tasks(const std::optional<ProcessKey>& refused) {
  constexpr size_t kMostLooks = 16;
  if (context_.recorder.current_run().task_facts.size() > kMostLooks) return;
  const Directory& root = *context_.machine.root;
  std::shared_ptr<const Directory> folder;
  if (refused) folder = folder_of_living(root, refused->pid);
  for (const ProcessInfo& process : context_.recorder.current_run().processes) {
    if (folder != nullptr) break;
    if (refused && process.key.start_ticks > refused->start_ticks)
      folder = folder_of_living(root, process.key.pid);
  }
  if (folder == nullptr) folder = root.open_directory("proc/self").value_or(nullptr);
  if (folder == nullptr) return;
  TaskFacts facts = read_task_facts(context_.machine, *folder);
  facts.process = refused;
  context_.recorder.add(std::move(facts));
}

// A command may go on for long after a failure, or hang: what is certain by now is told in one
// line, once.
void CommandRuns::look_now_and_then() {
  if (subject_.attempt || was_told_early_) return;
  const Verdict verdict = context_.judge.examine(context_.recorder.recording());
  const auto certain = std::ranges::find_if(verdict.findings, [](const Finding& finding) {
    return finding.severity == Severity::kError && finding.confidence == Confidence::kCertain;
  });
  if (certain == verdict.findings.end()) return;
  context_.notices.tell(
      fmt::format("{} {}: {} (the command still runs; unless it ends well, a report follows)",
                  info(certain->code).code, info(certain->code).name, certain->message.plain()));
  was_told_early_ = true;
}

std::optional<OwnWords> CommandRuns::why_break_off(size_t living) {
  return containment_ ? containment_->why_break_off(living) : std::nullopt;
}

std::optional<BootNs> CommandRuns::in_vain_since() {
  return context_.judge.in_vain_since(context_.recorder.current_run());
}

bool CommandRuns::is_stuck() {
  if (context_.is_stuck() || (!subject_.watch && context_.has_error())) return true;
  tell_what_is_asked();
  return false;
}

// Who waits for a person does not hang, but nobody may look at its terminal.
void CommandRuns::tell_what_is_asked() {
  if (subject_.attempt || !subject_.watch || was_told_of_question_) return;
  const std::string asked = context_.judge.what_is_asked(context_.recorder.current_run_alone());
  if (asked.empty()) return;
  context_.notices.tell(asked + "; answer it, or let it read nothing: COMMAND < /dev/null");
  was_told_of_question_ = true;
}

void CommandRuns::tell_stuck() {
  if (subject_.watch && subject_.watch->when_hung)
    subject_.watch->when_hung(context_.recorder.recording());
  was_told_early_ = true;
}

void CommandRuns::tell_moves_again(BootNs stood) {
  if (subject_.watch && subject_.watch->when_moving_again)
    subject_.watch->when_moving_again(std::chrono::nanoseconds(stood));
}

// A command may be no Python at all, start its interpreters with an environment of their own, or
// know better.
void CommandRuns::tell_which_overrides_failed() const {
  if (!shim_ || !subject_.overrides.any()) return;
  const Run& run = context_.recorder.current_run();
  if (run.start_events.empty()) {
    return context_.notices.tell(
        "no Python interpreter of the command (3.6 or later) took the overrides: it ran without "
        "them");
  }
  const PythonOverrides& overrides = subject_.overrides;
  for (const Setting& setting : settings_of(overrides)) {
    const std::string won = context_.judge.what_won_over(run, setting);
    if (won.empty()) continue;
    const bool can_force = !overrides.force && (setting.kind == SettingKind::kStartMethod ||
                                                setting.kind == SettingKind::kSharingStrategy);
    context_.notices.tell(fmt::format("{} was asked for, but {}{}", describe({setting}), won,
                                      can_force ? " (--force overrides that)" : ""));
  }
}

}  // namespace dlprobe
