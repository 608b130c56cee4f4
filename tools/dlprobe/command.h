#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

namespace dlprobe {

/// What a subcommand gets from the command line beside its own options.
struct Session {
  std::vector<std::string> arguments;      ///< of main, argv[0] included
  std::vector<std::string> child_command;  ///< what stands after --; empty: no -- was given
  bool child_command_given = false;        ///< whether -- was given
};

/// Each adds its subcommand to `app`. The callback's result goes to `exit_status`.
void add_probe_commands(CLI::App& app, const Session& session, int& exit_status);
void add_attach_command(CLI::App& app, const Session& session, int& exit_status);
void add_gate_command(CLI::App& app, const Session& session, int& exit_status);
void add_run_command(CLI::App& app, const Session& session, int& exit_status);
void add_tune_command(CLI::App& app, const Session& session, int& exit_status);
void add_ps_command(CLI::App& app, int& exit_status);
void add_top_command(CLI::App& app, const Session& session, int& exit_status);
void add_stacks_command(CLI::App& app, int& exit_status);
void add_replay_command(CLI::App& app, int& exit_status);
void add_report_command(CLI::App& app, const Session& session, int& exit_status);
void add_explain_command(CLI::App& app, int& exit_status);
void add_doctor_command(CLI::App& app, int& exit_status);
void add_completion_command(CLI::App& app, int& exit_status);
void add_list_command(CLI::App& app, int& exit_status);
void add_schema_command(CLI::App& app, int& exit_status);
void add_config_command(CLI::App& app, int& exit_status);

}  // namespace dlprobe
