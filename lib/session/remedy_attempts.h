#pragma once

#include <functional>
#include <optional>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"
#include "lib/session/examination.h"
#include "lib/session/recorder.h"
#include "lib/session/surroundings.h"

namespace dlprobe {

/// `request`, which examined a command in the run `first`, with what that attempt sets: the same
/// limits and time otherwise. Errors say why it cannot be set.
Expected<ExamineRequest> with_settings(const ExamineRequest& request, const Run& first,
                                       const Attempt& as);

/// Runs one attempt to its end; its records go to the recorder. Why it could not be started, if so.
using RunAttempt = std::function<std::optional<Refusal>(const ExamineRequest& attempt)>;

/// After the command was examined: runs it again with each thing that the remedies of its findings
/// set (plan_attempts), and as it was where one of them seems to help; the same in rounds, as often
/// as CommandSubject::confirm says, with what still seems to help. What came of it is in the
/// recorder alone (Recording::attempts); the notices say what it does.
void try_remedies(const ExamineRequest& request, const Surroundings& surroundings,
                  Recorder& recorder, const RunAttempt& run_attempt);

}  // namespace dlprobe
