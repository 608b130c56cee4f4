#include "lib/subject/python_shim.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

#include "lib/subject/crash_text.h"
#include "lib/subject/python_shim/sources.h"
#include "lib/subject/told_lines.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPythonPath = "PYTHONPATH";
constexpr size_t kPiece = size_t{64} << 10U;
constexpr int kMostPieces = 16;  // at one call: whoever writes without end is not followed for ever

// One "key=value" a line, as _read_options of dlprobe_start.py has it.
std::string options_text(const ShimOptions& options) {
  std::string text;
  const auto add = [&text](std::string_view key, std::string_view value) {
    text.append(key).append("=").append(value).append("\n");
  };
  const PythonOverrides& overrides = options.overrides;
  if (overrides.start_method) add("start_method", to_string(*overrides.start_method));
  if (overrides.sharing_strategy) add("sharing_strategy", to_string(*overrides.sharing_strategy));
  if (overrides.num_workers) add("num_workers", std::to_string(*overrides.num_workers));
  if (overrides.prefetch_factor) add("prefetch_factor", std::to_string(*overrides.prefetch_factor));
  if (overrides.force) add("force", "1");
  if (options.tells_batches) add("batches", "1");
  if (options.paced_after > 0) add("paced_after", std::to_string(options.paced_after));
  return text;
}

}  // namespace

Status check_interpreter(const std::vector<std::string>& command) {
  const auto python = parse_python_command(command);
  if (!python) return {};
  const auto why = why_shim_is_not_loaded(*python);
  if (!why) return {};
  return failure(ErrorCode::kInvalid, "dlprobe cannot override anything in this command: " + *why);
}

std::vector<Setting> settings_of(const PythonOverrides& overrides) {
  std::vector<Setting> settings;
  const auto add = [&settings](SettingKind kind, std::string value) {
    settings.push_back({.kind = kind, .value = std::move(value)});
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

std::optional<std::string> why_shim_is_not_loaded(const PythonCommand& command) {
  if (command.isolated) return "the interpreter is started with -I, which ignores PYTHONPATH";
  if (command.ignores_environment)
    return "the interpreter is started with -E, which ignores PYTHONPATH";
  if (command.no_site) return "the interpreter is started with -S, which skips sitecustomize";
  if (command.clears_environment) return "env -i removes PYTHONPATH";
  const bool unset = std::ranges::find(command.unsets, kPythonPath) != command.unsets.end();
  const bool assigned = std::ranges::any_of(
      command.assigns, [](const auto& variable) { return variable.first == kPythonPath; });
  if (!unset && !assigned) return std::nullopt;
  return "env sets PYTHONPATH; set it before dlprobe instead";
}

Expected<PythonShim> PythonShim::prepare(const ShimOptions& options) {
  const std::vector<std::string> parents = PrivateFolder::parents();
  auto shim = prepare_in(parents.front(), options);
  // A folder that cannot be used may be why the program fails.
  for (size_t i = 1; !shim && i < parents.size(); ++i) {
    if (auto other = prepare_in(parents[i], options)) shim = std::move(other);
  }
  return shim;
}

Expected<PythonShim> PythonShim::prepare_in(const std::string& parent, const ShimOptions& options) {
  DLP_TRY(PrivateFolder folder, PrivateFolder::make("dlprobe", parent));
  DLP_CHECK(folder.write("sitecustomize.py", sitecustomize_source()));
  DLP_CHECK(folder.write("dlprobe_start.py", start_source()));
  DLP_CHECK(folder.write("dlprobe_batches.py", batches_source()));
  DLP_CHECK(folder.write("dlprobe_crash.py", crash_source()));
  DLP_CHECK(folder.write("dlprobe_data.py", data_source()));
  DLP_CHECK(folder.write("dlprobe_files.py", files_source()));
  DLP_CHECK(folder.write("dlprobe_ends.py", ends_source()));
  DLP_CHECK(folder.write("dlprobe_epochs.py", epochs_source()));
  DLP_CHECK(folder.write("dlprobe_hooks.py", hooks_source()));
  DLP_CHECK(folder.write("dlprobe_limits.py", limits_source()));
  DLP_CHECK(folder.write("dlprobe_pickle.py", pickle_source()));
  DLP_CHECK(folder.write("dlprobe_queues.py", queues_source()));
  DLP_CHECK(folder.write("dlprobe_random.py", random_source()));
  DLP_CHECK(folder.write("dlprobe_ranks.py", ranks_source()));
  DLP_CHECK(folder.write("dlprobe_results.py", results_source()));
  DLP_CHECK(folder.write("dlprobe_settings.py", settings_source()));
  DLP_CHECK(folder.write("dlprobe_signals.py", signals_source()));
  DLP_CHECK(folder.write("dlprobe_tensors.py", tensors_source()));
  DLP_CHECK(folder.write("dlprobe_overrides.py", overrides_source()));
  DLP_CHECK(folder.write("dlprobe_trace.py", trace_source()));
  DLP_CHECK(folder.write("dlprobe_writes.py", writes_source()));
  DLP_CHECK(folder.write("options", options_text(options)));
  DLP_TRY(UniqueFd events, folder.make_fifo("events"));
  return PythonShim(std::move(folder), std::move(events));
}

std::vector<std::pair<std::string, std::string>> PythonShim::environment() const {
  const char* present = std::getenv("PYTHONPATH");  // NOLINT(concurrency-mt-unsafe)
  std::string path = folder_.path();
  if (present != nullptr && *present != '\0') path.append(":").append(present);
  return {{std::string(kPythonPath), path}};
}

std::vector<StartEvent> PythonShim::read_new() {
  std::vector<StartEvent> events;
  const auto take = [&events](std::string_view line) {
    if (auto event = parse_start_event(line)) events.push_back(std::move(*event));
  };
  std::array<char, kPiece> buffer{};
  for (int piece = 0; piece < kMostPieces; ++piece) {
    const ssize_t count = ::read(events_.get(), buffer.data(), buffer.size());
    if (count <= 0) break;
    lines_.add({buffer.data(), static_cast<size_t>(count)}, take);
  }
  for (const std::string& note : folder_.take_links("note-"))
    take(note);
  return events;
}

std::vector<StartEvent> PythonShim::read_crashes() {
  std::vector<StartEvent> events;
  for (const auto& [name, text] : folder_.read_files("crash-")) {
    size_t& known = crashes_[name];
    auto event = text.size() > known ? parse_crash(text) : std::nullopt;
    known = std::max(known, text.size());
    if (event) events.push_back(std::move(*event));
  }
  return events;
}

}  // namespace dlprobe
