#include "tools/dlprobe/static_look.h"

#include <utility>

#include "lib/base/secrets.h"
#include "lib/subject/script_reader.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/exit_status.h"
#include "tools/dlprobe/own_environment.h"
#include "tools/dlprobe/recorder.h"

namespace dlprobe {
namespace {

Examination refused(Error error, int exit_code) {
  Examination examination;
  examination.refusal = std::move(error);
  examination.refusal_exit = exit_code;
  return examination;
}

int exit_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kNotFound:
    case ErrorCode::kForbidden:
      return exit_of_refused_start(error);
    case ErrorCode::kUnsupported:
    case ErrorCode::kInvalid:
      return kExitUsage;
    default:
      return kExitIncomplete;
  }
}

}  // namespace

void add_static_option(CLI::App& command, bool& reads_only) {
  command
      .add_flag("--static", reads_only,
                "read the command's program, and run nothing of it: what may break where workers "
                "import it")
      ->group("Subject (default: the reference loader)");
}

Examination read_statically(const ExamineRequest& request) {
  auto machine = live_machine();
  if (!machine) return refused(std::move(machine).error(), kExitIncomplete);
  auto recorder = Recorder::open(
      recording_header(*machine, *request.probe, request.arguments, request.interval),
      request.record_path);
  if (!recorder) return refused(std::move(recorder).error(), kExitUsage);
  const ScriptReader reader = {.machine = *machine,
                               .path_variable = own_environment("PATH").value_or("")};
  auto reading = reader.read(request.command);
  if (!reading) {
    const int exit_code = exit_of(reading.error());
    return refused(std::move(reading).error(), exit_code);
  }
  Recorder& records = **recorder;
  records.add(RunBegin{.at = machine->clock->now(),
                       .subject = SubjectKind::kCommand,
                       .command = mask_secrets(request.command)});
  records.add(std::move(*reading));
  records.add(RunEnd{.at = machine->clock->now(),
                     .reason = RunEndReason::kNotStarted,
                     .text = "the program was read, not run (--static)"});
  if (!records.ended_early().empty()) complain(records.ended_early());
  Examination examination;
  examination.recording = records.recording();
  return examination;
}

}  // namespace dlprobe
