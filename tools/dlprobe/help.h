#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// A line of --help that can be typed as it stands.
struct Example {
  std::string_view line;  ///< without "dlprobe "
  std::string_view what;  ///< it does
};

/// What --help shows first. One that has a command behind -- says that the subcommand takes one.
void set_examples(CLI::App& command, std::initializer_list<Example> examples);

/// Whether a command may stand behind --.
bool takes_command(const CLI::App& command);

/// The options as a person types them, "-f" and "--format"; without positional ones.
std::vector<std::string> names_of(const CLI::Option& option);

/// What the value of an option is called: "FILE", "N", "error|warning|info"; "" for a flag.
std::string label_of(const CLI::Option& option);

/// --help on one screen of 24 lines: groups that find no room, from the last on, are named without
/// being explained. --help-all explains all. Given to the app before its subcommands are added.
class ScreenHelp : public CLI::Formatter {
 public:
  /// `columns` is the width of the screen.
  explicit ScreenHelp(int columns) : columns_(static_cast<size_t>(columns)) {}

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;

 private:
  size_t columns_;
};

}  // namespace dlprobe
