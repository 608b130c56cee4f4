#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/collect/gate_look.h"
#include "lib/collect/snapshot.h"
#include "lib/model/loader_plan.h"
#include "lib/model/recording.h"
#include "lib/model/start_event.h"
#include "lib/os/machine.h"
#include "lib/subject/launch_limits.h"
#include "lib/subject/python_shim.h"
#include "probes/probe.h"
#include "tools/dlprobe/gate_python.h"

namespace dlprobe {

/// How a command is watched to its end (`dlprobe run`).
struct CommandWatch {
  std::chrono::nanoseconds hang_after = std::chrono::minutes(5);
  bool end_when_hung = false;
  /// Called at the moment when the command is found to hang.
  std::function<void(const Recording&)> when_hung;
};

/// How often remedies are tried (`--confirm[=N]`).
struct ConfirmWish {
  int times = 3;
  bool saves_time = true;  ///< more than once only as long as that all takes no more than a minute
};

/// What `dlprobe gate` wants beside its runs of the reference loader.
struct GateRequest {
  GateWish wish;
  PythonWish python;
  std::string level;                  ///< "quick" starts no loader
  std::chrono::nanoseconds deadline;  ///< for all of it, from the start of dlprobe's look
};

/// What to examine, and how.
struct ExamineRequest {
  const Probe* probe = nullptr;
  std::vector<std::string> arguments;  ///< dlprobe's own, for the report
  SubjectKind subject = SubjectKind::kReferenceLoader;
  int32_t pid = 0;                      ///< of SubjectKind::kPid
  std::vector<std::string> command;     ///< of SubjectKind::kCommand
  std::vector<LoaderPlan> plans;        ///< of the reference loader: one run each
  std::optional<LoaderPlan> told_plan;  ///< what the user said of another loader
  std::optional<std::chrono::nanoseconds> watch_for;
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  SnapshotOptions snapshot;                   ///< for a probe that takes snapshots
  std::optional<CommandWatch> command_watch;  ///< of SubjectKind::kCommand
  LaunchLimits limits;                        ///< of what dlprobe starts
  PythonOverrides overrides;                  ///< of SubjectKind::kCommand
  std::vector<Trial> trials;                  ///< of SubjectKind::kCommand: one run each, contained
  /// Of the reference loader: each run is contained so, under the start method of its plan.
  std::optional<Trial> loader_trial;
  std::vector<std::pair<std::string, std::string>> environment;  ///< of a command, added to its own
  std::optional<ConfirmWish> confirm;  ///< of a command: each remedy that can be set is tried
  std::optional<Attempt> attempt;      ///< of a command: it is such a try
  std::optional<GateRequest> gate;     ///< of the reference loader: look at the machine first
  std::string record_path;             ///< empty: keep no file
  bool show_progress = false;
};

/// What came of it. `refusal` is set where there is nothing to report on.
struct Examination {
  Recording recording;
  std::optional<Error> refusal;
  int refusal_exit = 0;
  std::optional<int> wait_status;  ///< of a command that ended while it was watched
  std::vector<ProcessKey> left;    ///< of the tree, which outlive the watch
};

/// The first record of a recording that begins now.
RecordingHeader recording_header(const Machine& machine, const Probe& probe,
                                 const std::vector<std::string>& arguments,
                                 std::chrono::nanoseconds interval);

/// The exit code where the command could not be started. A limit that cannot be had is a request
/// that cannot be carried out.
int exit_of_refused_start(const Error& error);

/// The path of dlprobe's own program.
std::string own_executable();

/// How long a live process is watched unless the user says otherwise.
std::chrono::nanoseconds default_watch_of_pid(const Probe& probe);

/// Carries out the request: starts or finds the subject, watches it, ends what it started. Then
/// tries remedies, where that is asked for; the recording has it all.
Examination examine(const ExamineRequest& request);

}  // namespace dlprobe
