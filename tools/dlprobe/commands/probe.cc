#include "probes/probe.h"

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "lib/model/loader_fault.h"
#include "lib/session/examination.h"
#include "lib/session/recorder.h"
#include "lib/session/target.h"
#include "lib/subject/script_reader.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/launch_options.h"
#include "tools/dlprobe/options/loader_options.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/options/watch_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

struct ProbeOptions {
  LoaderOptions loader;
  OutputOptions output;
  std::string fault;
  std::string pid;  ///< as typed; empty: not given
  bool reads_only = false;
  WatchOptions watch;
  LaunchOptions launch;
  std::string confirm;  ///< as typed; empty: not given
  bool force = false;
  int process_budget = 0;  ///< 0: not given
  int depth = 3;
};

void add_trial_options(CLI::App& command, ProbeOptions& options, const char* group) {
  constexpr int kMost = 100'000;
  command
      .add_flag("--static", options.reads_only,
                "only parse the script, and run nothing: shows what breaks when workers import it")
      ->group(group);
  command
      .add_flag("--force", options.force,
                "for a command: override the start method even if the script names one")
      ->group(group);
  command
      .add_option("--process-budget", options.process_budget,
                  "end the command when more processes live at once (default: 16, plus the cores, "
                  "plus the workers of its largest loader)")
      ->check(whole_number(2, kMost))
      ->type_name("N")
      ->group(group);
  command
      .add_option(
          "--depth", options.depth,
          "end the command when processes start copies of themselves this many generations deep")
      ->check(whole_number(1, 100))
      ->capture_default_str()
      ->type_name("N")
      ->group(group);
}

std::vector<std::string> fault_names() {
  std::vector<std::string> names;
  for (const FaultInfo& fault : all_faults())
    names.emplace_back(fault.name);
  return names;
}

void add_subject_options(CLI::App& command, const Probe& probe, ProbeOptions& options) {
  constexpr const char* kGroup = "What to look at (default: the reference loader)";
  command.add_option("--pid", options.pid, "a live process: the trainer or any of its workers")
      ->type_name("PID")
      ->group(kGroup);
  command
      .add_option("--fault", options.fault, "make this failure happen inside the reference loader")
      ->type_name("NAME[:k=v,...]")
      ->check(offering(fault_names()))
      ->group(kGroup);
  if (probe.tries_start_methods) add_trial_options(command, options, kGroup);
  add_watch_options(command, options.watch, probe, "Watch");
  add_launch_options(command, options.launch, "Limits of what is started");
  add_confirm_option(command, options.confirm, kGroup);
}

Status check_combination(const ProbeOptions& options, const Session& session) {
  if (session.child_command_given && session.child_command.empty()) {
    return failure(ErrorCode::kInvalid, "there is no command after --");
  }
  if (!options.pid.empty() && session.child_command_given) {
    return failure(ErrorCode::kInvalid, "give either --pid or a command after --");
  }
  if (!options.fault.empty() && (!options.pid.empty() || session.child_command_given)) {
    return failure(ErrorCode::kInvalid,
                   "--fault works only on the reference loader, not on --pid or a command");
  }
  if (options.force && !session.child_command_given) {
    return failure(ErrorCode::kInvalid,
                   "--force overrides what a script asks for: give the command after --");
  }
  if (options.reads_only && !session.child_command_given) {
    return failure(ErrorCode::kInvalid,
                   "--static parses the script of a command: give the command after --");
  }
  if (options.reads_only && !options.confirm.empty()) {
    return failure(ErrorCode::kInvalid, "--confirm runs the command, and --static does not");
  }
  const auto fault = parse_fault(options.fault);
  if (!fault) return failure(ErrorCode::kInvalid, "--fault: " + fault.error().context);
  return {};
}

// The start methods and sharing strategies of someone else's loader are not ours to choose.
std::optional<LoaderPlan> told_plan(const CLI::App& command, const std::vector<LoaderPlan>& plans) {
  return loader_options_given(command) ? std::optional(plans.front()) : std::nullopt;
}

// A group for the fault to be killed in. Its limit must be known to the loader, too.
Status give_group_to_fault(const LaunchOptions& launch, std::string& fault_text,
                           LoaderSubject& loader) {
  constexpr uint64_t kEnoughForTheLoader = kGiB;
  const Fault fault = parse_fault(fault_text).value_or(Fault());
  if (fault.kind != FaultKind::kOomKilledByCgroup) return {};
  if (launch.limit_memory) {
    return failure(ErrorCode::kInvalid,
                   "this fault sets its own limit: give oom-killed-by-cgroup:limit=SIZE instead "
                   "of --limit-memory");
  }
  loader.limits.memory_bytes = fault.number("limit", kEnoughForTheLoader);
  if (!fault.parameters.contains("limit")) {
    fault_text += fault.parameters.empty() ? ":" : ",";
    fault_text += "limit=" + std::to_string(*loader.limits.memory_bytes);
  }
  return check_launch_limits(loader.limits);
}

// Unless the user says otherwise, one run shows a fault: under fork, and under the sharing strategy
// whose way of freeing segments it needs. Where start methods are tried, they are side by side, and
// how tensors are handed over is no part of that.
LoaderOptions options_of_loader(const CLI::App& command, const Probe& probe,
                                const ProbeOptions& options) {
  LoaderOptions loader = options.loader;
  if (options.fault.empty() && !probe.tries_start_methods) return loader;
  if (command.count("--start-method") == 0 && !probe.tries_start_methods)
    loader.start_method = to_string(StartMethod::kFork);
  if (command.count("--sharing-strategy") == 0) {
    const bool needs_names = options.fault.starts_with(info(FindingCode::kShmLeak).name);
    loader.sharing_strategy =
        to_string(needs_names ? SharingStrategy::kFileSystem : SharingStrategy::kFileDescriptor);
  }
  return loader;
}

Trial limits_of_trial(const ProbeOptions& options) {
  constexpr int kBesideWorkers = 16;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  const bool is_given = options.process_budget > 0;
  return {.most_processes = is_given ? options.process_budget : kBesideWorkers + cores,
          .most_depth = options.depth};
}

// One for each start method that a script may meet elsewhere; fork is what it mostly knows.
Expected<std::vector<Trial>> trials(const CLI::App& command, const ProbeOptions& options,
                                    const std::vector<std::string>& argv) {
  DLP_CHECK(check_interpreter(argv));
  const auto given = [&](const char* option) { return command.count(option) > 0; };
  DLP_TRY(const std::vector<LoaderPlan> plans, loader_plans(options.loader));
  const Trial limits = limits_of_trial(options);
  std::vector<Trial> trials;
  for (const LoaderPlan& plan : plans) {
    if (!given("--start-method") && plan.start_method == StartMethod::kFork) continue;
    Trial trial = limits;
    trial.start_method = plan.start_method;
    trial.forced = options.force;
    if (given("--sharing-strategy")) trial.sharing_strategy = plan.sharing_strategy;
    if (given("--workers")) trial.workers = plan.workers;
    if (std::ranges::find(trials, trial) == trials.end()) trials.push_back(trial);
  }
  return trials;
}

Expected<ExamineRequest> make_request(const CLI::App& command, const Probe& probe,
                                      const ProbeOptions& options, const Session& session) {
  // As an unset variable leaves it: not the reference loader, which was not asked for.
  if (command.count("--pid") > 0 && options.pid.empty()) {
    return failure(ErrorCode::kInvalid, "--pid needs a process id");
  }
  DLP_CHECK(check_combination(options, session));
  ExamineRequest request = request_for(probe, session.arguments);
  DLP_TRY(std::vector<LoaderPlan> plans, loader_plans(options_of_loader(command, probe, options)));
  if (!options.pid.empty()) {
    auto pid = parse_pid(options.pid);
    if (!pid) return failure(ErrorCode::kInvalid, "--pid: " + pid.error().context);
    request.subject = PidSubject{.pid = *pid, .told_plan = told_plan(command, plans)};
  } else if (session.child_command_given) {
    CommandSubject started{.argv = session.child_command, .told_plan = told_plan(command, plans)};
    if (probe.tries_start_methods) {
      DLP_TRY(started.trials, trials(command, options, session.child_command));
    }
    request.subject = std::move(started);
    request.arguments.emplace_back("--");
    std::ranges::copy(session.child_command, std::back_inserter(request.arguments));
  } else {
    LoaderSubject loader{.plans = std::move(plans)};
    if (probe.tries_start_methods) loader.trial = limits_of_trial(options);
    request.subject = std::move(loader);
  }
  DLP_CHECK(put_watch_options(options.watch, probe, request));
  DLP_CHECK(put_launch_options(options.launch, request));
  DLP_CHECK(put_confirm_option(options.confirm, request));
  if (auto* loader = std::get_if<LoaderSubject>(&request.subject)) {
    std::string fault = options.fault;
    DLP_CHECK(give_group_to_fault(options.launch, fault, *loader));
    for (LoaderPlan& plan : loader->plans)
      plan.fault = fault;
  }
  return request;
}

Examination refused(const Error& error) {
  using enum Refusal::Kind;
  Refusal::Kind kind = error.code == ErrorCode::kTimeout ? kIncomplete : kImpossible;
  if (error.code == ErrorCode::kNotFound) kind = kNotFound;
  if (error.code == ErrorCode::kForbidden) kind = kNotExecutable;
  return {.refusal = Refusal{.error = error, .kind = kind}};
}

// `--static`: reads the program of `request.command` with its own interpreter; the recording's one
// run has what its text says, and the end "not-started". Refused where that is no Python program
// that can be read.
Examination read_statically(const ExamineRequest& request, const Surroundings& surroundings) {
  const Machine& machine = surroundings.machine;
  auto recorder = Recorder::open(
      recording_header(surroundings, request.probe, request.arguments, request.interval),
      request.record_path);
  if (!recorder)
    return {.refusal = Refusal{.error = recorder.error(), .kind = Refusal::Kind::kImpossible}};
  const std::vector<std::string>& command = std::get<CommandSubject>(request.subject).argv;
  auto events = read_script(command, machine);
  if (!events) return refused(events.error());
  Recorder& records = **recorder;
  records.add(RunBegin{.at = events->front().at,
                       .subject = SubjectKind::kCommand,
                       .command = mask_secrets(command)});
  for (StartEvent& event : *events)
    records.add(std::move(event));
  records.add(RunEnd{.at = machine.clock->now(),
                     .reason = RunEndReason::kNotStarted,
                     .text = "the program was only parsed (--static)"});
  const bool is_cut = !records.ended_early().empty();
  if (is_cut) complain(records.ended_early());
  return {.recording = records.recording(), .recording_cut = is_cut};
}

int run_probe(const CLI::App& command, const Probe& probe, const ProbeOptions& options,
              const Session& session) {
  const auto request = make_request(command, probe, options, session);
  if (!request) return complain_and_return(request.error(), kExitUsage);
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  if (options.reads_only)
    return conclude(on_this_machine(probe, ShowProgress::kNo,
                                    [&](const Surroundings& surroundings) {
                                      return read_statically(*request, surroundings);
                                    }),
                    probe, *outputs, options.output);
  // The command's own output would be mixed with it.
  const bool is_command = std::holds_alternative<CommandSubject>(request->subject);
  const ShowProgress progress = is_command ? ShowProgress::kLines : ShowProgress::kYes;
  return examine_and_conclude(*request, probe, options.output.quiet ? ShowProgress::kNo : progress,
                              *outputs, options.output);
}

void show_examples(CLI::App& command, const Probe& probe) {
  const std::string name(probe.name);
  const std::string loader = name + " --workers 8 --batch-size 64";
  const std::string live = name + " --pid 4711";
  const std::string watched = name + " -- python train.py";
  const std::string reading = name + " --static -- python train.py";
  if (probe.tries_start_methods) {
    return set_examples(command, {{watched, "run it under each"}, {reading, "run nothing"}});
  }
  set_examples(command, {{loader, "a loader of this shape"},
                         {live, "a running job; undisturbed"},
                         {watched, "a job from its start"}});
}

}  // namespace

void add_probe_commands(CLI::App& app, const Session& session, int& exit_status) {
  for (const Probe* probe : all_probes()) {
    if (probe->use != ProbeUse::kSubject) continue;
    auto* command = app.add_subcommand(std::string(probe->name), std::string(probe->summary));
    const auto options = std::make_shared<ProbeOptions>();
    add_subject_options(*command, *probe, *options);
    add_loader_options(*command, options->loader);
    add_output_options(*command, options->output);
    show_examples(*command, *probe);
    command->callback([command, probe, options, &session, &exit_status] {
      exit_status = run_probe(*command, *probe, *options, session);
    });
  }
}

}  // namespace dlprobe
