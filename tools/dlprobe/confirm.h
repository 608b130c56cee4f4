#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/recording.h"
#include "lib/model/setting.h"
#include "lib/os/clock.h"
#include "tools/dlprobe/examine.h"
#include "tools/dlprobe/recorder.h"

namespace dlprobe {

/// `request`, which examined the command in the run `first`, as an attempt with `settings`: the
/// same limits and time otherwise. Errors say why that cannot be set.
Expected<ExamineRequest> with_settings(const ExamineRequest& request, const Run& first,
                                       const std::vector<Setting>& settings);

/// Runs one attempt to its end; its records go to the recorder. Why it could not be started, if so.
using RunAttempt = std::function<std::optional<Error>(const ExamineRequest& attempt)>;

/// After the command was examined: runs it again with what the remedies of the first finding set,
/// and as it was where one of them seems to help. What came of it is in the recorder alone
/// (Recording::attempts, judged by probes/confirm.h); on stderr it says what it does.
void confirm_remedies(const ExamineRequest& request, const Clock& clock, Recorder& recorder,
                      const RunAttempt& run_attempt);

}  // namespace dlprobe
