#pragma once

#include <span>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// The hidden subcommand that the shells ask.
inline constexpr std::string_view kCompleteCommand = "__complete";

/// What can stand in the place of the last of `words`, of which only the beginning is typed; the
/// others stand between "dlprobe" and it. A line each: the candidate, a tab, what it does; an
/// option that waits for a value ends in "=". In their place, where the shell knows better: ":f"
/// files,
/// ":d" folders, ":command" the command line that begins behind "--".
std::string completions(const CLI::App& app, std::span<const std::string> words);

/// A script for `shell` ("bash", "zsh" or "fish") that completes by asking dlprobe itself.
std::string_view completion_stub(std::string_view shell);

}  // namespace dlprobe
