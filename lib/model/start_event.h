#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/model/ids.h"
#include "lib/model/loader_plan.h"

namespace dlprobe {

/// What an interpreter of the command told about the processes that it starts.
enum class StartEventKind {
  kInterpreter,      ///< it loaded dlprobe's shim
  kChosen,           ///< the script asked for a start method, and got it or, overridden, another
  kStarted,          ///< multiprocessing started a process
  kRefused,          ///< a process was not started, or died of what it was sent; see `cause`
  kMainImported,     ///< a child has run the main module once more
  kMainNotImported,  ///< a child could not: `message` says why
  kFirstBatch,       ///< a DataLoader with workers handed out its first batch
  kLoaderMade,       ///< a DataLoader was made; `workers`, `prefetch_factor` as used
  kBatches,          ///< how many batches an iterator of a DataLoader has handed out by now
  kMpiBegins,        ///< mpi4py.MPI is being imported, which initialises MPI
  kMpiReady,         ///< and was
  kFailed,           ///< the program ended by an exception that nobody caught: `message`
  kHookFailed,       ///< a part of the shim did not find what it knows; `message`
};
std::string_view to_string(StartEventKind kind);  ///< "interpreter", "chosen", ...
StartEventKind start_event_kind_from_string(std::string_view name);

/// Why a process was not started.
enum class StartRefusal {
  kNone,
  kBootstrapping,  ///< a child that still imports its main module must not start processes
  kDaemonic,       ///< daemonic processes must not have children
  kContextSet,     ///< set_start_method a second time
  kUnpicklable,    ///< something that is to be sent to the process cannot be pickled
  kNotFoundThere,  ///< the process cannot find by its name what it was sent
  kCudaAfterFork,  ///< CUDA is used in a process that was forked after its initialisation
  kOther,
};
std::string_view to_string(StartRefusal refusal);  ///< "none", "bootstrapping", "daemonic", ...
StartRefusal start_refusal_from_string(std::string_view name);

/// A word of the shim in one interpreter (lib/subject/python_shim), or of the reference loader.
/// All text is hostile.
struct StartEvent {
  BootNs at = 0;
  StartEventKind kind = StartEventKind::kInterpreter;
  ProcessKey process;                ///< whose word it is
  std::string method;                ///< start method: "fork", "spawn", "forkserver"
  std::string wanted;                ///< of kChosen: what the script asked for
  std::optional<int32_t> child_pid;  ///< of kStarted
  StartRefusal cause = StartRefusal::kNone;
  std::string message;  ///< the exception's type and text, secrets masked
  /// Of kUnpicklable: "dataset.transform.transforms[2].fn"; of kFailed by a NameError: the name, if
  /// the main module has it.
  std::string path;
  /// Of kUnpicklable: "function", "_thread.lock"; of kInterpreter: "3.11.2"; of kLoaderMade:
  /// torch's sharing strategy at that time.
  std::string type;
  /// The user's own line that did it: the innermost frame outside of the standard library and
  /// site-packages. Empty: there is none.
  std::string file;
  int32_t line = 0;
  std::string function;          ///< "<module>" at the module's level
  bool is_main = false;          ///< that line is the main module's own
  std::optional<int64_t> count;  ///< of kBatches
  /// Of kMainImported; of kFirstBatch since its iterator was made; of kBatches waited for them.
  std::optional<double> seconds;
  std::optional<uint64_t> bytes;   ///< of kMainImported: by which the process's RSS grew
  std::optional<int32_t> workers;  ///< of kLoaderMade
  std::optional<int32_t> prefetch_factor;

  bool operator==(const StartEvent&) const = default;
};

/// A command or the reference loader, run to see if it can live with a start method, contained: its
/// whole tree is ended when it outgrows what is allowed; a command's also when its time is up.
struct Trial {
  StartMethod start_method = StartMethod::kSpawn;
  std::optional<SharingStrategy> sharing_strategy;
  std::optional<int32_t> workers;  ///< of every DataLoader; none: as the script has it
  bool forced = false;             ///< also where the script names a start method itself
  int32_t most_processes = 0;      ///< that may live at once
  int32_t most_depth = 0;          ///< how often a process may descend from one that runs the same
  bool operator==(const Trial&) const = default;
};

/// The kinds of the Events of a tree that outgrew its trial.
inline constexpr std::string_view kTooManyProcesses = "too-many-processes";
inline constexpr std::string_view kTooDeep = "too-deep";

}  // namespace dlprobe
