#include "tools/dlprobe/options/python_options.h"

#include "lib/model/loader_option.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/options/loader_options.h"

namespace dlprobe {
namespace {

Expected<std::optional<int>> optional_count(const char* option,
                                            const std::optional<std::string>& text, int least,
                                            int most) {
  if (!text) return std::nullopt;
  return parse_count(option, *text, least, most);
}

}  // namespace

void add_python_options(CLI::App& command, PythonOptions& options, const std::string& group) {
  command
      .add_option("--start-method", options.start_method,
                  "the default start method, if the script names none (or --force)")
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
                "override the start method and sharing strategy even if the script names them")
      ->group(group);
}

Status put_python_options(const PythonOptions& options, CommandSubject& command) {
  PythonOverrides overrides{.force = options.force};
  if (options.start_method)
    overrides.start_method = from_string<StartMethod>(*options.start_method);
  if (options.sharing_strategy) {
    overrides.sharing_strategy = from_string<SharingStrategy>(*options.sharing_strategy);
  }
  DLP_TRY(overrides.num_workers,
          optional_count("--num-workers", options.num_workers, 0, kMostWorkers));
  DLP_TRY(overrides.prefetch_factor,
          optional_count("--prefetch-factor", options.prefetch_factor, 1, kMostPrefetched));
  if (options.force && !options.start_method && !options.sharing_strategy) {
    return failure(ErrorCode::kInvalid, "--force needs --start-method or --sharing-strategy");
  }
  if (overrides.any()) DLP_CHECK(check_interpreter(command.argv));
  command.overrides = overrides;
  return {};
}

}  // namespace dlprobe
