#include "tools/dlprobe/options/parse_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "lib/base/suggest.h"
#include "tools/dlprobe/help.h"

namespace dlprobe {
namespace {

const CLI::App& innermost(const CLI::App& app) {
  const CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty())
    chosen = chosen->get_subcommands().front();
  return *chosen;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// How the sentence begins; complain() puts "dlprobe:" before it.
std::string has(const CLI::App& command) {
  return command.get_parent() == nullptr ? "there is" : command.get_name() + " has";
}

std::string unknown_option(const CLI::App& command, const std::string& typed) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (std::string& name : names_of(*option))
      known.push_back(std::move(name));
  }
  const std::string name = typed.substr(0, typed.find('='));
  return fmt::format("{} no option {}{}", has(command), name, did_you_mean(name, known));
}

std::string unknown_subcommand(const CLI::App& command, const std::string& typed) {
  std::vector<std::string> known;
  for (const CLI::App* each : command.get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(each->get_name());
  return fmt::format("{} no subcommand '{}'{}", has(command), typed, did_you_mean(typed, known));
}

bool has_subcommands(const CLI::App& command) {
  return !command.get_subcommands([](const CLI::App*) { return true; }).empty();
}

std::string not_understood(const CLI::App& command, const std::string& typed) {
  if (typed.size() > 1 && typed.front() == '-') return unknown_option(command, typed);
  std::string text = has_subcommands(command)
                         ? unknown_subcommand(command, typed)
                         : fmt::format("{} no use for '{}'", has(command), typed);
  if (takes_command(command)) {
    text += ". A command to examine goes behind --, as in: dlprobe shm -- python train.py";
  }
  return text;
}

// What stands behind an option on a command line that was not parsed: "--format x", "--format=x",
// "-f x", "-fx".
std::vector<std::string> typed_values(const CLI::Option& option,
                                      const std::vector<std::string>& arguments) {
  std::vector<std::string> values;
  for (size_t i = 0; i < arguments.size(); ++i) {
    for (const std::string& name : names_of(option)) {
      const bool is_long = name.starts_with("--");
      if (arguments[i] == name && i + 1 < arguments.size()) {
        values.push_back(arguments[i + 1]);
      } else if (arguments[i].starts_with(is_long ? name + "=" : name) && arguments[i] != name) {
        values.push_back(arguments[i].substr(name.size() + (is_long ? 1 : 0)));
      }
    }
  }
  return values;
}

// The values of an option from wherever there are some.
std::vector<std::string> values_despite(const CLI::App& command, const std::string& name,
                                        const Configuration& configuration,
                                        const std::vector<std::string>& arguments) {
  const CLI::Option* option = command.get_option_no_throw(name);
  if (option == nullptr) return {};
  auto values = typed_values(*option, arguments);
  if (!values.empty()) return values;
  const auto configured = configuration.value_of(command, *option);
  return configured ? configured->values : values;
}

// That of the application, or where it was not loaded yet, another one.
Configuration configuration_despite(const ConfiguredApp& app, const CLI::App& command,
                                    const std::vector<std::string>& arguments) {
  const bool has_none = std::ranges::count(arguments, "--no-config") > 0;
  if (has_none || !app.configuration().sources().empty()) return app.configuration();
  const auto named = values_despite(command, "--config", app.configuration(), arguments);
  return Configuration::load(named.empty() ? "" : named.back()).value_or(Configuration());
}

}  // namespace

OutputOptions output_despite(const ConfiguredApp& app, const std::vector<std::string>& arguments) {
  OutputOptions options;
  const CLI::App& command = innermost(app);
  // Of a command without this option, no exit code is Nagios's.
  if (command.get_option_no_throw("--exit-style") == nullptr) return options;
  const Configuration configuration = configuration_despite(app, command, arguments);
  const auto values = [&](const char* name) {
    return values_despite(command, name, configuration, arguments);
  };
  if (const auto styles = values("--exit-style"); !styles.empty())
    options.exit_style = styles.back();
  if (const auto paths = values("--output"); !paths.empty()) options.output_path = paths.back();
  options.formats = values("--format");
  return options;
}

std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto left = app.remaining(true);
  const std::string message =
      left.empty() ? std::string(error.what()) : not_understood(command, left.front());
  return fmt::format("{} (see {} --help)", message, full_name(command));
}

}  // namespace dlprobe
