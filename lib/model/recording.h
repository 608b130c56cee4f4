#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/fields.h"
#include "lib/base/message.h"
#include "lib/model/container_look.h"
#include "lib/model/death.h"
#include "lib/model/descriptors.h"
#include "lib/model/gate_facts.h"
#include "lib/model/ids.h"
#include "lib/model/loader_plan.h"
#include "lib/model/process.h"
#include "lib/model/sample.h"
#include "lib/model/setting.h"
#include "lib/model/shm.h"
#include "lib/model/snapshot.h"
#include "lib/model/start_event.h"
#include "lib/model/task_facts.h"
#include "lib/model/tuning.h"

namespace dlprobe {

/// The machine that was examined.
struct HostFacts {
  std::string name;
  std::string kernel;
  std::string os;
  std::string machine;
  uint64_t page_size = 4096;
  uint64_t ticks_per_second = 100;
  int cpus = 0;
  std::optional<uint64_t> max_map_count;
  std::optional<int> overcommit_memory;
  std::string container;
  std::string node;
  std::string job_id;
  std::string rank;
  bool operator==(const HostFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<HostFacts> /*of*/) {
  field("name", &HostFacts::name, "uname nodename");
  field("kernel", &HostFacts::kernel, "uname release");
  field("os", &HostFacts::os, "PRETTY_NAME of os-release");
  field("machine", &HostFacts::machine, R"("x86_64")");
  field("page", &HostFacts::page_size, "of memory");
  field("hz", &HostFacts::ticks_per_second, "of the kernel: sysconf(_SC_CLK_TCK)");
  field("cpus", &HostFacts::cpus, "usable by dlprobe (affinity)");
  field("max_maps", &HostFacts::max_map_count,
        "vm.max_map_count: mappings that a process may have");
  field("overcommit", &HostFacts::overcommit_memory,
        "vm.overcommit_memory: 0 guesses, 1 grants all, 2 grants nothing beyond CommitLimit");
  field("container", &HostFacts::container,
        R"("", "docker", "kubernetes", "podman", "slurm" ... by what is mounted or set)");
  field("node", &HostFacts::node,
        "the machine's name for its scheduler, where that is another; may be empty");
  field("job", &HostFacts::job_id, "the scheduler's; empty: none is known");
  field("rank", &HostFacts::rank, "of this process among those of the job; empty: none is known");
}

/// How dlprobe was called.
struct InvocationFacts {
  std::string version;
  std::string probe;
  std::vector<std::string> argv;
  uint32_t euid = 0;
  int64_t interval_ns = 0;
  std::string working_folder;
  bool operator==(const InvocationFacts&) const = default;
};
constexpr void list_fields(auto&& field, Of<InvocationFacts> /*of*/) {
  field("version", &InvocationFacts::version, "of dlprobe");
  field("probe", &InvocationFacts::probe, R"("shm")");
  field("argv", &InvocationFacts::argv, "secrets masked");
  field("euid", &InvocationFacts::euid, "the user it ran as");
  field("interval_ns", &InvocationFacts::interval_ns, "between two samples", Unit::kNanoseconds);
  field("folder", &InvocationFacts::working_folder,
        "paths of the user's code are shown relative to it");
}

/// The first record of a recording. `realtime_ns` and `boottime_ns` were read together: with them
/// every BootNs becomes a time of day.
struct RecordingHeader {
  std::string recording_id;
  int64_t realtime_ns = 0;
  BootNs boottime_ns = 0;
  HostFacts host;
  InvocationFacts invocation;
  bool operator==(const RecordingHeader&) const = default;
};
constexpr void list_fields(auto&& field, Of<RecordingHeader> /*of*/) {
  field("id", &RecordingHeader::recording_id, "32 hexadecimal digits, random");
  field("realtime_ns", &RecordingHeader::realtime_ns, "the clock of the day", Unit::kTimeOfDay);
  field("boottime_ns", &RecordingHeader::boottime_ns,
        "read together with it: both turn every moment into a time of day", Unit::kMoment);
  field("host", &RecordingHeader::host, "the machine");
  field("invocation", &RecordingHeader::invocation, "how dlprobe was called");
}

enum class SubjectKind { kReferenceLoader, kPid, kCommand };
template <>
struct Names<SubjectKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"reference-loader", "pid", "command"});
};

/// Begins one run: one subject examined once. `--start-method all` makes several runs.
struct RunBegin {
  BootNs at = 0;
  SubjectKind subject = SubjectKind::kReferenceLoader;
  std::optional<int32_t> asked_pid;
  std::optional<ProcessKey> root;
  std::vector<std::string> command;
  std::optional<LoaderPlan> plan;
  bool preflight = false;
  bool looks_when_quiet = false;
  std::optional<Limit> open_files_limit;
  std::optional<uint64_t> own_open_files;
  std::optional<uint64_t> own_memory_bytes;
  std::optional<uint64_t> own_shm_bytes;
  std::optional<Trial> trial;
  std::optional<Attempt> attempt;
  bool operator==(const RunBegin&) const = default;
};
constexpr void list_fields(auto&& field, Of<RunBegin> /*of*/) {
  field("at", &RunBegin::at, "when it began", Unit::kMoment);
  field("subject", &RunBegin::subject, "what is examined");
  field("asked_pid", &RunBegin::asked_pid, "--pid as typed, which may be any process of the tree");
  field("root", &RunBegin::root, "of a live tree: the process that was climbed to");
  field("command", &RunBegin::command, "secrets masked");
  field("plan", &RunBegin::plan, "of the reference loader, or as told for another loader");
  field("preflight", &RunBegin::preflight, "looked at before anything is started");
  field("looks_when_quiet", &RunBegin::looks_when_quiet,
        "snapshots are taken only while the loader does not move");
  field("nofile", &RunBegin::open_files_limit, "of what dlprobe starts");
  field("limit_fds", &RunBegin::own_open_files, "--limit-fds: dlprobe set it");
  field("limit_memory", &RunBegin::own_memory_bytes, "--limit-memory, likewise", Unit::kBytes);
  field("shm_size", &RunBegin::own_shm_bytes, "--shm-size, likewise", Unit::kBytes);
  field("trial", &RunBegin::trial, "of a command that is tried under a start method");
  field("attempt", &RunBegin::attempt,
        "A remedy is tried (`--confirm`): such a run is one of Recording::attempts");
}

/// What the reference loader says of itself at its start.
struct LoaderHello {
  BootNs at = 0;
  std::string device;
  std::string device_name;
  std::string libtorch;
  std::string opencv;
  uint64_t images = 0;
  uint64_t batches_per_epoch = 0;
  bool operator==(const LoaderHello&) const = default;
};
constexpr void list_fields(auto&& field, Of<LoaderHello> /*of*/) {
  field("at", &LoaderHello::at, "when it began", Unit::kMoment);
  field("device", &LoaderHello::device, R"("cpu", "cuda:0")");
  field("device_name", &LoaderHello::device_name, R"("NVIDIA H200", or the CPU's model)");
  field("libtorch", &LoaderHello::libtorch, R"("1.13.1")");
  field("opencv", &LoaderHello::opencv, R"("4.6.0")");
  field("images", &LoaderHello::images, "that it found");
  field("batches_per_epoch", &LoaderHello::batches_per_epoch, "that it will make");
}

/// One batch that the reference loader's training loop consumed.
struct LoaderBatch {
  BootNs at = 0;
  int epoch = 0;
  int index = 0;
  int worker = 0;
  int samples = 0;
  uint64_t bytes = 0;
  double wait_s = 0;
  double fetch_s = 0;
  double copy_s = 0;
  double step_s = 0;
  bool operator==(const LoaderBatch&) const = default;
};
constexpr void list_fields(auto&& field, Of<LoaderBatch> /*of*/) {
  field("at", &LoaderBatch::at, "when it was consumed", Unit::kMoment);
  field("epoch", &LoaderBatch::epoch, "from 0");
  field("index", &LoaderBatch::index, "in its epoch, from 0");
  field("worker", &LoaderBatch::worker, "which made it");
  field("samples", &LoaderBatch::samples, "in it");
  field("bytes", &LoaderBatch::bytes, "of its tensors, before page rounding", Unit::kBytes);
  field("wait", &LoaderBatch::wait_s, "the training loop waited for it", Unit::kSeconds);
  field("fetch", &LoaderBatch::fetch_s, "the worker read, decoded, transformed and collated it",
        Unit::kSeconds);
  field("copy", &LoaderBatch::copy_s, "to the device (and into pinned memory)", Unit::kSeconds);
  field("step", &LoaderBatch::step_s, "training step", Unit::kSeconds);
}

/// The reference loader's own account of a whole run; absent if it died.
struct LoaderDone {
  BootNs at = 0;
  uint64_t images = 0;
  double seconds = 0;
  double first_batch_s = 0;
  uint64_t broken_images = 0;
  bool operator==(const LoaderDone&) const = default;
};
constexpr void list_fields(auto&& field, Of<LoaderDone> /*of*/) {
  field("at", &LoaderDone::at, "when it ended", Unit::kMoment);
  field("images", &LoaderDone::images, "consumed");
  field("seconds", &LoaderDone::seconds, "from the first request to the last batch",
        Unit::kSeconds);
  field("first_batch", &LoaderDone::first_batch_s,
        "from the start of the workers to the first batch", Unit::kSeconds);
  field("broken", &LoaderDone::broken_images, "that could not be decoded");
}

/// The kinds of the reference loader's Events that rules look for: an image that could not be
/// decoded, no image in the folder at all, and why it ended.
inline constexpr std::string_view kLoaderBrokenImage = "loader-broken-image";
inline constexpr std::string_view kLoaderNoImage = "loader-no-image";
inline constexpr std::string_view kLoaderError = "loader-error";

/// The kind of the Event that ends a standstill which was looked at.
inline constexpr std::string_view kMovesAgain = "moves-again";
/// That of the moment from which dlprobe ends what it started: a reference loader whose time is up,
/// a command that hangs. Deaths after it are of dlprobe's doing.
inline constexpr std::string_view kEndingBegan = "ending-began";

/// Anything else worth a line on the timeline.
struct Event {
  BootNs at = 0;
  std::string kind;
  Message text;
  std::optional<ProcessKey> process;
  bool operator==(const Event&) const = default;
};
constexpr void list_fields(auto&& field, Of<Event> /*of*/) {
  field("at", &Event::at, "when it happened", Unit::kMoment);
  field("kind", &Event::kind, "what happened");
  field("text", &Event::text, "what happened, for a person; may be hostile text");
  field("key", &Event::process, "whom it is about, if anyone");
}

/// Something that could not be looked at, and why.
struct Gap {
  Message what;
  Message why;
  Message effect;
  Message remedy;
  bool operator==(const Gap&) const = default;
};
constexpr void list_fields(auto&& field, Of<Gap> /*of*/) {
  field("what", &Gap::what, R"("descriptors of process 42")");
  field("why", &Gap::why, "\"list /proc/42/fd: Permission denied (EACCES)\"");
  field("effect", &Gap::effect, "what cannot be said for want of it");
  field("remedy", &Gap::remedy, "what would enable it; may be empty");
}

enum class RunEndReason {
  kSubjectEnded,  ///< the process tree is gone
  kTimeUp,        ///< --for ran out; the subject goes on
  kInterrupted,   ///< the user stopped dlprobe
  kNotStarted,    ///< the forecast says it would not fit, or it could not be started
};
template <>
struct Names<RunEndReason> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"subject-ended", "time-up", "interrupted", "not-started"});
};

/// Ends a run. A recording cut off by a crash lacks it.
struct RunEnd {
  BootNs at = 0;
  RunEndReason reason = RunEndReason::kSubjectEnded;
  Message text;
  std::optional<int32_t> wait_status;
  std::optional<BootNs> still_for;
  std::optional<double> busy_cpus;
  bool operator==(const RunEnd&) const = default;
};
constexpr void list_fields(auto&& field, Of<RunEnd> /*of*/) {
  field("at", &RunEnd::at, "when it ended", Unit::kMoment);
  field("reason", &RunEnd::reason, "why");
  field("text", &RunEnd::text, "why, for a person, where `reason` does not say it all");
  field("status", &RunEnd::wait_status,
        "Of the process that dlprobe started, as wait(2) encodes it; nothing if it had not ended");
  field("still_for", &RunEnd::still_for,
        "Of a command whose time was up: for how long nothing of it had moved by then",
        Unit::kNanoseconds);
  field("busy_cpus", &RunEnd::busy_cpus,
        "how many of the usable CPUs were busy during the watch, on average, whoever ran there");
}

using Record = std::variant<RunBegin, ProcessInfo, ProcessExit, ShmMount, Sample, ShmUse, ShmLedger,
                            LoaderHello, LoaderBatch, LoaderDone, Event, Gap, RunEnd, TreeSnapshot,
                            SignalSent, KernelLogLine, OomCounters, FdLook, StartEvent, TuneRequest,
                            SpeedMeasurement, GateFacts, TaskFacts, SharedFileLook, ContainerLook>;

/// What one member of Run holds: one record, at most one, or many.
template <class Member>
struct RecordOf {
  using type = Member;
};
template <class T>
struct RecordOf<std::optional<T>> {
  using type = T;
};
template <class T>
struct RecordOf<std::vector<T>> {
  using type = T;
};

/// One run, put together from its records. A new kind of record is a type of Record, a member here
/// and its line in the list below; without one of the three nothing compiles.
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
  std::vector<FdLook> fd_looks;            ///< in time order, thinned beyond a limit
  std::vector<TreeSnapshot> snapshots;     ///< in time order; the last 16, and 8 older ones
  std::vector<SharedFileLook> file_looks;  ///< in time order; 16 of them
  std::vector<ContainerLook> grown;        ///< in time order, thinned beyond a limit
  std::vector<SignalSent> signals;         ///< in time order
  std::vector<KernelLogLine> kernel_log;   ///< in time order
  std::vector<OomCounters> oom_counters;   ///< in time order
  std::vector<StartEvent> start_events;    ///< in time order; the first 5000
  std::vector<TaskFacts> task_facts;       ///< in time order
  std::optional<GateFacts> gate;           ///< of `dlprobe gate`
  std::optional<TuneRequest> tune_request;
  std::optional<SpeedMeasurement> speed;  ///< of a run of `dlprobe tune`
  std::optional<RunEnd> end;

  const ProcessInfo* find_process(const ProcessKey& key) const;
  const ProcessExit* find_exit(const ProcessKey& key) const;
  bool operator==(const Run&) const = default;
};
/// The records that make a run: the kind that each goes by in a file, and what it says.
constexpr void list_fields(auto&& field, Of<Run> /*of*/) {
  field("run", &Run::begin, "begins a run");
  field("process", &Run::processes,
        "a process of the tree, and again when something of it changed");
  field("exit", &Run::exits, "the end of a process");
  field("mount", &Run::mounts, "a /dev/shm");
  field("sample", &Run::samples, "what the kernel said about the whole tree at one moment");
  field("shm", &Run::shm_use, "one statvfs of a /dev/shm, between samples");
  field("ledger", &Run::ledgers, "where the shared memory went");
  field("loader", &Run::loader, "the reference loader's start");
  field("batch", &Run::batches, "one batch that the reference loader consumed");
  field("done", &Run::done, "the reference loader's end");
  field("event", &Run::events, "anything else worth a line on the timeline");
  field("gap", &Run::gaps, "something that could not be looked at");
  field("descriptors", &Run::fd_looks,
        "a closer look at a process whose descriptors grow or come near its limit");
  field("snapshot", &Run::snapshots, "where every thread stood at one moment");
  field("files", &Run::file_looks, "which files several processes share, and who reads them");
  field("grown", &Run::grown,
        "which lists, dicts, sets and deques of a Python process have more items than before");
  field("signal", &Run::signals, "a fatal signal that was sent to a process of the tree");
  field("kernel_log", &Run::kernel_log,
        "a line of the kernel's log that names a process of the tree");
  field("oom", &Run::oom_counters, "counters of OOM kills, when first read and when one has moved");
  field("start", &Run::start_events,
        "what an interpreter of the command, or the reference loader, told about the processes "
        "that it starts, or what the script's text says of them");
  field("tasks", &Run::task_facts,
        "what limits processes and threads: before a command, and when one was refused");
  field("gate", &Run::gate, "what `dlprobe gate` asked the machine");
  field("tune", &Run::tune_request, "of `dlprobe tune`: what was asked and what the machine has");
  field("speed", &Run::speed, "of `dlprobe tune`: the steady state of one run");
  field("end", &Run::end, "ends a run");
}

/// A whole examination.
struct Recording {
  RecordingHeader header;
  std::vector<Run> runs;
  /// The same command once more, with what a remedy changes. What is examined is `runs` alone.
  std::vector<Run> attempts;
  bool truncated = false;        ///< the file ended inside a record or without RunEnd
  uint64_t thinned_records = 0;  ///< how many were dropped to keep memory bounded
  BootNs thinned_at = 0;         ///< when that was last looked at
  bool operator==(const Recording&) const = default;
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
