#pragma once

#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "reports/format.h"
#include "reports/model/examination.h"
#include "tools/dlprobe/config/configuration.h"

namespace dlprobe {

/// Where and how reports are written.
struct OutputOptions {
  bool json = false;
  std::vector<std::string> formats;  ///< FORMAT or FORMAT=PATH, as typed; PATH "-": `stream`
  std::string output_path;           ///< -o: where a format without a path goes
  std::string fail_on = "error";
  std::string exit_style = "default";
  std::string color = "auto";
  bool quiet = false;
  int verbosity = 0;
  const Configuration* configuration = nullptr;  ///< of the application, applied by then; or null
  int stream = 1;  ///< descriptor for what has no path: stdout, or stderr beside a command's output
};

/// -f, -o, --json and --color: for a command that has no verdict.
void add_format_options(CLI::App& command, OutputOptions& options,
                        std::span<const ReportFormat> formats);
/// -v: for a command whose text is not all that it has.
void add_verbose_option(CLI::App& command, OutputOptions& options);
/// -q: for a command whose text begins with a verdict.
void add_quiet_option(CLI::App& command, OutputOptions& options);
/// These with every format of a report, -v and -q.
void add_report_formats(CLI::App& command, OutputOptions& options);
/// These and --fail-on.
void add_output_options(CLI::App& command, OutputOptions& options);

/// --exit-style, for what monitoring runs as a plugin.
void add_exit_style(CLI::App& command, OutputOptions& options);
/// An exit code of ours in that style. nagios: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
int exit_in_style(const OutputOptions& options, int exit_code, OverallVerdict verdict);

/// One report to write; an empty path is stdout.
struct Output {
  const ReportFormat* format = nullptr;  ///< one of those offered; "text" is "human"
  std::string path;
};

/// What was asked for, checked: known formats, at most one on stdout, no path twice, every path
/// writable; %h, %p, %j, %r and %% of a path replaced. kInvalid or the system's error otherwise:
/// before anything is examined.
Expected<std::vector<Output>> planned_outputs(
    const OutputOptions& options, std::span<const ReportFormat> formats_offered = report_formats());

/// The report's own part of the options.
ReportContext report_context(const OutputOptions& options);

/// Writes every output; files whole or not at all. The first failure, after trying all.
Status write_outputs(const std::vector<Output>& outputs, const OutputOptions& options,
                     const AnyDocument& document);

}  // namespace dlprobe
