#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/fields.h"
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
  kMeetsAt,          ///< it finds the others of its job at `path`: it is rank `count` of `workers`
  kJoinedGroup,      ///< it is a rank of a job of torch.distributed: `count`; `workers`: of so many
  kWaitsAtMost,      ///< in collective operations it waits for the other ranks for `seconds`
  kFailed,           ///< an exception ended what `ended` says
  kExits,    ///< a child called sys.exit, a process os._exit or os.abort: `message`; `count`: its
             ///< code
  kCrashed,  ///< a signal ended it that its own code made: `message`; `file`, `raised_in`: where it
             ///< stood; `count`: so many frames are shown of it
  kDraws,    ///< a worker draws from a random generator for its samples
  kSamples,  ///< the samples that a worker read of an IterableDataset
  kRankSamples,       ///< the first that a rank reads in a shuffled order to learn from
  kBatchesSent,       ///< batches that a worker put into its queue, which it may write to again
  kBatchesTaken,      ///< and that the trainer took
  kTensorsSent,       ///< in shared memory that their process wrote to before it sent it again
  kTensorsTaken,      ///< that memory came to another process
  kEpoch,             ///< a loop over a DataLoader began, with gradients
  kPositionMoved,     ///< of the file `shared_file` that a worker reads: others moved it
  kConnectionRead,    ///< a worker reads from a TCP connection of before the fork: `path`
  kResultLost,        ///< an exception of a task, for whose result nobody asked until it was freed
  kSettingChanged,    ///< the trainer changed `path`, of which workers that live on have a copy
  kSettingsKept,      ///< what such a worker has before a later epoch
  kSignals,           ///< it sends process `child` the signal `count`, or itself after `seconds`
  kFileRewritten,     ///< it empties the file `path`, writes it and reads it, again and again
  kSamplesRewritten,  ///< the data set's own memory changes where a sample of it is asked for
  kBytesLost,         ///< it ended with `bytes` that it had written to `path` and not flushed
  kHookFailed,        ///< a part of the shim did not find what it knows; `message`
  kRead,              ///< its text was read, not run; `count` lines make what starts processes
  kForeseen,          ///< by its text, what `cause` says could happen at that line
  kPutInWords,        ///< a child made text of an exception (traceback.format_exc); as of failed
  kCodeRead,          ///< the program asked for the exit code of `child`, which is not 0
};
template <>
struct Names<StartEventKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"interpreter",   "chosen",          "started",
                                       "refused",       "main-imported",   "main-not-imported",
                                       "first-batch",   "loader-made",     "batches",
                                       "mpi-begins",    "mpi-ready",       "meets-at",
                                       "joined-group",  "waits-at-most",   "failed",
                                       "exits",         "crashed",         "draws",
                                       "samples",       "rank-samples",    "batches-sent",
                                       "batches-taken", "tensors-sent",    "tensors-taken",
                                       "epoch",         "position-moved",  "connection-read",
                                       "result-lost",   "setting-changed", "settings-kept",
                                       "signals",       "file-rewritten",  "samples-rewritten",
                                       "bytes-lost",    "hook-failed",     "read",
                                       "foreseen",      "put-in-words",    "code-read"});
};

/// Why a process was not started.
enum class StartRefusal {
  kNone,
  kBootstrapping,  ///< a child that still imports its main module must not start processes
  kDaemonic,       ///< daemonic processes must not have children
  kContextSet,     ///< set_start_method a second time
  kUnpicklable,    ///< something that is to be sent to the process cannot be pickled
  kNotFoundThere,  ///< the process cannot find by its name what it was sent
  kNotRebuilt,     ///< what was pickled cannot be made again by who receives it
  kCudaAfterFork,  ///< CUDA is used in a process that was forked after its initialisation
  kNoProcess,      ///< the kernel had no room for another process
  kNoThread,       ///< or for another thread
  kOther,
};
template <>
struct Names<StartRefusal> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"none", "bootstrapping", "daemonic", "context-set", "unpicklable", "not-found-there",
       "not-rebuilt", "cuda-after-fork", "no-process", "no-thread", "other"});
};

/// What an exception ended.
enum class Ended {
  kNothing,
  kProcess,      ///< the program, or a child of multiprocessing
  kThread,       ///< of the program or of a library
  kWorker,       ///< the work of a DataLoader's worker; its trainer raises it again
  kTask,         ///< of a pool or an executor; who asks for its result has it raised again
  kFeeder,       ///< an item on its way into a queue
  kInitializer,  ///< of the processes of a pool or an executor
};
template <>
struct Names<Ended> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"nothing", "process", "thread", "worker", "task", "feeder", "initializer"});
};

/// A word of the shim in one interpreter (lib/subject/python_shim), or of the reference loader.
/// All text is hostile.
struct StartEvent {
  BootNs at = 0;
  StartEventKind kind = StartEventKind::kInterpreter;
  ProcessKey process;
  std::string method;
  std::string wanted;
  std::optional<int32_t> child_pid;
  StartRefusal cause = StartRefusal::kNone;
  std::string message;
  std::string path;
  std::string type;
  std::string file;
  int32_t line = 0;
  std::string function;
  bool is_main = false;
  std::optional<int64_t> count;
  std::optional<double> seconds;
  std::optional<uint64_t> bytes;
  std::optional<int32_t> workers;
  std::optional<int32_t> prefetch_factor;
  Ended ended = Ended::kNothing;
  std::optional<int32_t> error_number;
  std::optional<uint64_t> limit;
  std::optional<uint64_t> free_bytes;
  std::optional<uint64_t> free_inodes;
  bool is_temporary = false;
  std::optional<uint64_t> made_bytes;
  std::string raised_in;
  std::vector<std::string> chain;
  std::string again;
  std::string shared_file;
  std::string called_at;
  std::optional<uint64_t> loader;
  std::vector<std::string> digests;
  std::optional<uint64_t> different;

  bool operator==(const StartEvent&) const = default;
};
constexpr void list_fields_of_failures(auto&& field) {
  field("ended", &StartEvent::ended, "of failed, or exits in a task of a pool: what ended");
  field("error_number", &StartEvent::error_number,
        "of failed by an OSError, or by what was raised from one: its errno");
  field("limit", &StartEvent::limit,
        "The soft limit of the process by then: of failed by EMFILE of its open files "
        "(RLIMIT_NOFILE), by EFBIG of a file's size (RLIMIT_FSIZE), of no-process and no-thread of "
        "its user's (RLIMIT_NPROC), of a refused "
        "memory what `wanted` names; none: no limit");
  field("free_bytes", &StartEvent::free_bytes,
        "Of failed in a write: left on the file system of `path` when it was told", Unit::kBytes);
  field("free_inodes", &StartEvent::free_inodes, "likewise; none: it does not count them");
  field("temporary", &StartEvent::is_temporary,
        "of failed in a write: `path` is in the folder for temporary files");
  field(
      "made_bytes", &StartEvent::made_bytes,
      "Of such a folder that is full: of the `count` files of its user that were made in it since "
      "the command began",
      Unit::kBytes);
  field("raised_in", &StartEvent::raised_in,
        R"(Of failed: the innermost line of Python, "/usr/lib/python3.11/threading.py:971 start")");
  field("chain", &StartEvent::chain,
        "Of failed: what it was raised from or while handling, each with the user's own line; of "
        "exits what was being handled, likewise; of "
        "samples: checksums of the order of the first 4, 16 and 64");
  field("again", &StartEvent::again,
        "Of failed and result-lost: the class of what another process or thread raised first, or "
        "broke a pool by");
  field("shared", &StartEvent::shared_file,
        "Of failed, in a forked child, and of position-moved: a regular file whose position its "
        "parent has, too; of failed and of connection-read also the other "
        "side of a TCP connection that both have (\"10.0.0.5:443\"); hostile text");
  field(
      "called_at", &StartEvent::called_at,
      "Of failed for want of GPU memory in a torch.nn.Module: the user's own line that called the "
      "outermost one; of a failed task the call of the user's own function, \"decode('a.jpg', "
      "...)\", of "
      "plain values alone; secrets masked, hostile text");
}
constexpr void list_fields_of_data(auto&& field) {
  field("loader", &StartEvent::loader,
        "Of draws, samples, rank-samples, batches-sent, batches-taken, epoch, position-moved, "
        "connection-read, "
        "setting-changed, settings-kept, samples-rewritten: the same "
        "in all workers of one "
        "iterator (the inode "
        "of the pipe into "
        "which they put batches); of tensors-sent and tensors-taken the inode of the memory, of "
        "file-rewritten that of its folder");
  field(
      "digests", &StartEvent::digests,
      "Of draws one: the numbers that the generator gave first in this worker; of samples the "
      "lowest "
      "of their checksums; of rank-samples those of the first samples in order; of batches-sent "
      "and batches-taken each "
      "batch: its number, a checksum of the shapes of its arrays, and one of each array, which is "
      "\"-\" where nothing is said of it; of epoch what its order follows from (\"-\": unknown), "
      "which data, and "
      "which model learns from it (\"-\": none was seen; \"3?\": its backward was, and no write to "
      "it); of setting-changed one: of the path and its old value; of settings-kept one of each "
      "path and value; of tensors-sent when each was and a checksum, of tensors-taken when each "
      "was, and how many of them the process still has that have changed; of file-rewritten when "
      "it "
      "was opened to be emptied, and when it was read after that; of samples-rewritten the index "
      "of "
      "each and its checksum after");
  field("different", &StartEvent::different,
        "Of samples: how many checksums they have; of epoch: how many batches had come when "
        "backward was called first, or came in loops that were left");
}
inline constexpr const char* kWantedIs =
    "Of chosen: what the script asked for; of failed by a refused memory: \"address space\" or "
    "\"data size\", the limit that is nearest, or \"mappings\"; by EMFILE without as many "
    "descriptors what else the limit is of; by EFBIG \"file size\"; of a refused GPU memory "
    "\"graph\" where autograd "
    "kept the graph of a model in eval() mode; \"sender\" of what was sent by a process that "
    "has ended (`child`, where it is known); \"manager\" where a manager's server did not "
    "answer; \"shutdown\" of an exception that a manager was shut down for; \"tracker\" of a block "
    "that the resource tracker of process `child` removed, which "
    "runs `path`; \"lock\" of a lock that is gone, and of position-moved where one guards the "
    "file; \"callback\" of what a Pool's callback raised, which the pool drops; \"stdin\" of a "
    "child that read its empty standard input; of exits \"pool\" in a task of a Pool; "
    "\"interpreter\" or \"executor\" of work that "
    "came after its shutdown; of refused \"fork\" or \"inheritance\", where a lock cannot be "
    "sent; \"module\" where the program's own module `path` hides one of Python's; \"creator\" of "
    "an object that process `child` made and whose forked copy refuses; \"locked\" of a file "
    "`path` that process `child` has locked; of refused "
    "\"elsewhere\" where another process refused; of started \"guard\" where the main module "
    "has no guard; of draws the method that seeds the generator; of loader-made \"stream\"; of "
    "setting-changed the new value; of epoch \"left\", of all loops from a line that were left "
    "early; of samples and failed "
    "\"end\", where the data set has no more after it; of failed \"alike\" or \"batch\" where "
    "torch "
    "made no batch of the samples that `path` tells of: unlike ones, or of such a type";
constexpr void list_fields(auto&& field, Of<StartEvent> /*of*/) {
  field("at", &StartEvent::at, "when it was said", Unit::kMoment);
  field("kind", &StartEvent::kind, "what happened");
  field("key", &StartEvent::process, "whose word it is");
  field("method", &StartEvent::method, R"(start method: "fork", "spawn", "forkserver")");
  field("wanted", &StartEvent::wanted, kWantedIs);
  field("child", &StartEvent::child_pid,
        "of started, signals; of failed by EADDRINUSE: who listens at that port");
  field("cause", &StartEvent::cause, "of a refusal");
  field(
      "message", &StartEvent::message,
      "the exception's type and text, secrets masked; of setting-changed the old value; of samples "
      "the first numbers of the generator that draws them from a buffer");
  field(
      "path", &StartEvent::path,
      R"(Of unpicklable: "dataset.transform.transforms[2].fn"; of failed by a NameError: the )"
      "name, if the main module has it, by an OSError: the file, by EADDRINUSE: what runs there; "
      "of draws "
      R"(the generator: "dataset.transform.rng"; of connection-read "socket:[123]"; of epoch whose generator makes the order, "torch" or )"
      R"("generator", the sampler's own; of meets-at: "10.0.0.5:29500"; of setting-changed: "dataset.epoch")");
  field(
      "type", &StartEvent::type,
      R"(Of failed and result-lost: the exception's class; of unpicklable: "function", "_thread.lock"; of )"
      R"(interpreter: "3.11.2"; of loader-made: torch's sharing strategy at that time; of draws )"
      R"(the generator's class: "numpy.random.Generator"; of epoch the sampler's, if it is PyTorch's own )"
      "and shuffles");
  field("file", &StartEvent::file,
        "The user's own line that did it: the innermost frame outside of the standard library and "
        "site-packages. Empty: there is none. Of not-found-there the main module that the process "
        "imported again. Of draws, samples, position-moved and setting-changed where the data set "
        "makes a sample, of batches-sent where the batch is made, of epoch where the DataLoader "
        "was, or loops began that were left.");
  field("line", &StartEvent::line, "of that file");
  field("function", &StartEvent::function, R"("<module>" at the module's level)");
  field("main", &StartEvent::is_main, "that line is the main module's own");
  field("count", &StartEvent::count,
        "of batches, of mappings where there are no more; of joined-group and meets-at: the rank; "
        "of no-process and no-thread: the processes and threads of its user that it saw; "
        "of failed by EMFILE: of open descriptors, by EADDRINUSE: the port; of samples: how many; "
        "of rank-samples: their order (0: shuffled, 1: the data set's, 2: a stream's); "
        "of draws and settings-kept: which worker, if it is a DataLoader's; of epoch: the seed of "
        "the generator, or how many loops were left; of position-moved: how often the position was "
        "another one than after the "
        "worker's last batch");
  field("seconds", &StartEvent::seconds,
        "Of main-imported; of first-batch since its iterator was made; of batches waited for them; "
        "of epoch likewise for the first ones of loops that were left; of loader-made its timeout, "
        "0: none; of waits-at-most, meets-at; of signals until a "
        "timer of its own ends",
        Unit::kSeconds);
  field("bytes", &StartEvent::bytes,
        "Of main-imported: by which the process's RSS grew; of bytes-lost; of failed by a refused "
        "memory: what is "
        "taken of the limit",
        Unit::kBytes);
  field("workers", &StartEvent::workers,
        "of loader-made; of joined-group and meets-at: ranks of the job");
  field("prefetch_factor", &StartEvent::prefetch_factor, "of loader-made");
  list_fields_of_failures(field);
  list_fields_of_data(field);
}

/// A command or the reference loader, run to see if it can live with a start method, contained: its
/// whole tree is ended when it outgrows what is allowed; a command's also when its time is up.
struct Trial {
  StartMethod start_method = StartMethod::kSpawn;
  std::optional<SharingStrategy> sharing_strategy;
  std::optional<int32_t> workers;
  bool forced = false;
  int32_t most_processes = 0;
  int32_t most_depth = 0;
  bool operator==(const Trial&) const = default;
};
constexpr void list_fields(auto&& field, Of<Trial> /*of*/) {
  field("start_method", &Trial::start_method, "that is tried");
  field("sharing_strategy", &Trial::sharing_strategy, "that is tried; none: as the script has it");
  field("workers", &Trial::workers, "of every DataLoader; none: as the script has it");
  field("forced", &Trial::forced, "also where the script names a start method itself");
  field("most_processes", &Trial::most_processes, "that may live at once");
  field("most_depth", &Trial::most_depth,
        "how often a process may descend from one that runs the same");
}

/// The kinds of the Events of a tree that outgrew its trial.
inline constexpr std::string_view kTooManyProcesses = "too-many-processes";
inline constexpr std::string_view kTooDeep = "too-deep";

}  // namespace dlprobe
