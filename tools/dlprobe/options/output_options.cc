#include "tools/dlprobe/options/output_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <string_view>

#include "lib/base/suggest.h"
#include "lib/os/atomic_file.h"
#include "lib/os/host_facts.h"
#include "reports/model/report.h"
#include "tools/dlprobe/options/choices.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

constexpr const char* kOutputGroup = "Output";
constexpr int kDefaultWidth = 100;

std::vector<std::string_view> format_names(std::span<const ReportFormat> formats) {
  std::vector<std::string_view> names;
  names.reserve(formats.size());
  for (const ReportFormat& format : formats)
    names.push_back(format.name);
  return names;
}

std::vector<std::string> texts(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? std::data(names.nodename) : "";
}

std::optional<std::string> value_of(char letter) {
  const JobFacts job = read_job_facts(own_environment);
  switch (letter) {
    case 'h':
      return job.node.empty() ? host_name() : job.node;
    case 'j':
      return job.job_id.empty() ? "none" : job.job_id;
    case 'r':
      return job.rank.empty() ? "none" : job.rank;
    case 'p':
      return std::to_string(::getpid());
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

// A path that a user gave, with what makes it differ between nodes and runs: %h the node (its name
// for the scheduler, else the host's), %j the scheduler's job, %r the rank in it ("none" where
// there is none), %p the pid of dlprobe, %% a percent sign. A slash in a value becomes '_'.
// kInvalid for any other letter behind a '%'.
Expected<std::string> expand_path(const std::string& path) {
  std::string result;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      result += path[i];
      continue;
    }
    auto value = i + 1 < path.size() ? value_of(path[i + 1]) : std::nullopt;
    if (!value) {
      return failure(ErrorCode::kInvalid, path + ": '" + path.substr(i, 2) +
                                              "' is unknown: %h is the node, %j the job, %r the "
                                              "rank, %p the pid, %% a percent sign");
    }
    std::ranges::replace(*value, '/', '_');
    result += *value;
    ++i;
  }
  return result;
}

// "json=-": written where a format without a path goes unless -o says otherwise.
bool is_to_stream(const std::string& format) {
  return format.ends_with("=-");
}

Expected<Output> parse_format(const std::string& text, const std::string& output_path,
                              std::span<const ReportFormat> formats) {
  const size_t equals = text.find('=');
  std::string name = text.substr(0, equals);
  if (name == "text") name = "human";
  const auto format = std::ranges::find(formats, name, &ReportFormat::name);
  if (format == formats.end()) {
    const auto names = format_names(formats);
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
  if (is_to_stream(text)) return Output{.format = &*format, .path = ""};
  DLP_TRY(std::string path, expand_path(text.substr(equals + 1)));
  return Output{.format = &*format, .path = std::move(path)};
}

std::string name_of_stream(const OutputOptions& options) {
  return options.stream == STDERR_FILENO ? "stderr" : "stdout";
}

bool wants_color(const OutputOptions& options, const std::string& path) {
  if (options.color != "auto") return options.color == "always";
  return path.empty() && is_colorful(options.stream);
}

int width_of(const OutputOptions& options, const std::string& path) {
  return path.empty() ? columns_at(options.stream, kDefaultWidth) : kDefaultWidth;
}

}  // namespace

void add_format_options(CLI::App& command, OutputOptions& options,
                        std::span<const ReportFormat> formats) {
  options.configuration = configuration_of(command);
  command.add_flag("--json", options.json, "the same as -f json")->group(kOutputGroup);
  command.add_option("-f,--format", options.formats, "write this format; repeatable")
      ->type_name("FORMAT[=PATH]")
      ->check(offering(texts(format_names(formats))))
      ->allow_extra_args(false)
      ->group(kOutputGroup);
  command.add_option("-o,--output", options.output_path, "write to PATH instead of stdout")
      ->type_name("PATH")
      ->group(kOutputGroup);
  command.add_option("--color", options.color, "colours of the text")
      ->check(one_of({"auto", "always", "never"}))
      ->capture_default_str()
      ->group(kOutputGroup);
}

void add_verbose_option(CLI::App& command, OutputOptions& options) {
  command.add_flag("-v,--verbose", options.verbosity, "the whole report")->group(kOutputGroup);
}

void add_report_formats(CLI::App& command, OutputOptions& options) {
  add_format_options(command, options, report_formats());
  add_verbose_option(command, options);
  add_quiet_option(command, options);
}

void add_quiet_option(CLI::App& command, OutputOptions& options) {
  command.add_flag("-q,--quiet", options.quiet, "only the verdict, in one line")
      ->group(kOutputGroup);
}

void add_output_options(CLI::App& command, OutputOptions& options) {
  add_report_formats(command, options);
  command.add_option("--fail-on", options.fail_on, "lowest severity that makes the exit code 1")
      ->check(one_of({"error", "warning", "info"}))
      ->capture_default_str()
      ->group(kOutputGroup);
}

void add_exit_style(CLI::App& command, OutputOptions& options) {
  command
      .add_option("--exit-style", options.exit_style,
                  "nagios: exit with 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN")
      ->check(one_of({"default", "nagios"}))
      ->capture_default_str()
      ->group(kOutputGroup);
}

int exit_in_style(const OutputOptions& options, int exit_code, OverallVerdict verdict) {
  constexpr int kWarning = 1;
  constexpr int kCritical = 2;
  constexpr int kUnknown = 3;
  if (options.exit_style != "nagios") return exit_code;
  // The words of -f nagios say the same, whatever --fail-on is.
  if (exit_code == kExitFinding) return verdict == OverallVerdict::kWarn ? kWarning : kCritical;
  if (exit_code != kExitPass) return kUnknown;
  return verdict == OverallVerdict::kWarn ? kWarning : kExitPass;
}

namespace {

// "./report" is "report".
bool is_same_place(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty()) return a == b;
  std::error_code error;
  const auto plain = [&error](const std::string& path) {
    return std::filesystem::absolute(path, error).lexically_normal();
  };
  return a == b || plain(a) == plain(b);
}

}  // namespace

Expected<std::vector<Output>> planned_outputs(const OutputOptions& options,
                                              std::span<const ReportFormat> formats_offered) {
  std::vector<std::string> formats = options.formats;
  if (options.json) formats.emplace_back("json");
  // `-f json=FILE` alone still tells the person at the terminal what was found.
  const bool all_to_files = std::ranges::all_of(formats, [](const std::string& format) {
    return format.contains('=') && !is_to_stream(format);
  });
  if (formats.empty() || all_to_files) formats.emplace_back("human");

  std::vector<Output> outputs;
  for (const std::string& format : formats) {
    DLP_TRY(Output output, parse_format(format, options.output_path, formats_offered));
    const bool is_taken = std::ranges::any_of(
        outputs, [&](const Output& other) { return is_same_place(other.path, output.path); });
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
                            from_string<Severity>(options.fail_on).value_or(Severity::kError)};
  if (options.configuration != nullptr) {
    context.policy = options.configuration->policy();
    context.settings = options.configuration->applied();
  }
  return context;
}

Status write_outputs(const std::vector<Output>& outputs, const OutputOptions& options,
                     const AnyDocument& document) {
  Status first_failure;
  for (const Output& output : outputs) {
    const std::string text =
        output.format->render(document, {.color = wants_color(options, output.path),
                                         .width = width_of(options, output.path),
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
