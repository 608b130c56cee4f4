#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/recording.h"
#include "reports/model/objects/stacks.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// How the reference loader was asked to load.
struct Plan {
  int64_t workers = 0;
  int64_t batch_size = 0;
  std::vector<int64_t> sample_shape;
  std::string dtype;
  int64_t prefetch_factor = 0;
  StartMethod start_method{};
  SharingStrategy sharing_strategy{};
  bool pin_memory = false;
  bool persistent_workers = false;
  int64_t epochs = 0;
  int64_t batches = 0;
  std::string device;
  std::string data_dir;
  std::string fault;
};
constexpr void list_fields(auto&& field, Of<Plan> /*of*/) {
  field("workers", &Plan::workers);
  field("batch_size", &Plan::batch_size);
  field("sample_shape", &Plan::sample_shape);
  field("dtype", &Plan::dtype, Holds::kWord);
  field("prefetch_factor", &Plan::prefetch_factor);
  field("start_method", &Plan::start_method);
  field("sharing_strategy", &Plan::sharing_strategy);
  field("pin_memory", &Plan::pin_memory);
  field("persistent_workers", &Plan::persistent_workers);
  field("epochs", &Plan::epochs);
  field("batches", &Plan::batches);
  field("device", &Plan::device, Holds::kWord);
  field("data_dir", &Plan::data_dir, Holds::kPath);
  field("fault", &Plan::fault, Holds::kWord);
}

/// Why a run ended.
struct RunEnd {
  RunEndReason reason{};
  std::string text;
};
constexpr void list_fields(auto&& field, Of<RunEnd> /*of*/) {
  field("reason", &RunEnd::reason);
  field("text", &RunEnd::text, Holds::kSentence);
}

/// How much shared memory a loader will need.
struct Forecast {
  uint64_t shm_bytes = 0;
  uint64_t batch_bytes = 0;
  uint64_t batches = 0;
  std::string formula;
};
constexpr void list_fields(auto&& field, Of<Forecast> /*of*/) {
  field("shm_bytes", &Forecast::shm_bytes);
  field("batch_bytes", &Forecast::batch_bytes);
  field("batches", &Forecast::batches);
  field("formula", &Forecast::formula, Holds::kWord);
}

/// The limit that the memory comes up against first.
struct MemoryLimit {
  std::string name;
  uint64_t bytes = 0;
  uint64_t left_bytes = 0;
  std::string source;
  Moment seen;
};
constexpr void list_fields(auto&& field, Of<MemoryLimit> /*of*/) {
  field("name", &MemoryLimit::name, Holds::kSentence);
  field("bytes", &MemoryLimit::bytes);
  field("left_bytes", &MemoryLimit::left_bytes);
  field("source", &MemoryLimit::source, Holds::kWord);
  field("seen", &MemoryLimit::seen);
}

/// The worker with the most memory of its own, at its last look.
struct WorkerMemory {
  int64_t pid = 0;
  uint64_t private_bytes = 0;
  uint64_t to_copy_bytes = 0;
  uint64_t more_workers = 0;
  uint64_t more_workers_if_copied = 0;
  Moment seen;
};
constexpr void list_fields(auto&& field, Of<WorkerMemory> /*of*/) {
  field("pid", &WorkerMemory::pid);
  field("private_bytes", &WorkerMemory::private_bytes);
  field("to_copy_bytes", &WorkerMemory::to_copy_bytes,
        "anonymous pages that it still shares by fork, and may copy");
  field("more_workers", &WorkerMemory::more_workers, "left_bytes / private_bytes");
  field("more_workers_if_copied", &WorkerMemory::more_workers_if_copied,
        "left_bytes / (private_bytes + to_copy_bytes)");
  field("seen", &WorkerMemory::seen);
}

/// How near the memory is to its limit.
struct RunMemory {
  MemoryLimit limit;
  std::optional<WorkerMemory> worker;
};
constexpr void list_fields(auto&& field, Of<RunMemory> /*of*/) {
  field("limit", &RunMemory::limit,
        "the nearest limit, as last seen; left_bytes does not count page cache");
  field("worker", &RunMemory::worker,
        "the worker with the most memory of its own, at its last look");
}

/// What became of a command, or of the reference loader, under one start method.
struct Trial {
  StartMethod start_method{};
  bool forced = false;
  uint64_t most_processes = 0;
  uint64_t most_depth = 0;
  TrialOutcome outcome{};
  uint64_t started = 0;
  std::optional<SharingStrategy> sharing_strategy;
  std::optional<uint64_t> workers;
  std::optional<double> first_start_s;
  std::optional<double> first_batch_s;
  std::optional<double> batches_per_s;
  std::optional<double> main_import_s;
  std::optional<uint64_t> pss_of_a_worker_bytes;
};
constexpr void list_fields(auto&& field, Of<Trial> /*of*/) {
  field("start_method", &Trial::start_method);
  field("forced", &Trial::forced, "also where the command names a start method itself");
  field("most_processes", &Trial::most_processes,
        "that may live at once, beside the workers of its largest loader");
  field("most_depth", &Trial::most_depth,
        "how often a process may descend from one that runs the same");
  field("outcome", &Trial::outcome);
  field("started", &Trial::started, "processes that were started by it");
  field("sharing_strategy", &Trial::sharing_strategy);
  field("workers", &Trial::workers, "of every loader; absent: as the command has it");
  field("first_start_s", &Trial::first_start_s);
  field("first_batch_s", &Trial::first_batch_s);
  field("batches_per_s", &Trial::batches_per_s);
  field("main_import_s", &Trial::main_import_s,
        "the longest that a child took for the main module once more");
  field("pss_of_a_worker_bytes", &Trial::pss_of_a_worker_bytes);
}

/// What the reference loader told.
struct Loader {
  std::optional<std::string> device;
  std::optional<std::string> device_name;
  std::optional<std::string> libtorch;
  std::optional<std::string> opencv;
  std::optional<uint64_t> images;
  std::optional<uint64_t> batches_per_epoch;
  std::optional<uint64_t> images_delivered;
  std::optional<double> first_batch_s;
  std::optional<double> images_per_s;
  std::optional<uint64_t> broken_images;
  std::optional<uint64_t> batches_seen;
  std::optional<double> wait_share;
};
constexpr void list_fields(auto&& field, Of<Loader> /*of*/) {
  field("device", &Loader::device, Holds::kWord);
  field("device_name", &Loader::device_name, Holds::kWord);
  field("libtorch", &Loader::libtorch, Holds::kWord);
  field("opencv", &Loader::opencv, Holds::kWord);
  field("images", &Loader::images);
  field("batches_per_epoch", &Loader::batches_per_epoch);
  field("images_delivered", &Loader::images_delivered);
  field("first_batch_s", &Loader::first_batch_s);
  field("images_per_s", &Loader::images_per_s);
  field("broken_images", &Loader::broken_images);
  field("batches_seen", &Loader::batches_seen);
  field("wait_share", &Loader::wait_share,
        "share of the training loop's time spent waiting for data");
}

/// A mount of shared memory, and how full it was.
struct ShmMount {
  std::string mount_point;
  uint64_t device = 0;
  std::string fs_type;
  std::string options;
  int64_t seen_through_pid = 0;
  std::optional<uint64_t> size_bytes;
  std::optional<uint64_t> first_used_bytes;
  std::optional<uint64_t> peak_used_bytes;
  std::optional<Moment> peak;
  std::optional<uint64_t> last_used_bytes;
  std::optional<uint64_t> inodes;
  std::optional<uint64_t> last_inodes_used;
};
constexpr void list_fields(auto&& field, Of<ShmMount> /*of*/) {
  field("mount_point", &ShmMount::mount_point, Holds::kPath);
  field("device", &ShmMount::device);
  field("fs_type", &ShmMount::fs_type, Holds::kWord);
  field("options", &ShmMount::options);
  field("seen_through_pid", &ShmMount::seen_through_pid);
  field("size_bytes", &ShmMount::size_bytes, "absent: no limit");
  field("first_used_bytes", &ShmMount::first_used_bytes);
  field("peak_used_bytes", &ShmMount::peak_used_bytes);
  field("peak", &ShmMount::peak);
  field("last_used_bytes", &ShmMount::last_used_bytes);
  field("inodes", &ShmMount::inodes);
  field("last_inodes_used", &ShmMount::last_inodes_used);
}

/// A process that has segments of a ledger.
struct Holder {
  int64_t pid = 0;
  uint64_t start_ticks = 0;
  std::string comm;
  bool in_tree = false;
  std::optional<Role> role;
  uint64_t bytes = 0;
  uint64_t segments = 0;
};
constexpr void list_fields(auto&& field, Of<Holder> /*of*/) {
  field("pid", &Holder::pid);
  field("start_ticks", &Holder::start_ticks);
  field("comm", &Holder::comm, Holds::kName);
  field("in_tree", &Holder::in_tree);
  field("role", &Holder::role);
  field("bytes", &Holder::bytes);
  field("segments", &Holder::segments);
}

/// A segment of shared memory.
struct Segment {
  uint64_t inode = 0;
  std::optional<std::string> name;
  bool linked = false;
  std::string kind;
  uint64_t bytes = 0;
  std::optional<int64_t> creator_pid;
  CreatorState creator{};
  std::vector<int32_t> holder_pids;
};
constexpr void list_fields(auto&& field, Of<Segment> /*of*/) {
  field("inode", &Segment::inode);
  field("name", &Segment::name, Holds::kPath);
  field("linked", &Segment::linked);
  field("kind", &Segment::kind, Holds::kWord);
  field("bytes", &Segment::bytes);
  field("creator_pid", &Segment::creator_pid);
  field("creator", &Segment::creator);
  field("holder_pids", &Segment::holder_pids);
}

/// Where the shared memory of a mount went.
struct ShmLedger {
  LedgerMoment which{};
  uint64_t device = 0;
  Moment seen;
  uint64_t used_bytes = 0;
  uint64_t named_bytes = 0;
  uint64_t unlinked_open_bytes = 0;
  uint64_t unlinked_mapped_bytes = 0;
  int64_t unexplained_bytes = 0;
  uint64_t segments = 0;
  uint64_t processes_scanned = 0;
  uint64_t processes_unreadable = 0;
  std::vector<Holder> holders;
  std::vector<Segment> largest_segments;
};
constexpr void list_fields(auto&& field, Of<ShmLedger> /*of*/) {
  field("which", &ShmLedger::which);
  field("device", &ShmLedger::device);
  field("seen", &ShmLedger::seen);
  field("used_bytes", &ShmLedger::used_bytes,
        "named + unlinked_open + unlinked_mapped + unexplained");
  field("named_bytes", &ShmLedger::named_bytes);
  field("unlinked_open_bytes", &ShmLedger::unlinked_open_bytes);
  field("unlinked_mapped_bytes", &ShmLedger::unlinked_mapped_bytes);
  field("unexplained_bytes", &ShmLedger::unexplained_bytes);
  field("segments", &ShmLedger::segments);
  field("processes_scanned", &ShmLedger::processes_scanned);
  field("processes_unreadable", &ShmLedger::processes_unreadable);
  field("holders", &ShmLedger::holders);
  field("largest_segments", &ShmLedger::largest_segments);
}

/// One subject examined once.
struct Run {
  uint64_t index = 0;
  SubjectKind subject{};
  std::optional<int64_t> asked_pid;
  std::optional<std::vector<std::string>> command;
  bool preflight = false;
  std::optional<Plan> plan;
  Moment started;
  double duration_s = 0;
  std::optional<RunEnd> end;
  std::optional<uint64_t> shm_peak_bytes;
  std::optional<Forecast> forecast;
  std::optional<double> shm_peak_over_forecast;
  std::optional<uint64_t> rss_sum_peak_bytes;
  std::optional<uint64_t> pss_sum_peak_bytes;
  std::optional<uint64_t> swap_sum_peak_bytes;
  std::optional<uint64_t> fds_of_one_process_peak;
  uint64_t processes_peak = 0;
  uint64_t samples = 0;
  std::optional<RunMemory> memory;
  std::optional<Trial> trial;
  std::optional<Loader> loader;
  std::vector<ShmMount> shm_mounts;
  std::vector<ShmLedger> shm_ledgers;
  std::optional<WaitGraph> wait_graph;
};
constexpr void list_fields(auto&& field, Of<Run> /*of*/) {
  field("index", &Run::index);
  field("subject", &Run::subject);
  field("asked_pid", &Run::asked_pid);
  field("command", &Run::command, Holds::kArgument);
  field("preflight", &Run::preflight, "looked at before anything was started");
  field("plan", &Run::plan);
  field("started", &Run::started);
  field("duration_s", &Run::duration_s);
  field("end", &Run::end, "absent: the recording was cut off");
  field("shm_peak_bytes", &Run::shm_peak_bytes,
        "the highest use of the mount less its use at the start of the run");
  field("forecast", &Run::forecast);
  field("shm_peak_over_forecast", &Run::shm_peak_over_forecast);
  field("rss_sum_peak_bytes", &Run::rss_sum_peak_bytes);
  field("pss_sum_peak_bytes", &Run::pss_sum_peak_bytes);
  field("swap_sum_peak_bytes", &Run::swap_sum_peak_bytes);
  field("fds_of_one_process_peak", &Run::fds_of_one_process_peak);
  field("processes_peak", &Run::processes_peak);
  field("samples", &Run::samples);
  field("memory", &Run::memory,
        "what the memory comes up against first, and what one more worker takes");
  field("trial", &Run::trial,
        "what became of a command, or of the reference loader, under one start method; times count "
        "from its start");
  field("loader", &Run::loader);
  field("shm_mounts", &Run::shm_mounts);
  field("shm_ledgers", &Run::shm_ledgers);
  field("wait_graph", &Run::wait_graph, "where it is not the one at the top level");
}

}  // namespace dlprobe::report
