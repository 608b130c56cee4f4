#include "tools/dlprobe/output_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "lib/base/suggest.h"
#include "lib/os/atomic_file.h"
#include "tools/dlprobe/path_template.h"

namespace dlprobe {
namespace {

constexpr const char* kGroup = "Output";
constexpr int kDefaultWidth = 100;

std::vector<std::string_view> names_of(std::span<const ReportFormat> formats) {
  std::vector<std::string_view> names;
  names.reserve(formats.size());
  for (const ReportFormat& format : formats)
    names.push_back(format.name);
  return names;
}

Expected<Output> parse_format(const std::string& text, const std::string& output_path,
                              std::span<const ReportFormat> formats) {
  const size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (name == "text") name = "human";
  const auto format = std::ranges::find(formats, name, &ReportFormat::name);
  if (format == formats.end()) {
    const auto names = names_of(formats);
    return failure(ErrorCode::kInvalid,
                   fmt::format("-f {}: there is no format '{}'{} ({})", text, name,
                               did_you_mean(name, names), fmt::join(names, ", ")));
  }
  if (equals == std::string::npos) {
    DLP_TRY(std::string path, expand_path(output_path));
    return Output{.format = &*format, .path = std::move(path)};
  }
  if (equals + 1 == text.size()) {
    return failure(ErrorCode::kInvalid, "-f " + text + ": a path has to follow the '='");
  }
  DLP_TRY(std::string path, expand_path(text.substr(equals + 1)));
  return Output{.format = &*format, .path = std::move(path)};
}

std::string name_of_stream(const OutputOptions& options) {
  return options.stream == STDERR_FILENO ? "stderr" : "stdout";
}

bool wants_color(const OutputOptions& options, const std::string& path) {
  if (options.color != "auto") return options.color == "always";
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  return path.empty() && ::isatty(options.stream) == 1 &&
         (no_color == nullptr || *no_color == '\0');
}

int terminal_width(const OutputOptions& options, const std::string& path) {
  winsize size = {};
  if (!path.empty() || ::ioctl(options.stream, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultWidth;
  }
  return std::clamp<int>(size.ws_col, 40, 160);
}

}  // namespace

void add_format_options(CLI::App& command, OutputOptions& options,
                        std::span<const ReportFormat> formats) {
  options.configuration = configuration_of(command);
  command.add_flag("--json", options.json, "the same as -f json")->group(kGroup);
  command
      .add_option(
          "-f,--format", options.formats,
          fmt::format("{}, each with an optional =PATH", fmt::join(names_of(formats), ", ")))
      ->type_name("FORMAT[=PATH]")
      ->allow_extra_args(false)
      ->group(kGroup);
  command.add_option("-o,--output", options.output_path, "write to PATH instead of stdout")
      ->type_name("PATH")
      ->group(kGroup);
  command.add_option("--color", options.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->capture_default_str()
      ->group(kGroup);
  command.add_flag("-v,--verbose", options.verbosity, "everything, nothing shortened")
      ->group(kGroup);
}

void add_report_formats(CLI::App& command, OutputOptions& options) {
  add_format_options(command, options, report_formats());
  command.add_flag("-q,--quiet", options.quiet, "the verdict alone, in one line")->group(kGroup);
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  add_report_formats(command, options);
  command.add_option("--fail-on", options.fail_on, "lowest severity that makes the exit code 1")
      ->check(CLI::IsMember({"error", "warning", "info"}))
      ->capture_default_str()
      ->group(kGroup);
}

Expected<std::vector<Output>> planned_outputs(const OutputOptions& options,
                                              std::span<const ReportFormat> formats_offered) {
  std::vector<std::string> formats = options.formats;
  if (options.json) formats.emplace_back("json");
  // `-f json=FILE` alone still tells the person at the terminal what was found.
  const bool all_to_files = std::ranges::all_of(
      formats, [](const std::string& format) { return format.find('=') != std::string::npos; });
  if (formats.empty() || all_to_files) formats.emplace_back("human");

  std::vector<Output> outputs;
  for (const std::string& format : formats) {
    DLP_TRY(Output output, parse_format(format, options.output_path, formats_offered));
    const bool is_taken = std::ranges::any_of(
        outputs, [&](const Output& other) { return other.path == output.path; });
    if (is_taken) {
      return failure(ErrorCode::kInvalid,
                     "two reports would go to " +
                         (output.path.empty() ? name_of_stream(options) : output.path) +
                         ": give each format its own path, as in -f json=report.json");
    }
    if (!output.path.empty()) DLP_CHECK(check_writable(output.path));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

ReportContext report_context(const OutputOptions& options) {
  ReportContext context{.fail_on =
                            severity_from_string(options.fail_on).value_or(Severity::kError)};
  if (options.configuration != nullptr) {
    context.policy = options.configuration->policy();
    context.settings = options.configuration->applied();
  }
  return context;
}

Status write_outputs(const std::vector<Output>& outputs, const OutputOptions& options,
                     const Json& document) {
  Status first_failure;
  for (const Output& output : outputs) {
    const std::string text =
        output.format->render(document, {.color = wants_color(options, output.path),
                                         .width = terminal_width(options, output.path),
                                         .verbosity = options.quiet ? -1 : options.verbosity});
    const Status status =
        output.path.empty()
            ? write_all(options.stream, text, "the report to " + name_of_stream(options))
            : write_file_atomically(output.path, text);
    if (!status && first_failure) first_failure = status;
  }
  return first_failure;
}

}  // namespace dlprobe
