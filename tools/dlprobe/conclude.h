#pragma once

#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "probes/probe.h"
#include "tools/dlprobe/examine.h"
#include "tools/dlprobe/output_options.h"

namespace dlprobe {

/// From a recording to the reports and the exit code: what a live examination and a replay share.
int conclude(const Recording& recording, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options);

/// Examines, and concludes with the request's probe; or says why nothing could be examined.
int examine_and_conclude(const ExamineRequest& request, const std::vector<Output>& outputs,
                         const OutputOptions& options);

/// What came of an examination, by that probe.
int conclude(const Examination& examination, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options);

/// Writes a document that is no verdict of a recording. `exit_code`, or kExitIncomplete where it
/// would be a pass and nobody has the document.
int write_document(const std::vector<Output>& outputs, const OutputOptions& options,
                   const Json& document, int exit_code);

/// Prints `error` on stderr; returns `exit_status`.
int complain_and_return(const Error& error, int exit_status);

/// The same where a report was asked for: in the style of the exit codes that was asked for, and
/// with the line for Nagios on stdout if that is where its format would go.
int refuse_in_style(const OutputOptions& options, const std::string& why, int exit_status);

}  // namespace dlprobe
