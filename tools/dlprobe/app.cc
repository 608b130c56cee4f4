#include "tools/dlprobe/app.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "lib/base/escape.h"
#include "probes/probe.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/configuration.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

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

// CLI11's own exit codes (100 and up) are not part of our interface.
int report_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::string message = error.what();
  const auto chosen = app.get_subcommands();
  const bool takes_command = chosen.empty() || chosen.front()->get_name() == "run" ||
                             chosen.front()->get_name() == "tune" ||
                             find_probe(chosen.front()->get_name()) != nullptr;
  if (takes_command && dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    message += " A command to examine goes behind --, as in: dlprobe shm -- python train.py";
  }
  complain(message + " (see dlprobe --help)");
  return kExitUsage;
}

}  // namespace

void complain(std::string_view message) {
  const std::string line = "dlprobe: " + escape_for_terminal(message) + "\n";
  std::fputs(line.c_str(), stderr);
}

int run_app(const std::vector<std::string>& arguments) {
  // A closed pipe is an error of one write, not the end of dlprobe.
  std::signal(SIGPIPE, SIG_IGN);
  // So is a file that reaches its limit (ulimit -f).
  std::signal(SIGXFSZ, SIG_IGN);
  const Session session = split_arguments(arguments);
  int exit_status = kExitPass;
  ConfiguredApp app("Names the cause when a multi-process data loader dies, hangs or leaks.",
                    "dlprobe");
  app.set_version_flag("--version", "dlprobe " + std::string(kVersion));
  app.footer(
      "Exit codes: 0 no finding at or above --fail-on, 1 finding, 2 usage, 3 incomplete, 4 bug.");
  add_probe_commands(app, session, exit_status);
  add_attach_command(app, session, exit_status);
  add_gate_command(app, session, exit_status);
  add_run_command(app, session, exit_status);
  add_tune_command(app, session, exit_status);
  add_stacks_command(app, exit_status);
  add_replay_command(app, exit_status);
  add_report_command(app, session, exit_status);
  add_explain_command(app, exit_status);
  add_list_command(app, exit_status);
  add_schema_command(app, exit_status);
  add_config_command(app, exit_status);
  app.add_config_options();
  // CLI11 takes its arguments last first, without the program's name.
  std::vector<std::string> reversed(session.arguments.rbegin(), session.arguments.rend());
  if (!reversed.empty()) reversed.pop_back();
  try {
    app.parse(reversed);
    // Not by require_subcommand(): that would hide which word was not understood.
    if (app.get_subcommands().empty()) throw CLI::RequiredError("A subcommand");
  } catch (const CLI::ParseError& error) {
    return report_parse_error(app, error);
  }
  if (exit_status == kExitUsage) {
    for (const SettingFromElsewhere& each : app.configuration().applied())
      complain(fmt::format("({} {} was set by {})", each.name, each.value, each.source));
  }
  return exit_status;
}

}  // namespace dlprobe
