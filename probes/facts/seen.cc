#include "probes/facts/seen.h"

#include <algorithm>

#include "lib/base/units.h"
#include "probes/facts/facts.h"
#include "probes/facts/trend.h"

namespace dlprobe {
namespace {

template <class Predicate>
bool any_run(const RecordingView& recording, Predicate predicate) {
  return std::ranges::any_of(recording.runs, predicate);
}

template <class Predicate>
bool any_sample(const RecordingView& recording, Predicate predicate) {
  return any_run(recording,
                 [&](const Run& run) { return std::ranges::any_of(run.samples, predicate); });
}

template <class Predicate>
bool any_process(const RecordingView& recording, Predicate predicate) {
  return any_sample(recording, [&](const Sample& sample) {
    return std::ranges::any_of(sample.processes, predicate);
  });
}

template <class T>
bool was_read(const std::optional<Observed<T>>& observed) {
  return observed && observed->has_value();
}

}  // namespace

bool saw_shm_use(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) { return !run.shm_use.empty(); });
}

bool saw_shm_files(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) { return !run.ledgers.empty(); });
}

bool saw_open_files(const RecordingView& recording) {
  return any_process(recording,
                     [](const ProcessSample& process) { return was_read(process.fd_count); });
}

bool saw_mappings(const RecordingView& recording) {
  return any_process(recording,
                     [](const ProcessSample& process) { return was_read(process.map_count); });
}

bool saw_processes(const RecordingView& recording) {
  return any_sample(recording, [](const Sample& sample) { return !sample.processes.empty(); });
}

bool saw_processes_for_long(const RecordingView& recording) {
  return any_run(recording,
                 [](const Run& run) { return slowest_growth_found(watched_for(run)).has_value(); });
}

bool saw_shared_pages(const RecordingView& recording) {
  return any_sample(recording, [](const Sample& sample) {
    return (was_read(sample.cgroup) && (*sample.cgroup)->anon_bytes) ||
           std::ranges::any_of(sample.processes, [](const ProcessSample& process) {
             return process.pss_anon_bytes.has_value();
           });
  });
}

bool saw_memory_limit(const RecordingView& recording) {
  return any_sample(recording, [](const Sample& sample) {
    return was_read(sample.cgroup) || was_read(sample.host);
  });
}

bool saw_stacks(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) { return !run.snapshots.empty(); });
}

bool saw_shared_files(const RecordingView& recording) {
  return saw_stacks(recording) ||
         any_run(recording, [](const Run& run) { return !run.file_looks.empty(); });
}

bool saw_progress(const RecordingView& recording) {
  return saw_stacks(recording) || any_run(recording, [](const Run& run) {
           return !run.samples.empty() && (run.begin.looks_when_quiet || has_subject_ended(run));
         });
}

bool saw_ends(const RecordingView& recording) {
  return saw_processes(recording) ||
         any_run(recording, [](const Run& run) { return !run.exits.empty(); });
}

bool saw_oom_killer(const RecordingView& recording) {
  return any_run(
             recording,
             [](const Run& run) { return !run.oom_counters.empty() || !run.kernel_log.empty(); }) ||
         saw_memory_limit(recording);
}

bool saw_starts(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) {
    // What was read of a program's text tells of starts that nobody saw.
    return run.begin.trial.has_value() ||
           std::ranges::any_of(run.start_events, [](const StartEvent& event) {
             return event.kind != StartEventKind::kRead && event.kind != StartEventKind::kForeseen;
           });
  });
}

bool saw_interpreters(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) {
    return std::ranges::count(run.start_events, StartEventKind::kInterpreter, &StartEvent::kind) >
           0;
  });
}

bool saw_script(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) {
    return std::ranges::count(run.start_events, StartEventKind::kRead, &StartEvent::kind) > 0;
  });
}

bool saw_gate_facts(const RecordingView& recording) {
  return any_run(recording, [](const Run& run) { return run.gate.has_value(); });
}

}  // namespace dlprobe
