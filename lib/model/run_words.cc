#include "lib/model/run_words.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

namespace dlprobe {

RunSpan span_of(const Run& run) {
  RunSpan span = {.begin = run.begin.at, .end = run.begin.at};
  const auto extend = [&](BootNs at) { span.end = std::max(span.end, at); };
  if (!run.samples.empty()) extend(run.samples.back().at);
  if (!run.shm_use.empty()) extend(run.shm_use.back().at);
  if (!run.events.empty()) extend(run.events.back().at);
  if (!run.exits.empty()) extend(run.exits.back().at);
  if (run.end) extend(run.end->at);
  return span;
}

bool ended_during_watch(const Run& run) {
  return run.begin.subject == SubjectKind::kPid && run.end &&
         run.end->reason == RunEndReason::kSubjectEnded;
}

Message describe_exit(const Observed<int32_t>& wait_status) {
  if (!wait_status)
    return "ended, its status is not known: " + as_text(to_string(wait_status.error()));
  const int status = *wait_status;
  if (WIFSIGNALED(status)) {
    const char* name = sigabbrev_np(WTERMSIG(status));
    return say("killed by signal {} ({}{})", WTERMSIG(status), name != nullptr ? "SIG" : "",
               name != nullptr ? name : "unknown");
  }
  if (WIFEXITED(status)) return "exited with code " + own(WEXITSTATUS(status));
  return own(fmt::format("ended with wait status {:#x}", status));
}

}  // namespace dlprobe
