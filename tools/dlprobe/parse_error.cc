#include "tools/dlprobe/parse_error.h"

#include <fmt/format.h>

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

}  // namespace

std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto left = app.remaining(true);
  const std::string message =
      left.empty() ? std::string(error.what()) : not_understood(command, left.front());
  return fmt::format("{} (see {} --help)", message, full_name(command));
}

}  // namespace dlprobe
