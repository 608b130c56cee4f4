#pragma once

#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// A script for `shell` ("bash", "zsh" or "fish") that completes the subcommands and options of
/// `app`, their values where they are known, files, folders and process ids. Made from the app
/// alone: what --help knows, a shell knows.
std::string completion_script(const CLI::App& app, std::string_view shell);

}  // namespace dlprobe
