#include "tools/dlprobe/options/launch_options.h"

#include <string_view>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "tools/dlprobe/options/loader_options.h"

namespace dlprobe {
namespace {

constexpr std::string_view kAsTimeAllows = "auto";

Expected<std::optional<uint64_t>> optional_size(const char* option,
                                                const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  auto size = parse_size(*text);
  if (!size) {
    return failure(ErrorCode::kInvalid, std::string(option) + ": " + size.error().context);
  }
  return *size;
}

}  // namespace

void add_launch_options(CLI::App& command, LaunchOptions& options, const std::string& group) {
  command
      .add_option("--limit-memory", options.limit_memory,
                  "start the command in a cgroup with this memory limit")
      ->type_name("SIZE")
      ->group(group);
  command
      .add_option("--limit-fds", options.limit_fds,
                  "start the command with this limit of open files (ulimit -n)")
      ->type_name("N")
      ->group(group);
  command
      .add_option("--shm-size", options.shm_size,
                  "start the command with its own /dev/shm of this size, as in a container")
      ->type_name("SIZE")
      ->group(group);
  command
      .add_flag("--no-witness", options.no_witness,
                "load nothing into the command's Python: dlprobe then sees no exceptions")
      ->group(group);
}

Status put_launch_options(const LaunchOptions& options, ExamineRequest& request) {
  LaunchLimits limits;
  DLP_TRY(limits.memory_bytes, optional_size("--limit-memory", options.limit_memory));
  DLP_TRY(limits.shm_bytes, optional_size("--shm-size", options.shm_size));
  if (options.limit_fds) {
    limits.open_files = parse_int<uint64_t>(*options.limit_fds);
    if (!limits.open_files) {
      return failure(ErrorCode::kInvalid,
                     "--limit-fds: '" + *options.limit_fds + "' is not a whole number");
    }
  }
  if (limits.any() && std::holds_alternative<PidSubject>(request.subject)) {
    return failure(ErrorCode::kInvalid,
                   "--limit-memory, --limit-fds and --shm-size work only on what dlprobe starts: a "
                   "running process already has its limits");
  }
  DLP_CHECK(check_launch_limits(limits));
  if (auto* loader = std::get_if<LoaderSubject>(&request.subject)) loader->limits = limits;
  if (auto* command = std::get_if<CommandSubject>(&request.subject)) {
    command->limits = limits;
    command->has_witness = !options.no_witness;
  }
  return {};
}

void add_confirm_option(CLI::App& command, std::string& times, const std::string& group) {
  command
      .add_flag("--confirm{" + std::string(kAsTimeAllows) + "}", times,
                "run the command again with each remedy applied, and say whether the failure is "
                "gone: each N times (default: up to 3 times within a minute)")
      ->type_name("N")
      ->group(group);
}

Status put_confirm_option(const std::string& times, ExamineRequest& request) {
  if (times.empty()) return {};
  constexpr int kMost = 50;
  ConfirmWish wish;
  if (times != kAsTimeAllows) {
    DLP_TRY(const int number, parse_count("--confirm", times, 1, kMost));
    wish = {.times = number, .saves_time = false};
  }
  auto* command = std::get_if<CommandSubject>(&request.subject);
  if (command == nullptr) {
    return failure(ErrorCode::kInvalid, "--confirm runs a command again: give one after --");
  }
  command->confirm = wish;
  return {};
}

}  // namespace dlprobe
