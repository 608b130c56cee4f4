#include "probes/probe.h"

#include <limits>
#include <memory>
#include <string>

#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/examine.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/loader_options.h"
#include "tools/dlprobe/output_options.h"

namespace dlprobe {
namespace {

constexpr std::chrono::milliseconds kShortestInterval{10};
constexpr std::chrono::seconds kLongestInterval{10};

struct ProbeOptions {
  LoaderOptions loader;
  OutputOptions output;
  std::string fault;
  std::optional<int32_t> pid;
  std::string watch_for;
  std::string interval = "100ms";
  std::string record_path;
};

void add_subject_options(CLI::App& command, ProbeOptions& options) {
  constexpr const char* kGroup = "Subject (default: the reference loader)";
  command.add_option("--pid", options.pid, "a live process: the trainer or any of its workers")
      ->check(whole_number(1, std::numeric_limits<int>::max()))
      ->group(kGroup);
  command
      .add_option("--fault", options.fault, "make this failure happen inside the reference loader")
      ->type_name("NAME[:k=v,...]")
      ->group(kGroup);
  command.add_option("--for", options.watch_for, "end the watch (not the command) after this long")
      ->type_name("DURATION")
      ->group(kGroup);
  command.add_option("--interval", options.interval, "time between samples")
      ->type_name("DURATION")
      ->capture_default_str()
      ->group(kGroup);
  command.add_option("--record", options.record_path, "keep the recording, for dlprobe replay")
      ->type_name("FILE")
      ->group(kGroup);
}

Expected<std::chrono::nanoseconds> parse_interval(const std::string& text) {
  DLP_TRY(const auto interval, parse_duration(text));
  if (interval < kShortestInterval || interval > kLongestInterval) {
    return failure(ErrorCode::kInvalid, "--interval " + text + " is not between 10ms and 10s");
  }
  return interval;
}

Status check_combination(const ProbeOptions& options, const Session& session) {
  if (session.child_command_given && session.child_command.empty()) {
    return failure(ErrorCode::kInvalid, "there is no command behind --");
  }
  if (options.pid && session.child_command_given) {
    return failure(ErrorCode::kInvalid, "--pid and a command behind -- exclude each other");
  }
  if (!options.fault.empty() && (options.pid || session.child_command_given)) {
    return failure(ErrorCode::kInvalid,
                   "--fault works on the reference loader alone, not on --pid or a command");
  }
  if (!options.fault.empty()) {
    const std::string name = options.fault.substr(0, options.fault.find(':'));
    if (find_finding(name) == nullptr) {
      return failure(ErrorCode::kInvalid,
                     "--fault " + name + ": there is no finding of that name (dlprobe list)");
    }
  }
  return {};
}

// The start methods and sharing strategies of someone else's loader are not ours to choose.
void take_told_plan(const CLI::App& command, const std::vector<LoaderPlan>& plans,
                    ExamineRequest& request) {
  if (loader_options_given(command)) request.told_plan = plans.front();
}

// One run shows a fault: under fork, and under the sharing strategy whose way of freeing segments
// it needs, unless the user says otherwise.
LoaderOptions options_of_fault(const CLI::App& command, const ProbeOptions& options) {
  LoaderOptions loader = options.loader;
  if (command.count("--start-method") == 0) loader.start_method = to_string(StartMethod::kFork);
  if (command.count("--sharing-strategy") == 0) {
    const bool needs_names = options.fault.starts_with(info(FindingCode::kShmLeak).name);
    loader.sharing_strategy =
        to_string(needs_names ? SharingStrategy::kFileSystem : SharingStrategy::kFileDescriptor);
  }
  return loader;
}

Expected<ExamineRequest> make_request(const CLI::App& command, const Probe& probe,
                                      const ProbeOptions& options, const Session& session) {
  DLP_CHECK(check_combination(options, session));
  ExamineRequest request = {.probe = &probe, .arguments = session.arguments};
  DLP_TRY(
      std::vector<LoaderPlan> plans,
      loader_plans(options.fault.empty() ? options.loader : options_of_fault(command, options)));
  DLP_TRY(request.interval, parse_interval(options.interval));
  if (!options.watch_for.empty()) {
    DLP_TRY(request.watch_for, parse_duration(options.watch_for));
  }
  request.record_path = options.record_path;
  if (options.pid) {
    request.subject = SubjectKind::kPid;
    request.pid = *options.pid;
    take_told_plan(command, plans, request);
  } else if (session.child_command_given) {
    request.subject = SubjectKind::kCommand;
    request.command = session.child_command;
    request.arguments.emplace_back("--");
    request.arguments.insert(request.arguments.end(), request.command.begin(),
                             request.command.end());
    take_told_plan(command, plans, request);
  } else {
    for (LoaderPlan& plan : plans)
      plan.fault = options.fault;
    request.plans = std::move(plans);
  }
  // The command's own output would be mixed with it.
  request.show_progress = request.subject != SubjectKind::kCommand && !options.output.quiet;
  return request;
}

int run_probe(const CLI::App& command, const Probe& probe, const ProbeOptions& options,
              const Session& session) {
  const auto request = make_request(command, probe, options, session);
  if (!request) return complain_and_return(request.error(), kExitUsage);
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const Examination examination = examine(*request);
  if (examination.refusal) {
    return complain_and_return(*examination.refusal, examination.refusal_exit);
  }
  return conclude(examination.recording, probe, *outputs, options.output);
}

}  // namespace

void add_probe_commands(CLI::App& app, const Session& session, int& exit_status) {
  for (const Probe* probe : all_probes()) {
    auto* command = app.add_subcommand(std::string(probe->name), std::string(probe->summary));
    const auto options = std::make_shared<ProbeOptions>();
    add_subject_options(*command, *options);
    add_loader_options(*command, options->loader);
    add_output_options(*command, options->output);
    command->callback([command, probe, options, &session, &exit_status] {
      exit_status = run_probe(*command, *probe, *options, session);
    });
  }
}

}  // namespace dlprobe
