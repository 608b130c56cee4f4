#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "reports/report.h"

namespace dlprobe {

/// Where and how reports are written.
struct OutputOptions {
  bool json = false;
  std::vector<std::string> formats;  ///< FORMAT or FORMAT=PATH, as typed
  std::string output_path;           ///< -o: where a format without a path goes
  std::string fail_on = "error";
  std::string color = "auto";
  bool quiet = false;
  int verbosity = 0;
  int stream = 1;  ///< descriptor for what has no path: stdout, or stderr beside a command's output
};

/// What a report can be written as, and what stacks can.
inline constexpr std::array<std::string_view, 3> kReportFormats = {"human", "json", "dot"};
inline constexpr std::array<std::string_view, 2> kStackFormats = {"human", "json"};

/// -f, -o, --json, --color and -v: for a command that has no verdict.
void add_format_options(CLI::App& command, OutputOptions& options,
                        std::span<const std::string_view> formats);
/// These and --fail-on and -q.
void add_output_options(CLI::App& command, OutputOptions& options);

/// One report to write; an empty path is stdout.
struct Output {
  std::string format;  ///< one of those offered; "text" is "human"
  std::string path;
};

/// What was asked for, checked: known formats, at most one on stdout, no path twice, every path
/// writable. kInvalid or the system's error otherwise: before anything is examined.
Expected<std::vector<Output>> planned_outputs(
    const OutputOptions& options,
    std::span<const std::string_view> formats_offered = kReportFormats);

/// The report's own part of the options.
ReportContext report_context(const OutputOptions& options);

/// Makes the text for people of a document: render_text, render_stacks.
using TextRenderer = std::string (*)(const Json& document, const TextOptions& options);

/// Writes every output; files whole or not at all. The first failure, after trying all.
Status write_outputs(const std::vector<Output>& outputs, const OutputOptions& options,
                     const Json& report, TextRenderer render_for_people = render_text);

}  // namespace dlprobe
