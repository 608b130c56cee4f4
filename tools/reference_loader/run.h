#pragma once

#include <string>
#include <vector>

#include "tools/reference_loader/options.h"
#include "tools/reference_loader/worker.h"

namespace dlprobe::loader {

/// The exit codes of the loader.
enum ExitCode : int { kExitOk = 0, kExitFailed = 1, kExitUsage = 2 };

/// The main process from the checked command line to the exit code. Ends by the signal itself if it
/// was stopped by one.
int run_loader(const LoaderOptions& options, const std::vector<std::string>& args);

/// Is a worker in a process that was not forked from the main process. Where a fault wants it, the
/// program is run from its beginning before that; see NOTE [faults of starts] in start_fault.h.
int run_fresh_worker(WorkerState state);

/// Prints "dlprobe-reference-loader: TEXT" to stderr.
void complain(const std::string& text);

}  // namespace dlprobe::loader
