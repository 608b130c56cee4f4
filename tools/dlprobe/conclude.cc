#include "tools/dlprobe/conclude.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string_view>
#include <utility>

#include "lib/os/atomic_file.h"
#include "lib/session/target.h"
#include "probes/confirm/probe.h"
#include "reports/format.h"
#include "reports/model/examination.h"
#include "tools/dlprobe/probe_judge.h"
#include "tools/dlprobe/process/exit_status.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/process/terminal_notices.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

// Of a job that somebody else runs a report tells what was seen until then.
bool is_own_experiment(const Recording& recording) {
  return std::ranges::any_of(recording.runs, [](const Run& run) {
    return run.begin.plan || run.begin.trial || run.begin.preflight;
  });
}

}  // namespace

void end_as_interrupted() {
  std::fflush(nullptr);
  // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
  std::signal(SIGINT, SIG_DFL);
  std::raise(SIGINT);
}

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
  const Verdict verdict =
      probes::confirm::with_confirmations(probe.examine(recording), recording, probe);
  const ReportContext context = report_context(options);
  for (const Gap& gap : thresholds_without_evidence(context.policy, verdict))
    complain(fmt::format("{} does not hold: {}", gap.what.plain(), gap.why.plain()));
  const report::Report report = examination_report(recording, verdict, context);
  return exit_in_style(
      options,
      write_document(outputs, options, AnyReport(report), report.invocation.exit_code.value),
      report.summary.verdict);
}

int write_document(const std::vector<Output>& outputs, const OutputOptions& options,
                   const AnyDocument& document, int exit_code) {
  const Status written = write_outputs(outputs, options, document);
  if (written) return exit_code;
  // `dlprobe ... | head` is no failure to speak of.
  if (written.error().os_errno != EPIPE) complain(to_string(written.error()));
  return exit_code_without_output(exit_code);
}

int exit_code_without_output(int exit_code) {
  return exit_code == kExitPass ? kExitIncomplete : exit_code;
}

int exit_code_of(Refusal::Kind kind) {
  switch (kind) {
    case Refusal::Kind::kIncomplete:
      return kExitIncomplete;
    case Refusal::Kind::kNotFound:
      return kExitNotFound;
    case Refusal::Kind::kNotExecutable:
      return kExitNotExecutable;
    case Refusal::Kind::kImpossible:
      break;
  }
  return kExitUsage;
}

int refuse(const Refusal& refusal) {
  return complain_and_return(refusal.error, exit_code_of(refusal.kind));
}

int refuse_target(const Error& error) {
  return refuse({.error = error, .kind = kind_of_refused_target(error)});
}

Examination on_this_machine(const Probe& probe, ShowProgress progress,
                            const std::function<Examination(const Surroundings&)>& work) {
  auto machine = live_machine();
  if (!machine) {
    return {.refusal =
                Refusal{.error = std::move(machine).error(), .kind = Refusal::Kind::kIncomplete}};
  }
  const ProbeJudge judge(probe);
  TerminalNotices notices(progress);
  SystemControl control;
  return work({.machine = *machine,
               .control = control,
               .judge = judge,
               .notices = notices,
               .environment = own_environment,
               .version = std::string(kVersion)});
}

int examine_and_conclude(const ExamineRequest& request, const Probe& probe, ShowProgress progress,
                         const std::vector<Output>& outputs, const OutputOptions& options) {
  const Examination examination = on_this_machine(
      probe, progress,
      [&](const Surroundings& surroundings) { return examine(request, surroundings); });
  return conclude(examination, probe, outputs, options);
}

int conclude(const Examination& examination, const Probe& probe, const std::vector<Output>& outputs,
             const OutputOptions& options) {
  if (examination.refusal) {
    return refuse_in_style(options, to_string(examination.refusal->error),
                           exit_code_of(examination.refusal->kind));
  }
  if (examination.interrupted_by != 0 && is_own_experiment(examination.recording)) {
    const int code = refuse_in_style(options, "interrupted: there is no verdict",
                                     128 + examination.interrupted_by);
    if (examination.interrupted_by == SIGINT) end_as_interrupted();
    return code;
  }
  const int code = conclude(examination.recording, probe, outputs, options);
  return examination.recording_cut ? exit_code_without_output(code) : code;
}

}  // namespace dlprobe
