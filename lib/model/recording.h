#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/model/death.h"
#include "lib/model/descriptors.h"
#include "lib/model/gate_facts.h"
#include "lib/model/ids.h"
#include "lib/model/loader_plan.h"
#include "lib/model/process.h"
#include "lib/model/sample.h"
#include "lib/model/script_facts.h"
#include "lib/model/setting.h"
#include "lib/model/shm.h"
#include "lib/model/snapshot.h"
#include "lib/model/start_event.h"
#include "lib/model/tuning.h"

namespace dlprobe {

/// The machine that was examined.
struct HostFacts {
  std::string name;     ///< uname nodename
  std::string kernel;   ///< uname release
  std::string os;       ///< PRETTY_NAME of os-release
  std::string machine;  ///< "x86_64"
  uint64_t page_size = 4096;
  uint64_t ticks_per_second = 100;
  int cpus = 0;                           ///< usable by dlprobe (affinity)
  std::optional<uint64_t> max_map_count;  ///< vm.max_map_count: mappings that a process may have
  std::string
      container;  ///< "", "docker", "kubernetes", "podman", "slurm" ... by what is mounted or set
  std::string node;  ///< the machine's name for its scheduler, where that is another; may be empty
  std::string job_id;  ///< the scheduler's; empty: none is known
  std::string rank;    ///< of this process among those of the job; empty: none is known
  bool operator==(const HostFacts&) const = default;
};

/// How dlprobe was called.
struct InvocationFacts {
  std::string version;            ///< of dlprobe
  std::string probe;              ///< "shm"
  std::vector<std::string> argv;  ///< secrets masked
  uint32_t euid = 0;
  int64_t interval_ns = 0;
  std::string working_folder;  ///< paths of the user's code are shown relative to it
  bool operator==(const InvocationFacts&) const = default;
};

/// The first record of a recording. `realtime_ns` and `boottime_ns` were read together: with them
/// every BootNs becomes a time of day.
struct RecordingHeader {
  std::string recording_id;  ///< 32 hexadecimal digits, random
  int64_t realtime_ns = 0;
  BootNs boottime_ns = 0;
  HostFacts host;
  InvocationFacts invocation;
  bool operator==(const RecordingHeader&) const = default;
};

enum class SubjectKind { kReferenceLoader, kPid, kCommand };
std::string_view to_string(SubjectKind kind);  ///< "reference-loader", "pid", "command"
SubjectKind subject_kind_from_string(std::string_view name);

/// Begins one run: one subject examined once. `--start-method all` makes several runs.
struct RunBegin {
  BootNs at = 0;
  SubjectKind subject = SubjectKind::kReferenceLoader;
  std::optional<int32_t> asked_pid;  ///< --pid as typed, which may be any process of the tree
  std::optional<ProcessKey> root;    ///< of a live tree: the process that was climbed to
  std::vector<std::string> command;  ///< secrets masked
  std::optional<LoaderPlan> plan;    ///< of the reference loader, or as told for another loader
  bool preflight = false;            ///< looked at before anything is started
  bool looks_when_quiet = false;     ///< snapshots are taken only while the loader does not move
  std::optional<Limit> open_files_limit;  ///< of what dlprobe starts
  std::optional<Trial> trial;             ///< of a command that is tried under a start method
  /// A remedy is tried (`--confirm`): such a run is one of Recording::attempts.
  std::optional<Attempt> attempt;
  bool operator==(const RunBegin&) const = default;
};

/// What the reference loader says of itself at its start.
struct LoaderHello {
  BootNs at = 0;
  std::string device;       ///< "cpu", "cuda:0"
  std::string device_name;  ///< "NVIDIA H200", or the CPU's model
  std::string libtorch;     ///< "1.13.1"
  std::string opencv;       ///< "4.6.0"
  uint64_t images = 0;
  uint64_t batches_per_epoch = 0;
  bool operator==(const LoaderHello&) const = default;
};

/// One batch that the reference loader's training loop consumed.
struct LoaderBatch {
  BootNs at = 0;
  int epoch = 0;
  int index = 0;
  int worker = 0;
  int samples = 0;
  uint64_t bytes = 0;  ///< of its tensors, before page rounding
  double wait_s = 0;   ///< the training loop waited for it
  double fetch_s = 0;  ///< the worker read, decoded, transformed and collated it
  double copy_s = 0;   ///< to the device (and into pinned memory)
  double step_s = 0;   ///< training step
  bool operator==(const LoaderBatch&) const = default;
};

/// The reference loader's own account of a whole run; absent if it died.
struct LoaderDone {
  BootNs at = 0;
  uint64_t images = 0;
  double seconds = 0;        ///< from the first request to the last batch
  double first_batch_s = 0;  ///< from the start of the workers to the first batch
  uint64_t broken_images = 0;
  bool operator==(const LoaderDone&) const = default;
};

/// The kinds of the reference loader's Events that rules look for: an image that could not be
/// decoded, no image in the folder at all, and why it ended.
inline constexpr std::string_view kLoaderBrokenImage = "loader-broken-image";
inline constexpr std::string_view kLoaderNoImage = "loader-no-image";
inline constexpr std::string_view kLoaderError = "loader-error";

/// The kind of the Event that ends a standstill which was looked at.
inline constexpr std::string_view kMovesAgain = "moves-again";

/// Anything else worth a line on the timeline.
struct Event {
  BootNs at = 0;
  std::string kind;  ///< "loader-error", "loader-broken-image", "loader-no-image",
                     ///< "loader-fault", "loader-note",
                     ///< "note", "segment-reservation-failed",
                     ///< kMovesAgain ...
  std::string text;  ///< hostile text
  std::optional<ProcessKey> process;
  bool operator==(const Event&) const = default;
};

/// Something that could not be looked at, and why.
struct Gap {
  std::string what;    ///< "descriptors of process 42"
  std::string why;     ///< "list /proc/42/fd: Permission denied (EACCES)"
  std::string effect;  ///< what cannot be said for want of it
  std::string remedy;  ///< what would enable it; may be empty
  bool operator==(const Gap&) const = default;
};

enum class RunEndReason {
  kSubjectEnded,  ///< the process tree is gone
  kTimeUp,        ///< --for ran out; the subject goes on
  kInterrupted,   ///< the user stopped dlprobe
  kNotStarted,    ///< the forecast says it would not fit, or it could not be started
};
std::string_view to_string(RunEndReason reason);
RunEndReason run_end_reason_from_string(std::string_view name);

/// Ends a run. A recording cut off by a crash lacks it.
struct RunEnd {
  BootNs at = 0;
  RunEndReason reason = RunEndReason::kSubjectEnded;
  std::string text;  ///< why, for a person, where `reason` does not say it all
  /// Of the process that dlprobe started, as wait(2) encodes it; nothing if it had not ended.
  std::optional<int32_t> wait_status;
  /// Of a command whose time was up: for how long nothing of it had moved by then.
  std::optional<BootNs> still_for;
  bool operator==(const RunEnd&) const = default;
};

using Record = std::variant<RunBegin, ProcessInfo, ProcessExit, ShmMount, Sample, ShmUse, ShmLedger,
                            LoaderHello, LoaderBatch, LoaderDone, Event, Gap, RunEnd, TreeSnapshot,
                            SignalSent, KernelLogLine, OomCounters, FdLook, StartEvent,
                            ScriptReading, TuneRequest, SpeedMeasurement, GateFacts>;

/// One run, put together from its records.
struct Run {
  RunBegin begin;
  std::vector<ProcessInfo> processes;  ///< by key; the last word of each
  std::vector<ProcessExit> exits;      ///< in time order
  std::vector<ShmMount> mounts;        ///< in the order in which they were found, each once
  std::vector<Sample> samples;         ///< in time order, thinned: see RecordingBuilder
  std::vector<ShmUse> shm_use;         ///< all of the statvfs, those of samples included; thinned
  std::vector<ShmLedger> ledgers;      ///< in time order, thinned
  std::optional<LoaderHello> loader;
  std::vector<LoaderBatch> batches;  ///< thinned beyond a limit
  std::optional<LoaderDone> done;
  std::vector<Event> events;
  std::vector<Gap> gaps;
  std::vector<FdLook> fd_looks;           ///< in time order, thinned beyond a limit
  std::vector<TreeSnapshot> snapshots;    ///< in time order; the last 16
  std::vector<SignalSent> signals;        ///< in time order
  std::vector<KernelLogLine> kernel_log;  ///< in time order
  std::vector<OomCounters> oom_counters;  ///< in time order
  std::vector<StartEvent> start_events;   ///< in time order; the first 5000
  std::optional<ScriptReading> script;    ///< the command's text, where it was read
  std::optional<GateFacts> gate;          ///< of `dlprobe gate`
  std::optional<TuneRequest> tune_request;
  std::optional<SpeedMeasurement> speed;  ///< of a run of `dlprobe tune`
  std::optional<RunEnd> end;

  const ProcessInfo* find_process(const ProcessKey& key) const;
  const ProcessExit* find_exit(const ProcessKey& key) const;
};

/// A whole examination.
struct Recording {
  RecordingHeader header;
  std::vector<Run> runs;
  /// The same command once more, with what a remedy changes. What is examined is `runs` alone.
  std::vector<Run> attempts;
  bool truncated = false;        ///< the file ended inside a record or without RunEnd
  uint64_t thinned_records = 0;  ///< how many were dropped to keep memory bounded
  BootNs thinned_at = 0;         ///< when that was last looked at
};

/// Puts records together into a Recording of bounded size.
///
/// Both the live path and replay feed their records through here, so both see the same Recording.
/// Thinning is by age against the newest record: everything of the last 2 minutes is kept, then one
/// record per second back to 10 minutes, one per 10 seconds back to 6 hours, then one per 2
/// minutes. Of each group the one with the highest shm use stays (the latest among equals), so
/// peaks survive; what is looked at of memory once a second or less, it takes from the others. It
/// is done every 30 seconds of recorded time and at RunEnd, and thinning what is already thinned
/// changes nothing. Batches, events, exits, gaps and processes that ended are bounded by number.
class RecordingBuilder {
 public:
  explicit RecordingBuilder(RecordingHeader header);
  void add(Record record);
  /// Puts a record back that was in a Recording, which was thinned `thinned_records` times until
  /// `thinned_at`: nothing is thinned or derived again. Before the first add().
  void restore(Record record);
  void mark_thinned(uint64_t thinned_records, BootNs thinned_at);
  void mark_truncated() { recording_.truncated = true; }
  const Recording& recording() const { return recording_; }
  /// The run that was begun last, an attempt or not. There must be one.
  const Run& current() const {
    return is_attempt_ ? recording_.attempts.back() : recording_.runs.back();
  }
  Recording take() && { return std::move(recording_); }

 private:
  Run* run_of(const Record& record);
  void thin(Run& run, BootNs now);
  Recording recording_;
  bool is_attempt_ = false;  ///< the run that was begun last
};

}  // namespace dlprobe
