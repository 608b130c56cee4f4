#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/session/examination.h"
#include "probes/probe.h"
#include "tools/dlprobe/options/output_options.h"
#include "tools/dlprobe/process/terminal_notices.h"

namespace dlprobe {

/// From a recording to the reports and the exit code: what a live examination and a replay share.
int conclude(const Recording& recording, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options);

/// The exit code where there is nothing to report on.
int exit_code_of(Refusal::Kind kind);

/// Says on stderr why there is nothing to report on; that exit code.
int refuse(const Refusal& refusal);

/// The same of a process that find_target() or a choice among jobs did not give.
int refuse_target(const Error& error);

/// Carries out the work of a session on this machine, with `probe` for a judge.
Examination on_this_machine(const Probe& probe, ShowProgress progress,
                            const std::function<Examination(const Surroundings&)>& work);

/// Examines, and concludes with that probe; or says why nothing could be examined.
int examine_and_conclude(const ExamineRequest& request, const Probe& probe, ShowProgress progress,
                         const std::vector<Output>& outputs, const OutputOptions& options);

/// What came of an examination, by that probe.
int conclude(const Examination& examination, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options);

/// Writes a document that is no verdict of a recording. `exit_code`, or kExitIncomplete where it
/// would be a pass and nobody has the document.
int write_document(const std::vector<Output>& outputs, const OutputOptions& options,
                   const AnyDocument& document, int exit_code);

/// Where nobody has an output that was asked for: this must not look like a pass.
int exit_code_without_output(int exit_code);

/// Ends dlprobe by SIGINT: a shell goes on with its loop unless what it ran was ended by Ctrl-C
/// itself, whatever its exit code.
void end_as_interrupted();

/// Prints `error` on stderr; returns `exit_status`.
int complain_and_return(const Error& error, int exit_status);

/// The same where a report was asked for: in the style of the exit codes that was asked for, and
/// with the line for Nagios on stdout if that is where its format would go.
int refuse_in_style(const OutputOptions& options, const std::string& why, int exit_status);

}  // namespace dlprobe
