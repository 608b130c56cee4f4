#include "tools/dlprobe/app.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include <gnu/libc-version.h>

#include "lib/base/suggest.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/completion.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/config/configuration.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

constexpr int kColumnsOfNoTerminal = 80;

// Everything after the first "--" belongs to the command, untouched by our own option parser.
Session split_arguments(const std::vector<std::string>& arguments) {
  Session session;
  const auto dashes = std::ranges::find(arguments, "--");
  session.arguments.assign(arguments.begin(), dashes);
  if (dashes != arguments.end()) {
    session.child_command_given = true;
    session.child_command.assign(dashes + 1, arguments.end());
  }
  return session;
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
  const std::vector<std::string> known = subcommand_names(command);
  return fmt::format("{} no subcommand '{}'{}", has(command), typed, did_you_mean(typed, known));
}

std::string not_understood(const CLI::App& command, const std::string& typed) {
  if (typed.size() > 1 && typed.front() == '-') return unknown_option(command, typed);
  std::string text = subcommands_of(command).empty()
                         ? fmt::format("{} no use for '{}'", has(command), typed)
                         : unknown_subcommand(command, typed);
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

// How its exit code and its line for Nagios were to look, as far as `arguments`, the environment
// and the configuration say: the options themselves have no values then.
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

// What is wrong with the command line, for a person: which subcommand has no such option, and what
// was probably meant. After `app.parse` has thrown `error`.
std::string explain_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost(app);
  const auto left = app.remaining(true);
  const std::string message =
      left.empty() ? std::string(error.what()) : not_understood(command, left.front());
  return fmt::format("{} (see {} --help)", message, full_name(command));
}

// CLI11's own exit codes (100 and up) are not part of our interface.
int report_parse_error(const ConfiguredApp& app, const std::vector<std::string>& arguments,
                       const CLI::ParseError& error) {
  // --help, --help-all and --version are errors to CLI11.
  if (dynamic_cast<const CLI::CallForHelp*>(&error) != nullptr) return print(app.help());
  if (dynamic_cast<const CLI::CallForAllHelp*>(&error) != nullptr) {
    return print(app.help("", CLI::AppFormatMode::All));
  }
  if (dynamic_cast<const CLI::CallForVersion*>(&error) != nullptr) {
    return print(error.what() + std::string("\n"));
  }
  if (arguments.size() == 1) {
    std::fputs(app.help().c_str(), stderr);
    return kExitUsage;
  }
  return refuse_in_style(output_despite(app, arguments), explain_parse_error(app, error),
                         kExitUsage);
}

std::string version_text() {
  utsname kernel = {};
  ::uname(&kernel);
  return fmt::format("dlprobe {}\nbuilt: {}\nrunning on Linux {}, glibc {}", kVersion, kBuild,
                     kernel.release, ::gnu_get_libc_version());
}

// Puts the subcommands that were added since the last call under that heading of --help.
void head(CLI::App& app, const char* heading) {
  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_group() == "Subcommands") command->group(heading);
  }
}

void add_subcommands(CLI::App& app, const Session& session, int& exit_status) {
  add_run_command(app, session, exit_status);
  add_attach_command(app, session, exit_status);
  add_ps_command(app, exit_status);
  add_top_command(app, session, exit_status);
  add_stacks_command(app, exit_status);
  add_probe_commands(app, session, exit_status);
  head(app, "Find a cause");
  add_gate_command(app, session, exit_status);
  add_tune_command(app, session, exit_status);
  add_doctor_command(app, exit_status);
  head(app, "Before a job");
  add_replay_command(app, exit_status);
  add_report_command(app, session, exit_status);
  add_explain_command(app, exit_status);
  add_list_command(app, exit_status);
  add_schema_command(app, exit_status);
  add_config_command(app, exit_status);
  add_completion_command(app, exit_status);
  head(app, "Read and write");
}

}  // namespace

int run_app(const std::vector<std::string>& arguments) {
  // A closed pipe is an error of one write, not the end of dlprobe.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that reaches its limit (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  const Session session = split_arguments(arguments);
  int exit_status = kExitPass;
  ConfiguredApp app("Names the cause when a multi-process data loader dies, hangs or leaks.",
                    "dlprobe");
  app.formatter(std::make_shared<ScreenHelp>(columns_at(STDOUT_FILENO, kColumnsOfNoTerminal)));
  app.set_help_flag("-h,--help", "what fits on a screen");
  app.set_help_all_flag("--help-all", "every option explained");
  app.set_version_flag("--version", version_text(), "version and build, for bug reports");
  add_subcommands(app, session, exit_status);
  app.add_config_options();
  set_examples(app, {{"run -- python train.py", "run a job; says why it died, hung or leaked"},
                     {"attach 4711", "a running job: its trainer or a worker"},
                     {"gate", "can this machine run the loader? for CI and prologs"}});
  // Half a line is no command line: a shell asks what may follow.
  if (arguments.size() > 1 && arguments[1] == kCompleteCommand)
    return print(completions(app, std::span(arguments).subspan(2)));
  // CLI11 takes its arguments last first, without the program's name.
  std::vector<std::string> reversed(session.arguments.rbegin(), session.arguments.rend());
  if (!reversed.empty()) reversed.pop_back();
  try {
    app.parse(reversed);
    // Not by require_subcommand(): that would hide which word was not understood.
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, session.arguments, error);
  }
  if (exit_status == kExitUsage) {
    for (const SettingFromElsewhere& each : app.configuration().applied())
      complain(fmt::format("({} {} was set by {})", each.name, each.value, each.source));
  }
  return exit_status;
}

}  // namespace dlprobe
