#include "tools/dlprobe/conclude.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lib/os/atomic_file.h"
#include "probes/confirm.h"
#include "reports/format.h"
#include "reports/report.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/exit_status.h"

namespace dlprobe {

int complain_and_return(const Error& error, int exit_status) {
  complain(to_string(error));
  return exit_status;
}

int refuse_in_style(const OutputOptions& options, const std::string& why, int exit_status) {
  complain(why);
  const bool is_for_nagios =
      options.output_path.empty() && std::ranges::count(options.formats, "nagios") > 0;
  if (is_for_nagios) {
    const Status written =
        write_all(options.stream, nagios_line(OverallVerdict::kIncomplete, why) + "\n", "stdout");
    if (!written) complain(to_string(written.error()));
  }
  return exit_in_style(options, exit_status, OverallVerdict::kIncomplete);
}

int conclude(const Recording& recording, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options) {
  const Verdict verdict = with_confirmations(probe.examine(recording), recording, probe);
  const ReportContext context = report_context(options);
  for (const Gap& gap : thresholds_without_evidence(context.policy, verdict))
    complain(fmt::format("{} does not hold: {}", gap.what, gap.why));
  const Json report = make_report(recording, verdict, context);
  return exit_in_style(options, write_document(outputs, options, report, exit_code_of(report)),
                       verdict_of(report));
}

int write_document(const std::vector<Output>& outputs, const OutputOptions& options,
                   const Json& document, int exit_code) {
  const Status written = write_outputs(outputs, options, document);
  if (written) return exit_code;
  // `dlprobe ... | head` is no failure to speak of.
  if (written.error().os_errno != EPIPE) complain(to_string(written.error()));
  // Nobody has the report, so this must not look like a pass.
  return exit_code == kExitPass ? kExitIncomplete : exit_code;
}

int examine_and_conclude(const ExamineRequest& request, const std::vector<Output>& outputs,
                         const OutputOptions& options) {
  return conclude(examine(request), *request.probe, outputs, options);
}

int conclude(const Examination& examination, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options) {
  if (examination.refusal) {
    return refuse_in_style(options, to_string(*examination.refusal), examination.refusal_exit);
  }
  return conclude(examination.recording, probe, outputs, options);
}

}  // namespace dlprobe
