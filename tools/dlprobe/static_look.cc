#include "tools/dlprobe/static_look.h"

#include <utility>

#include "lib/base/secrets.h"
#include "lib/session/recorder.h"
#include "lib/subject/script_reader.h"
#include "tools/dlprobe/command.h"

namespace dlprobe {
namespace {

Examination refused(const Error& error) {
  using enum Refusal::Kind;
  Refusal::Kind kind = error.code == ErrorCode::kTimeout ? kIncomplete : kImpossible;
  if (error.code == ErrorCode::kNotFound) kind = kNotFound;
  if (error.code == ErrorCode::kForbidden) kind = kNotExecutable;
  return {.refusal = Refusal{.error = error, .kind = kind}};
}

}  // namespace

Examination read_statically(const ExamineRequest& request, const Surroundings& surroundings) {
  const Machine& machine = surroundings.machine;
  auto recorder = Recorder::open(
      recording_header(surroundings, request.probe, request.arguments, request.interval),
      request.record_path);
  if (!recorder)
    return {.refusal = Refusal{.error = recorder.error(), .kind = Refusal::Kind::kImpossible}};
  const std::vector<std::string>& command = std::get<CommandSubject>(request.subject).argv;
  auto events = read_script(command, machine);
  if (!events) return refused(events.error());
  Recorder& records = **recorder;
  records.add(RunBegin{.at = events->front().at,
                       .subject = SubjectKind::kCommand,
                       .command = mask_secrets(command)});
  for (StartEvent& event : *events)
    records.add(std::move(event));
  records.add(RunEnd{.at = machine.clock->now(),
                     .reason = RunEndReason::kNotStarted,
                     .text = "the program was read, not run (--static)"});
  if (!records.ended_early().empty()) complain(records.ended_early());
  return {.recording = records.recording()};
}

}  // namespace dlprobe
