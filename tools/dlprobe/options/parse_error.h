#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tools/dlprobe/config/configuration.h"
#include "tools/dlprobe/options/output_options.h"

namespace dlprobe {

/// What is wrong with the command line, for a person: which subcommand has no such option, and what
/// was probably meant. After `app.parse` has thrown `error`.
std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error);

/// How its exit code and its line for Nagios were to look, as far as `arguments`, the environment
/// and the configuration say: the options themselves have no values then.
OutputOptions output_despite(const ConfiguredApp& app, const std::vector<std::string>& arguments);

}  // namespace dlprobe
