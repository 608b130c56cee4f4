#pragma once

#include <CLI/CLI.hpp>

#include "tools/dlprobe/examine.h"

namespace dlprobe {

/// `--static`: the command's program is read, and nothing is run.
void add_static_option(CLI::App& command, bool& reads_only);

/// Reads the program of `request.command` with its own interpreter; of the recording the one run
/// has the command, what its text says (Run::script), and the end "not-started". Refused, with the
/// exit code, where that is no Python command.
Examination read_statically(const ExamineRequest& request);

}  // namespace dlprobe
