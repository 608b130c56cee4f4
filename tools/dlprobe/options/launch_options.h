#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "lib/base/error.h"
#include "lib/session/examination.h"

namespace dlprobe {

/// What a command is to begin within, as typed. An empty value is none, as an unset variable leaves
/// it, but it was given.
struct LaunchOptions {
  std::optional<std::string> limit_memory;
  std::optional<std::string> limit_fds;
  std::optional<std::string> shm_size;
  bool no_witness = false;
};

/// Adds --limit-memory, --limit-fds and --shm-size.
void add_launch_options(CLI::App& command, LaunchOptions& options, const std::string& group);

/// Takes them over into `request`, whose subject is set. kInvalid for what is no limit, or makes no
/// sense, or for a process that runs already.
Status put_launch_options(const LaunchOptions& options, ExamineRequest& request);

/// Adds --confirm[=N] for a command behind --. `times` stays empty where it is not given.
void add_confirm_option(CLI::App& command, std::string& times, const std::string& group);

/// Takes it over into `request`, whose subject is set. kInvalid where there is no command to be run
/// again.
Status put_confirm_option(const std::string& times, ExamineRequest& request);

}  // namespace dlprobe
