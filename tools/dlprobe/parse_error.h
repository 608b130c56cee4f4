#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// What is wrong with the command line, for a person: which subcommand has no such option, and what
/// was probably meant. After `app.parse` has thrown `error`.
std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error);

}  // namespace dlprobe
