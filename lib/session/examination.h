#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lib/collect/gate/gate_look.h"
#include "lib/collect/snapshot/snapshot.h"
#include "lib/model/loader_plan.h"
#include "lib/model/recording.h"
#include "lib/model/start_event.h"
#include "lib/session/gate_python.h"
#include "lib/session/refusal.h"
#include "lib/session/surroundings.h"
#include "lib/subject/launch_limits.h"
#include "lib/subject/python_shim.h"

namespace dlprobe {

/// How a command is watched to its end (`dlprobe run`).
struct CommandWatch {
  std::chrono::nanoseconds hang_after = std::chrono::minutes(5);
  bool end_when_hung = false;
  /// Called at the moment when the command is found to hang.
  std::function<void(const Recording&)> when_hung;
  /// Called when it moves again after that, with how long it had stood.
  std::function<void(std::chrono::nanoseconds)> when_moving_again;
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

/// What the rules want to see beside samples.
struct WantedLooks {
  bool snapshots = false;     ///< of stacks and locks
  bool shared_files = false;  ///< which files are read by one position
  bool containers = false;    ///< which containers of Python grow
};

/// The reference loader: one run for each plan.
struct LoaderSubject {
  std::vector<LoaderPlan> plans;
  LaunchLimits limits;
  std::optional<Trial> trial;  ///< each run is contained so, under the start method of its plan
  std::optional<GateRequest> gate;  ///< look at the machine first
};

/// Somebody who looks on while a process is watched (`dlprobe top`).
class Onlooker {
 public:
  virtual ~Onlooker() = default;
  Onlooker() = default;
  Onlooker(const Onlooker&) = delete;
  Onlooker& operator=(const Onlooker&) = delete;

  /// Readable when take() has something to read there; -1: never.
  virtual int descriptor() const = 0;
  /// What is recorded by now: after each look, and when the descriptor can be read.
  virtual void take(const Recording& recording) = 0;
  /// Stacks and locks are to be looked at, once a second as long as it wants that.
  virtual bool wants_snapshots() const = 0;
  /// The watch is to end.
  virtual bool has_enough() const = 0;
};

/// A process that runs already, with its tree.
struct PidSubject {
  int32_t pid = 0;
  std::optional<LoaderPlan> told_plan;  ///< what the user said of its loader
  /// Watched for so much longer where more is to be told (Judge::why_watch_longer).
  std::chrono::nanoseconds longer_if_unclear{0};
  /// Watched for so much longer where nothing of the job has been found yet.
  std::chrono::nanoseconds longer_if_nothing_found{0};
  Onlooker* onlooker = nullptr;  ///< or nobody
};

/// A command to start.
struct CommandSubject {
  std::vector<std::string> argv;
  std::optional<LoaderPlan> told_plan;  ///< what the user said of its loader
  LaunchLimits limits;
  PythonOverrides overrides;
  bool has_witness = true;  ///< its interpreters tell what is raised in them
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to dlprobe's own
  std::optional<CommandWatch> watch;
  std::vector<Trial> trials;           ///< one run each, contained; none: one run as it is
  std::optional<ConfirmWish> confirm;  ///< each remedy that can be set is tried
  std::optional<Attempt> attempt;      ///< it is such a try
};

using Subject = std::variant<LoaderSubject, PidSubject, CommandSubject>;

/// What to examine, and how.
struct ExamineRequest {
  std::string probe;  ///< its name, for the recording
  WantedLooks looks;
  std::vector<std::string> arguments;  ///< dlprobe's own, for the report
  Subject subject;
  /// The watch ends then. Always set for a process that runs already, but with an onlooker.
  std::optional<std::chrono::nanoseconds> watch_for;
  std::chrono::nanoseconds interval = std::chrono::milliseconds(100);
  SnapshotOptions snapshot;  ///< for a probe that takes snapshots
  std::string record_path;   ///< empty: keep no file
};

/// What came of it. `refusal` is set where there is nothing to report on.
struct Examination {
  Recording recording;
  std::optional<Refusal> refusal;
  std::optional<int> wait_status;  ///< of a command that ended while it was watched
  std::vector<ProcessKey> left;    ///< of the tree, which outlive the watch
  int interrupted_by = 0;          ///< the signal that asked dlprobe to stop
  bool recording_cut = false;      ///< the file that was asked for does not hold all of it
};

/// The first record of a recording that begins now.
RecordingHeader recording_header(const Surroundings& surroundings, const std::string& probe,
                                 const std::vector<std::string>& arguments,
                                 std::chrono::nanoseconds interval);

/// The path of dlprobe's own program.
std::string own_executable();

/// Carries out the request: starts or finds the subject, watches it, ends what it started. Then
/// tries remedies, where that is asked for; the recording has it all.
Examination examine(const ExamineRequest& request, const Surroundings& surroundings);

}  // namespace dlprobe
