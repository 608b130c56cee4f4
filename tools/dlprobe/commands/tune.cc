#include <algorithm>
#include <memory>
#include <string>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/model/loader_fault.h"
#include "lib/model/loader_option.h"
#include "lib/session/tuner.h"
#include "probes/probe.h"
#include "probes/tune/search.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/loader_options.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"

namespace dlprobe {
namespace {

constexpr const char* kSweepGroup = "Sweep";

struct TuneCommandOptions {
  LoaderOptions loader;
  OutputOptions output;
  std::string workers;
  std::string prefetch_factors;
  std::string start_methods = "fork";
  std::string sharing_strategy = "file_descriptor";
  std::string fault;
  std::string budget = "60s";
  std::string record_path;
};

// What a probe's loader has one of, and a sweep several.
void replace_loader_options(CLI::App& command, TuneCommandOptions& options) {
  for (const char* name : {"--workers", "--prefetch-factor", "--start-method", "--sharing-strategy",
                           "--batches", "--epochs"}) {
    command.remove_option(command.get_option(name));
  }
  command
      .add_option("--workers", options.workers,
                  "what the job uses now, or a list to try: 2,4,8 (default: a search)")
      ->type_name("N[,N...]")
      ->group(kSweepGroup);
  command
      .add_option("--prefetch-factor", options.prefetch_factors,
                  "what the job uses now, or a list to try (default: 2, then 1 and 4)")
      ->type_name("N[,N...]")
      ->group(kSweepGroup);
  command
      .add_option("--start-method", options.start_methods,
                  "how workers are started; of a list, the first is used for the search, the "
                  "others are tried with the best setting; or all")
      ->type_name("NAME[,NAME...]")
      ->capture_default_str()
      ->group(kSweepGroup);
  command.add_option("--sharing-strategy", options.sharing_strategy, "how tensors are handed over")
      ->check(one_of({"file_descriptor", "file_system"}))
      ->capture_default_str()
      ->group("Loader");
}

void add_sweep_options(CLI::App& command, TuneCommandOptions& options) {
  command
      .add_option("--for", options.budget, "time limit of all runs together; 180s for a command")
      ->type_name("DURATION")
      ->capture_default_str()
      ->group(kSweepGroup);
  command.add_option("--record", options.record_path, "save a recording, for dlprobe replay")
      ->type_name("FILE")
      ->group(kSweepGroup);
  command
      .add_option("--fault", options.fault,
                  "make this failure happen inside the reference loader: thread-oversubscription")
      ->type_name("NAME[:k=v,...]")
      ->group(kSweepGroup);
}

Expected<std::vector<int32_t>> numbers_of(const char* option, const std::string& text, int least,
                                          int most) {
  std::vector<int32_t> numbers;
  if (text.empty()) return numbers;
  for (const std::string_view piece : split(text, ',')) {
    DLP_TRY(const int number, parse_count(option, piece, least, most));
    if (std::ranges::find(numbers, number) == numbers.end()) numbers.push_back(number);
  }
  return numbers;
}

Expected<std::vector<StartMethod>> methods_of(const std::string& text) {
  if (text == "all")
    return std::vector<StartMethod>(kValues<StartMethod>.begin(), kValues<StartMethod>.end());
  std::vector<StartMethod> methods;
  for (const std::string_view piece : split(text, ',')) {
    const auto method = from_string<StartMethod>(piece);
    if (!method) {
      return failure(ErrorCode::kInvalid, "--start-method: '" + std::string(piece) +
                                              "' is none of fork, spawn, forkserver, all");
    }
    if (std::ranges::find(methods, *method) == methods.end()) methods.push_back(*method);
  }
  return methods;
}

Status put_fault(const std::string& text, LoaderPlan& plan) {
  const auto fault = parse_fault(text);
  if (!fault) return failure(ErrorCode::kInvalid, "--fault: " + fault.error().context);
  const bool is_ours =
      fault->kind == FaultKind::kNone || fault->kind == FaultKind::kThreadOversubscription;
  if (!is_ours) {
    return failure(ErrorCode::kInvalid,
                   "--fault " + text +
                       ": of the failures that the reference loader can make, tune shows "
                       "thread-oversubscription alone");
  }
  plan.fault = text;
  return {};
}

// One value says what the job has, several what to try.
Status put_settings(const TuneCommandOptions& options, TuneRequest& wish) {
  DLP_TRY(wish.workers, numbers_of("--workers", options.workers, 0, kMostWorkers));
  DLP_TRY(wish.prefetch_factors,
          numbers_of("--prefetch-factor", options.prefetch_factors, 1, kMostPrefetched));
  DLP_TRY(wish.start_methods, methods_of(options.start_methods));
  if (wish.workers.size() == 1) {
    wish.configured_workers = wish.workers.front();
    wish.workers.clear();
  }
  if (wish.prefetch_factors.size() == 1) {
    wish.configured_prefetch_factor = wish.prefetch_factors.front();
    wish.base.prefetch_factor = wish.prefetch_factors.front();
    wish.prefetch_factors.clear();
  }
  return {};
}

// What a script's batches take is known if the user says so.
Status put_command(const CLI::App& command, const Session& session, TuneOptions& options) {
  if (!session.child_command_given) return {};
  if (session.child_command.empty())
    return failure(ErrorCode::kInvalid, "there is no command after --");
  if (!options.wish.base.fault.empty()) {
    return failure(ErrorCode::kInvalid, "--fault works only on the reference loader");
  }
  DLP_CHECK(check_interpreter(session.child_command));
  options.command = session.child_command;
  options.arguments.emplace_back("--");
  options.arguments.insert(options.arguments.end(), options.command.begin(), options.command.end());
  options.wish.knows_batch =
      command.count("--sample-shape") > 0 && command.count("--batch-size") > 0;
  return {};
}

Expected<TuneOptions> make_options(const CLI::App& command, const TuneCommandOptions& typed,
                                   const Session& session) {
  constexpr double kLongestS = 86400;
  constexpr double kBudgetOfCommandS = 180;
  LoaderOptions loader = typed.loader;
  loader.start_method = to_string(StartMethod::kFork);
  loader.sharing_strategy = typed.sharing_strategy;
  DLP_TRY(const std::vector<LoaderPlan> plans, loader_plans(loader));
  TuneOptions options{.arguments = session.arguments, .record_path = typed.record_path};
  options.wish.base = plans.front();
  DLP_CHECK(put_settings(typed, options.wish));
  DLP_CHECK(put_fault(typed.fault, options.wish.base));
  DLP_CHECK(put_command(command, session, options));
  DLP_TRY(const auto budget, parse_duration(typed.budget));
  options.wish.budget_s = std::chrono::duration<double>(budget).count();
  const bool is_long = !options.command.empty() && command.count("--for") == 0;
  if (is_long) options.wish.budget_s = kBudgetOfCommandS;
  if (options.wish.budget_s <= 0 || options.wish.budget_s > kLongestS) {
    return failure(ErrorCode::kInvalid, "--for " + typed.budget + ": give more than 0s, up to 24h");
  }
  options.next_step = probes::tune::next_step;
  return options;
}

int run_tune(const CLI::App& command, const TuneCommandOptions& typed, const Session& session) {
  const auto options = make_options(command, typed, session);
  if (!options) return complain_and_return(options.error(), kExitUsage);
  const auto outputs = planned_outputs(typed.output);
  if (!outputs) return complain_and_return(outputs.error(), kExitUsage);
  const auto progress = typed.output.quiet ? ShowProgress::kNo : ShowProgress::kYes;
  const Examination examination = on_this_machine(
      probes::tune::kProbe, progress,
      [&](const Surroundings& surroundings) { return tune(*options, surroundings); });
  return conclude(examination, probes::tune::kProbe, *outputs, typed.output);
}

}  // namespace

void add_tune_command(CLI::App& app, const Session& session, int& exit_status) {
  auto* command = app.add_subcommand(std::string(probes::tune::kProbe.name),
                                     std::string(probes::tune::kProbe.summary));
  const auto options = std::make_shared<TuneCommandOptions>();
  add_loader_options(*command, options->loader);
  replace_loader_options(*command, *options);
  add_sweep_options(*command, *options);
  add_output_options(*command, options->output);
  set_examples(*command, {{"tune -- python train.py", "how many workers does it need?"},
                          {"tune --data DIR --batch-size 64", "measured on these files"}});
  command->callback([command, options, &session, &exit_status] {
    exit_status = run_tune(*command, *options, session);
  });
}

}  // namespace dlprobe
