#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "lib/base/units.h"
#include "lib/session/examination.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/loader_options.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

constexpr const char* kGateGroup = "Gate";

struct GateOptions {
  std::string level = "default";
  std::string deadline;  ///< empty: by the level
  std::string python;
  std::string record_path;
  LoaderOptions loader;
  OutputOptions output;
};

// Those that say how many threads a library starts in each process.
std::vector<ThreadSetting> thread_settings() {
  constexpr std::array<const char*, 6> kNames = {"OMP_NUM_THREADS",      "MKL_NUM_THREADS",
                                                 "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                                                 "OMP_THREAD_LIMIT",     "OPENCV_FOR_THREADS_NUM"};
  std::vector<ThreadSetting> settings;
  for (const char* name : kNames) {
    if (auto value = own_environment(name)) settings.push_back({name, std::move(*value)});
  }
  return settings;
}

// Every start method imports libtorch in each worker, spawn and forkserver from the beginning.
constexpr const char* kDeadline = "20s";
constexpr const char* kDeadlineOfFull = "60s";

Expected<std::chrono::nanoseconds> deadline_of(const GateOptions& options) {
  constexpr std::chrono::milliseconds kShortest{1};
  const std::string by_level = options.level == "full" ? kDeadlineOfFull : kDeadline;
  const std::string& text = options.deadline.empty() ? by_level : options.deadline;
  const auto deadline = parse_duration(text);
  if (!deadline) return failure(ErrorCode::kInvalid, "--deadline: " + deadline.error().context);
  if (*deadline < kShortest)
    return failure(ErrorCode::kInvalid, "--deadline " + text + " is shorter than 1ms");
  return *deadline;
}

// One run as PyTorch makes it by default; --level full, every way there is.
LoaderOptions loader_of(const CLI::App& command, const GateOptions& options) {
  constexpr int kImagesOfData = 4096;
  LoaderOptions loader = options.loader;
  loader.plan.data_sample = kImagesOfData;
  const bool is_full = options.level == "full";
  if (command.count("--start-method") == 0) loader.start_method = is_full ? "all" : "fork";
  if (command.count("--sharing-strategy") == 0)
    loader.sharing_strategy = is_full ? "all" : "file_descriptor";
  return loader;
}

Expected<ExamineRequest> make_request(const CLI::App& command, const GateOptions& options,
                                      const Session& session) {
  ExamineRequest request = request_for(probes::gate::kProbe, session.arguments);
  if (session.child_command_given) {
    return failure(ErrorCode::kInvalid,
                   "gate checks the machine, not a command: for that, dlprobe run -- CMD");
  }
  DLP_TRY(const std::chrono::nanoseconds deadline, deadline_of(options));
  auto& subject = request.subject.emplace<LoaderSubject>();
  DLP_TRY(subject.plans, loader_plans(loader_of(command, options)));
  request.record_path = options.record_path;
  const auto patience = std::min<std::chrono::nanoseconds>(deadline / 4, std::chrono::seconds(2));
  subject.gate =
      GateRequest{.wish = {.temporary_folder = own_environment("TMPDIR").value_or("/tmp"),
                           .data_folder = options.loader.plan.data_dir,
                           .thread_settings = thread_settings(),
                           .patience = patience},
                  .python = {.command = options.python.empty() ? "python3" : options.python,
                             .is_named = !options.python.empty(),
                             .imports = options.level == "full"},
                  .level = options.level,
                  .deadline = deadline};
  return request;
}

int run_gate(const CLI::App& command, const GateOptions& options, const Session& session) {
  const auto request = make_request(command, options, session);
  const auto refuse = [&options](const Error& error) {
    return refuse_in_style(options.output, to_string(error), kExitUsage);
  };
  if (!request) return refuse(request.error());
  const auto outputs = planned_outputs(options.output);
  if (!outputs) return refuse(outputs.error());
  const auto progress = options.output.quiet ? ShowProgress::kNo : ShowProgress::kYes;
  return examine_and_conclude(*request, probes::gate::kProbe, progress, *outputs, options.output);
}

}  // namespace

void add_gate_command(CLI::App& app, const Session& session, int& exit_status) {
  auto* command = app.add_subcommand("gate", std::string(probes::gate::kProbe.summary));
  const auto options = std::make_shared<GateOptions>();
  command
      ->add_option(
          "--level", options->level,
          "quick: starts no loader, under a second; default: one short run of the reference "
          "loader; full: under every start method and sharing strategy")
      ->check(one_of({"quick", "default", "full"}))
      ->capture_default_str()
      ->group(kGateGroup);
  command
      ->add_option("--deadline", options->deadline,
                   "time limit; unfinished checks are incomplete (exit 3; default: 20s, and 60s at "
                   "--level full)")
      ->type_name("DURATION")
      ->group(kGateGroup);
  command
      ->add_option("--python", options->python,
                   "the job's interpreter, whose packages are checked (--level full imports them; "
                   "default: python3 of PATH, if it has PyTorch)")
      ->type_name("PYTHON")
      ->group(kGateGroup);
  command->add_option("--record", options->record_path, "save a recording, for dlprobe replay")
      ->type_name("FILE")
      ->group(kGateGroup);
  add_loader_options(*command, options->loader);
  add_output_options(*command, options->output);
  add_exit_style(*command, options->output);
  set_examples(*command, {{"gate --level quick", "under a second; starts no loader"},
                          {"gate --workers 8 --batch-size 64", "with a loader of this shape"},
                          {"gate -f junit=gate.xml -f json=%h.json", "for CI; %h is the node"}});
  command->callback([command, options, &session, &exit_status] {
    exit_status = run_gate(*command, *options, session);
  });
}

}  // namespace dlprobe
