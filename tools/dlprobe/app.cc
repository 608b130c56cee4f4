#include "tools/dlprobe/app.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <memory>

#include <gnu/libc-version.h>

#include "lib/base/escape.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/completion.h"
#include "tools/dlprobe/conclude.h"
#include "tools/dlprobe/config/configuration.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/help.h"
#include "tools/dlprobe/options/parse_error.h"
#include "tools/dlprobe/terminal.h"
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
  return refuse_in_style(output_despite(app, arguments), explain_parse_error(app, error),
                         kExitUsage);
}

std::string version_text() {
  utsname kernel = {};
  ::uname(&kernel);
  return fmt::format("dlprobe {}\nbuilt by {}\nrunning on Linux {}, glibc {}", kVersion, kBuild,
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
  app.formatter(std::make_shared<ScreenHelp>(columns_at(STDOUT_FILENO, kColumnsOfNoTerminal)));
  app.set_help_flag("-h,--help", "what fits on a screen");
  app.set_help_all_flag("--help-all", "every option explained");
  app.set_version_flag("--version", version_text(), "version and build, for bug reports");
  add_subcommands(app, session, exit_status);
  app.add_config_options();
  set_examples(app, {{"run -- python train.py", "watch a job; say why it died, hung or leaked"},
                     {"attach 4711", "a job that runs already: the trainer or a worker"},
                     {"gate", "is this machine fit for a loader? for CI and prologs"}});
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
