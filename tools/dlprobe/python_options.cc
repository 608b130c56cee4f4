#include "tools/dlprobe/python_options.h"

#include <utility>

#include "lib/base/parse.h"
#include "lib/subject/python_command.h"
#include "tools/dlprobe/choices.h"

namespace dlprobe {
namespace {

constexpr int kMostWorkers = 4096;
constexpr int kMostPrefetched = 4096;

Expected<std::optional<int>> optional_count(const char* option,
                                            const std::optional<std::string>& text, int least,
                                            int most) {
  if (!text) return std::nullopt;
  const auto count = parse_int<int>(*text);
  if (!count || *count < least || *count > most) {
    return failure(ErrorCode::kInvalid, std::string(option) + ": '" + *text +
                                            "' is not a whole number from " +
                                            std::to_string(least) + " to " + std::to_string(most));
  }
  return *count;
}

}  // namespace

void add_python_options(CLI::App& command, PythonOptions& options, const std::string& group) {
  command
      .add_option("--start-method", options.start_method,
                  "the default start method, where the script names none (or --force)")
      ->check(one_of({"fork", "spawn", "forkserver"}))
      ->type_name("METHOD")
      ->group(group);
  command.add_option("--sharing-strategy", options.sharing_strategy, "torch.multiprocessing's")
      ->check(one_of({"file_descriptor", "file_system"}))
      ->type_name("STRATEGY")
      ->group(group);
  command.add_option("--num-workers", options.num_workers, "num_workers of every DataLoader")
      ->type_name("N")
      ->group(group);
  command
      .add_option("--prefetch-factor", options.prefetch_factor,
                  "prefetch_factor of every DataLoader with workers")
      ->type_name("N")
      ->group(group);
  command
      .add_flag("--force", options.force,
                "the start method and the sharing strategy also where the script names one itself")
      ->group(group);
}

Status check_interpreter(const std::vector<std::string>& command) {
  const auto python = parse_python_command(command);
  if (!python) return {};
  const auto why = why_shim_is_not_loaded(*python);
  if (!why) return {};
  return failure(ErrorCode::kInvalid, "nothing can be overridden in this command: " + *why);
}

std::vector<Setting> settings_of(const PythonOverrides& overrides) {
  std::vector<Setting> settings;
  const auto add = [&settings](SettingKind kind, std::string value) {
    settings.push_back({.kind = kind, .name = "", .value = std::move(value)});
  };
  if (overrides.start_method) {
    add(SettingKind::kStartMethod, std::string(to_string(*overrides.start_method)));
  }
  if (overrides.sharing_strategy) {
    add(SettingKind::kSharingStrategy, std::string(to_string(*overrides.sharing_strategy)));
  }
  if (overrides.num_workers) add(SettingKind::kNumWorkers, std::to_string(*overrides.num_workers));
  if (overrides.prefetch_factor) {
    add(SettingKind::kPrefetchFactor, std::to_string(*overrides.prefetch_factor));
  }
  return settings;
}

Status put_python_options(const PythonOptions& options, ExamineRequest& request) {
  PythonOverrides overrides{.force = options.force};
  if (options.start_method)
    overrides.start_method = start_method_from_string(*options.start_method);
  if (options.sharing_strategy) {
    overrides.sharing_strategy = sharing_strategy_from_string(*options.sharing_strategy);
  }
  DLP_TRY(overrides.num_workers,
          optional_count("--num-workers", options.num_workers, 0, kMostWorkers));
  DLP_TRY(overrides.prefetch_factor,
          optional_count("--prefetch-factor", options.prefetch_factor, 1, kMostPrefetched));
  if (options.force && !options.start_method && !options.sharing_strategy) {
    return failure(ErrorCode::kInvalid,
                   "--force needs --start-method or --sharing-strategy: it is what is forced");
  }
  if (overrides.any()) DLP_CHECK(check_interpreter(request.command));
  request.overrides = overrides;
  return {};
}

}  // namespace dlprobe
