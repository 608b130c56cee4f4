#include "lib/session/run_context.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <utility>

#include "lib/collect/tree/tracked_process.h"

namespace dlprobe {
namespace {

// Of a mere look, walks of page tables would be the longest part.
constexpr auto kShortestForPss = std::chrono::seconds(1);
// And the tracepoint takes 50 ms to be turned off.
constexpr auto kShortestForDeaths = std::chrono::seconds(1);

std::optional<Limit> open_files_limit_within(const LaunchLimits& limits) {
  auto limit = limits.open_files ? Limit{.soft = limits.open_files, .hard = limits.open_files}
                                 : open_files_limit_of_children();
  if (limit && limits.soft_open_files) limit->soft = limits.soft_open_files;
  return limit;
}

}  // namespace

RunContext::RunContext(const ExamineRequest& asked, const Surroundings& around, Recorder& records)
    : request(asked),
      machine(around.machine),
      control(around.control),
      judge(around.judge),
      notices(around.notices),
      environment(around.environment),
      recorder(records),
      signals(control.hold_signals()) {}

std::optional<BootNs> RunContext::deadline() const {
  if (!request.watch_for) return std::nullopt;
  return now() + request.watch_for->count();
}

void RunContext::begin_run(RunBegin begin, const LaunchLimits& limits) {
  begin.at = now();
  begin.open_files_limit = open_files_limit_within(limits);
  begin.own_open_files = limits.open_files;
  begin.own_memory_bytes = limits.memory_bytes;
  begin.own_shm_bytes = limits.shm_bytes;
  recorder.add(std::move(begin));
}

void RunContext::end_run(RunEndReason reason, Message text) {
  recorder.add(RunEnd{.at = now(), .reason = reason, .text = std::move(text)});
}

void RunContext::add_note(Message text) {
  recorder.add(Event{.at = now(), .kind = "note", .text = std::move(text)});
}

std::nullopt_t RunContext::refuse(Error error, Refusal::Kind kind) {
  result.refusal = Refusal{.error = std::move(error), .kind = kind};
  return std::nullopt;
}

std::optional<LaunchScope> RunContext::prepare_limits(const LaunchLimits& limits) {
  auto scope = LaunchScope::prepare(machine, limits);
  if (!scope) return refuse(scope.error(), Refusal::Kind::kImpossible);
  if (limits.any()) add_note("dlprobe set limits: " + scope->description());
  return std::move(*scope);
}

void RunContext::close_limits(LaunchScope& scope) {
  if (const Status closed = scope.close(); !closed) notices.tell(to_string(closed.error()));
}

std::optional<ProcessKey> RunContext::start(const ChildSpec& spec,
                                            Refusal::Kind (*kind)(const Error&)) {
  const auto pid = control.start(spec);
  if (!pid) return refuse(pid.error(), kind(pid.error()));
  const auto key = process_key(machine, *pid);
  if (!key) {
    control.signal(*pid, SIGKILL);  // nobody would watch it
    return refuse(key.error(), Refusal::Kind::kIncomplete);
  }
  return *key;
}

WatchResult RunContext::watch(WatchTarget target, WatchGuide& guide) {
  const auto& watch_for = request.watch_for;
  target.collect.interval = request.interval;
  target.collect.snapshot = request.snapshot;
  target.collect.pss = !watch_for || *watch_for >= kShortestForPss;
  target.collect.deaths = !watch_for || *watch_for >= kShortestForDeaths;
  if (target.child) target.collect.adopter = control.own_pid();
  if (request.looks.snapshots && target.snapshots == SnapshotTimes::kNever)
    target.snapshots = SnapshotTimes::kAlways;
  target.collect.shared_files = request.looks.shared_files;
  target.collect.containers = request.looks.containers;
  WatchResult watched = dlprobe::watch({.machine = machine,
                                        .control = control,
                                        .signals = *signals,
                                        .sink = recorder,
                                        .notices = notices},
                                       std::move(target), guide);
  result.interrupted_by = watched.interrupted_by;
  return watched;
}

bool RunContext::has_error() const {
  const Verdict verdict = judge.examine(recorder.current_run_alone());
  return std::ranges::any_of(verdict.findings, [](const Finding& finding) {
    return finding.severity == Severity::kError;
  });
}

}  // namespace dlprobe
